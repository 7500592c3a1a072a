"""The group `cancel`: requests that are taken back."""

from analysis.rules.cancel_after import ByDisconnect, MessageAfterCancel, Posted, ResponseAfterCancel, Twice
from analysis.rules.cancel_named import (
    AlreadyAnswered,
    ByServer,
    IdTypeChanged,
    Initialize,
    TaskCancelled,
    UnknownRequest,
    WrongDirection,
)

__all__ = [
    "AlreadyAnswered",
    "ByDisconnect",
    "ByServer",
    "IdTypeChanged",
    "Initialize",
    "MessageAfterCancel",
    "Posted",
    "ResponseAfterCancel",
    "TaskCancelled",
    "Twice",
    "UnknownRequest",
    "WrongDirection",
]
