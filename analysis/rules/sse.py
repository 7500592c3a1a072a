"""The group `sse`: streams of events of Streamable HTTP, and how they are taken up again."""

from analysis.rules.sse_events import DataNotJson, EventType, NoPrimingEvent, UnterminatedEvent
from analysis.rules.sse_resumption import (
    ClosedWithoutRetry,
    DuplicateEventId,
    ReplayFromOtherStream,
    ReplayOfSeen,
    ReplayWithoutRequest,
    ResumeNotGet,
    ResumptionInModern,
    RetryIgnored,
    UnknownLastEventId,
)

__all__ = [
    "ClosedWithoutRetry",
    "DataNotJson",
    "DuplicateEventId",
    "EventType",
    "NoPrimingEvent",
    "ReplayFromOtherStream",
    "ReplayOfSeen",
    "ReplayWithoutRequest",
    "ResumeNotGet",
    "ResumptionInModern",
    "RetryIgnored",
    "UnknownLastEventId",
    "UnterminatedEvent",
]
