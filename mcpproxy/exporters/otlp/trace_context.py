"""The trace to which a call belongs: as `_meta` names it (SEP-414), or else the head of its HTTP request.

A client that traces its calls puts a context for each of them into `_meta`. One that traces only HTTP, or a gateway,
puts it into the head of the HTTP request, which may carry several calls. So `_meta` comes first. A `traceparent` that
is not valid is ignored, and so is its `tracestate` (W3C Trace Context).
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.call import Call
from analysis.facts import MAX_TRACEPARENT_CHARS
from captures.trace_context import tracestate_members

# W3C Trace Context, 3.2: later versions may have more fields. Version ff is invalid, and so are ids that are all zeros.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)


class TraceContext(NamedTuple):
    """The place of a request in a trace."""

    trace_id: bytes
    parent_id: bytes
    """The id of the span that caused the request."""
    state: str
    """Its `tracestate`, without white space and empty members; empty if there is none, or none that is valid."""


def trace_context_of(call: Call) -> TraceContext | None:
    """Returns the trace context of a call's request, or None if its request names none."""
    for traceparent, tracestate in _carried(call):
        ids = parse_traceparent(traceparent)
        if ids is not None:
            return TraceContext(*ids, _valid_state(tracestate))
    return None


def parse_traceparent(value: Any) -> tuple[bytes, bytes] | None:
    """Parse a traceparent; returns the ids of the trace and of the parent span, or None if the value is not valid."""
    if not isinstance(value, str) or len(value) > MAX_TRACEPARENT_CHARS:
        return None
    match = _TRACEPARENT.fullmatch(value)
    if match is None or (value.startswith("00-") and match[4]):
        return None
    return bytes.fromhex(match[1]), bytes.fromhex(match[2])


def _carried(call: Call) -> Iterator[tuple[Any, Any]]:
    """Yields each `traceparent` that applies to a request, with its `tracestate`; they may be anything."""
    meta, http = call.request.meta, call.http
    yield meta.get("traceparent"), meta.get("tracestate")
    # The head that came before a request of the server is the client's, and about another request.
    if http is not None and call.request.sender == "client" and "traceparent" not in http.repeated_fields:
        is_state_whole = "tracestate" not in http.repeated_fields
        yield http.fields.get("traceparent"), http.fields.get("tracestate") if is_state_whole else None


def _valid_state(tracestate: Any) -> str:
    members = tracestate_members(tracestate.encode("utf-8", "replace")) if isinstance(tracestate, str) else None
    return b",".join(members or ()).decode()
