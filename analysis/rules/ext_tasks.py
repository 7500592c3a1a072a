"""The group `ext-tasks`: tasks since 2026-07-28, which are an extension that only servers execute."""

from analysis.rules.ext_tasks_declared import (
    ClientUndeclared,
    Undeclared,
    UndeclaredServed,
    UnlistenedNotification,
    UnsupportedMethod,
)
from analysis.rules.ext_tasks_keys import KeyReused, UnknownKey
from analysis.rules.ext_tasks_told import (
    AcknowledgementNotEmpty,
    InvalidShape,
    NotFoundCode,
    PollTooFast,
    ResultType,
    TerminalChanged,
)

__all__ = [
    "AcknowledgementNotEmpty",
    "ClientUndeclared",
    "InvalidShape",
    "KeyReused",
    "NotFoundCode",
    "PollTooFast",
    "ResultType",
    "TerminalChanged",
    "Undeclared",
    "UndeclaredServed",
    "UnknownKey",
    "UnlistenedNotification",
    "UnsupportedMethod",
]
