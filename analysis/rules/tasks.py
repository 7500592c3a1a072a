"""The group `tasks`: work that either side goes on with after its request was answered, as in 2025-11-25."""

from analysis.rules.tasks_asked import (
    CancelNotCancelled,
    CancelOfTerminalAccepted,
    ErrorCode,
    PollTooFast,
    ProgressAfterTerminal,
    UnknownTask,
)
from analysis.rules.tasks_calls import (
    CreatedUnasked,
    DuplicateId,
    ForbiddenTool,
    InitialStatus,
    NotCreated,
    RequiredNotRefused,
    RequiredTool,
    UnsupportedMethod,
)
from analysis.rules.tasks_related import (
    RelatedTaskMissing,
    RelatedTaskRedundant,
    RelatedTaskUnknown,
)
from analysis.rules.tasks_results import (
    ErrorNotFailed,
    ResultShape,
    ResultTooEarly,
    ResultWithoutRelatedTask,
)
from analysis.rules.tasks_told import (
    CreatedAtChanged,
    FailedWithoutMessage,
    InvalidShape,
    MissingFromList,
    StatusFromRequestor,
    TerminalChanged,
)

__all__ = [
    "CancelNotCancelled",
    "CancelOfTerminalAccepted",
    "CreatedAtChanged",
    "CreatedUnasked",
    "DuplicateId",
    "ErrorCode",
    "ErrorNotFailed",
    "FailedWithoutMessage",
    "ForbiddenTool",
    "InitialStatus",
    "InvalidShape",
    "MissingFromList",
    "NotCreated",
    "PollTooFast",
    "ProgressAfterTerminal",
    "RelatedTaskMissing",
    "RelatedTaskRedundant",
    "RelatedTaskUnknown",
    "RequiredNotRefused",
    "RequiredTool",
    "ResultShape",
    "ResultTooEarly",
    "ResultWithoutRelatedTask",
    "StatusFromRequestor",
    "TerminalChanged",
    "UnknownTask",
    "UnsupportedMethod",
]
