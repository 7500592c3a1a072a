"""Words a miss: the error that answers a request that was not recorded, and the line for stderr."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

from analysis.comparison.requests import bounded, subject_of
from analysis.comparison.values.ignored_places import place_line
from analysis.playback.nearest import NearestRequest
from analysis.protocol.error_codes import INTERNAL_ERROR, NOT_RECORDED
from mcpproxy.sanitise import sanitise

REASON: Final = "not-recorded"
"""The member `mcpproxy` of the error's data, by which programs tell a miss from a recorded error."""
FAILURE_REASON: Final = "not-passed"
"""The same member if the real server gave no answer."""
_MAX_POINTERS: Final = 3
"""The maximum number of pointers in a sentence; the data has all."""
_MAX_SUBJECT_CHARS: Final = 200
_MAX_POINTER_CHARS: Final = 100
_MAX_QUOTED_CHARS: Final = 60
"""Longer pointers may have been truncated."""


def miss_response(
    id_token: bytes, method: str, name: str, nearest: NearestRequest | None, code: int = NOT_RECORDED
) -> bytes:
    """Returns the JSON-RPC error that answers a request that was not recorded.

    Args:
        id_token: the id of the request as its JSON token.
        method: its method. Untrusted text.
        name: the tool, prompt or URI that it names; empty if it names none. Untrusted text.
        nearest: the recorded request that differs least, if there is one.
        code: the error code.
    """
    data: dict[str, Any] = {"mcpproxy": REASON, "method": bounded(method)}
    if name:
        data["name"] = bounded(name)
    if nearest is not None:
        data["nearest"] = {
            **({} if nearest.session is None else {"session": nearest.session}),
            "frame": nearest.seq,
            "method": nearest.method,
            "name": nearest.name,
            "differences": list(_differences(nearest)),
        }
    error = {"code": code, "message": f"mcpproxy mock: {_sentence(method, name, nearest)}", "data": data}
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_token, orjson.dumps(error))


def failure_response(id_token: bytes, reason: str) -> bytes:
    """Returns the JSON-RPC error that answers a request to which the real server gave no answer.

    Args:
        id_token: the id of the request as its JSON token.
        reason: what went wrong, as a clause. Untrusted text.
    """
    message = f"mcpproxy mock: no answer was recorded, and the real server gave none: {sanitise(reason)}"
    error = {"code": INTERNAL_ERROR, "message": message, "data": {"mcpproxy": FAILURE_REASON}}
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_token, orjson.dumps(error))


def miss_line(method: str, name: str, nearest: NearestRequest | None) -> str:
    """Returns one line for stderr about a request that was not recorded; it is sanitised."""
    return sanitise(_sentence(method, name, nearest))


def failure_line(method: str, name: str, reason: str) -> str:
    """Returns one line for stderr about a request that the real server did not answer; it is sanitised."""
    return sanitise(f"{_lead(subject_of(bounded(method), bounded(name)))}, and the real server gave none: {reason}")


def _differences(nearest: NearestRequest) -> Iterable[dict[str, str]]:
    """Yields each place that differs; a value that is absent has no member."""
    for pointer, (recorded, present) in zip(nearest.pointers, nearest.values, strict=True):
        values = {"recorded": recorded, "present": present}
        yield {"pointer": pointer} | {member: value for member, value in values.items() if value is not None}


def _sentence(method: str, name: str, nearest: NearestRequest | None) -> str:
    subject = subject_of(bounded(method), bounded(name))
    lead = _lead(subject)
    if nearest is None:
        return f"{lead}, and no request of this method was recorded; record it, or use --on-miss pass"
    session = "" if nearest.session is None else f"in session {nearest.session}, "
    frame = f"{session}frame {nearest.seq}"
    nearest_subject = subject_of(nearest.method, nearest.name)
    if nearest.is_next:
        next_subject = sanitise(nearest_subject, _MAX_SUBJECT_CHARS)
        return f"{lead} at this point; {frame} comes next, {next_subject}; --match arguments allows any order"
    if nearest_subject != subject:
        shown_subject = sanitise(nearest_subject, _MAX_SUBJECT_CHARS)
        return f"{lead}; the nearest is {frame}, {shown_subject}; record it, or use --on-miss pass"
    if not nearest.pointers and nearest.session is not None:
        return f"{lead} in this session; {frame} asks for the same; --session {nearest.session} begins there"
    if not nearest.pointers:
        return f"{lead} at this point; {frame} asks for the same; --match arguments allows any order"
    pointers = [sanitise(pointer, _MAX_POINTER_CHARS) or '""' for pointer in nearest.pointers]
    hidden_count = len(pointers) - _MAX_POINTERS
    places = ", ".join(pointers[:_MAX_POINTERS]) + (f" and {hidden_count} more" if hidden_count > 0 else "")
    return f"{lead}; the nearest is {frame}, which differs at {places}; {_advice(method, name, nearest.pointers)}"


def _lead(subject: str) -> str:
    return f"no recorded answer for {sanitise(subject, _MAX_SUBJECT_CHARS)}"


def _advice(method: str, name: str, pointers: Sequence[str]) -> str:
    is_short = len(name) <= _MAX_QUOTED_CHARS and all(0 < len(pointer) <= _MAX_QUOTED_CHARS for pointer in pointers)
    if is_short and len(pointers) <= _MAX_POINTERS:
        places = [shlex.quote(place_line(bounded(method), bounded(name), pointer)) for pointer in pointers]
        options = " ".join(f"--ignore {place}" for place in places)
        difference = "difference" if len(places) == 1 else "differences"
        return f"record it, allow the {difference} with {options}, or use --on-miss pass"
    return "record it, or use --on-miss pass"
