"""The group `capability`: what each side has declared that it can do, and who goes beyond it."""

from analysis.rules.capability_asked import (
    DeclaredNotServed,
    ServedUndeclared,
    UndeclaredCompletions,
    UndeclaredLogging,
    UndeclaredPrompts,
    UndeclaredResources,
    UndeclaredSubscribe,
    UndeclaredTools,
)
from analysis.rules.capability_declared import (
    ElicitationWithoutMode,
    FlagNotBoolean,
    LegacyTasks,
    NotAnObject,
    UnknownCapability,
)
from analysis.rules.capability_needed import (
    UndeclaredAccepted,
    UndeclaredElicitation,
    UndeclaredElicitationMode,
    UndeclaredRoots,
    UndeclaredSampling,
    UndeclaredSamplingContext,
    UndeclaredSamplingTools,
)
from analysis.rules.capability_told import (
    UndeclaredListChanged,
    UndeclaredLogMessages,
    UndeclaredResourceUpdates,
    UndeclaredRootsChanged,
    UndeclaredTask,
    UndeclaredTasksMethod,
)

__all__ = [
    "DeclaredNotServed",
    "ElicitationWithoutMode",
    "FlagNotBoolean",
    "LegacyTasks",
    "NotAnObject",
    "ServedUndeclared",
    "UndeclaredAccepted",
    "UndeclaredCompletions",
    "UndeclaredElicitation",
    "UndeclaredElicitationMode",
    "UndeclaredListChanged",
    "UndeclaredLogMessages",
    "UndeclaredLogging",
    "UndeclaredPrompts",
    "UndeclaredResourceUpdates",
    "UndeclaredResources",
    "UndeclaredRoots",
    "UndeclaredRootsChanged",
    "UndeclaredSampling",
    "UndeclaredSamplingContext",
    "UndeclaredSamplingTools",
    "UndeclaredSubscribe",
    "UndeclaredTask",
    "UndeclaredTasksMethod",
    "UndeclaredTools",
    "UnknownCapability",
]
