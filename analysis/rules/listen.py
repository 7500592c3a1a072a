"""The group `listen`: `subscriptions/listen`, the one request by which a client is told of changes since 2026-07-28."""

from analysis.rules.listen_begin import (
    AcknowledgedLess,
    AcknowledgedMore,
    DuplicateAcknowledgement,
    EmptyFilter,
    NeverAcknowledged,
    NotAcknowledgedFirst,
)
from analysis.rules.listen_end import AbruptEnd, AfterEnd, EndedByCancelOnly, ResultWithoutSubscriptionId
from analysis.rules.listen_told import (
    MissingSubscriptionId,
    OutsideSubscription,
    RequestScopedOnListen,
    UnacknowledgedType,
    UnknownSubscriptionId,
    UnrequestedType,
    UnrequestedUri,
)

__all__ = [
    "AbruptEnd",
    "AcknowledgedLess",
    "AcknowledgedMore",
    "AfterEnd",
    "DuplicateAcknowledgement",
    "EmptyFilter",
    "EndedByCancelOnly",
    "MissingSubscriptionId",
    "NeverAcknowledged",
    "NotAcknowledgedFirst",
    "OutsideSubscription",
    "RequestScopedOnListen",
    "ResultWithoutSubscriptionId",
    "UnacknowledgedType",
    "UnknownSubscriptionId",
    "UnrequestedType",
    "UnrequestedUri",
]
