"""The trace to which a call belongs, as its request says it, with the `tracestate` next to its `traceparent`."""

from typing import Any, NamedTuple

from analysis.conversation.call import Call
from analysis.conversation.trace_context import traceparent_of
from captures.trace_context import tracestate_members


class TraceContext(NamedTuple):
    """The place of a request in a trace."""

    trace_id: bytes
    parent_id: bytes
    """The id of the span that caused the request."""
    state: str
    """Its `tracestate`, without white space and empty members; empty if there is none, or none that is valid."""


def trace_context_of(call: Call) -> TraceContext | None:
    """Returns the trace context of a call's request, or None if its request names none."""
    # The head that came before a request of the server is the client's, and about another request.
    http = call.http if call.request.sender == "client" else None
    traceparent = traceparent_of(call.request, None if http is None else http.single_field("traceparent"))
    if traceparent is None:
        return None
    if http is not None and traceparent.is_in_head:
        state = http.single_field("tracestate")
    else:
        state = call.request.meta.get("tracestate")
    return TraceContext(bytes.fromhex(traceparent.trace_id), bytes.fromhex(traceparent.parent_id), _valid_state(state))


def _valid_state(tracestate: Any) -> str:
    members = tracestate_members(tracestate.encode("utf-8", "replace")) if isinstance(tracestate, str) else None
    return b",".join(members or ()).decode()
