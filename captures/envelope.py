"""Judges one frame by itself: which JSON-RPC message it is, and the first rule of the catalogue that it breaks.

The recorder judges a frame before it is forwarded, and every reader judges it again. `judge` promises never to raise,
regardless of the bytes, to take linear time, and to return the same verdict on either of its two paths:

* the fast path, `flawless`, returns a verdict only if nothing about the frame is odd;
* the exact path, `judge_exactly`, judges all other frames. It walks over the top level and sees what parsers hide:
  duplicate members, the spelling of tokens, numbers of any length, NaN and lone surrogates.

A verdict contains only problems that a single frame proves. Rules that depend on the peer, the revision, the HTTP
status, the end of the stream or another frame belong to the analysis; so do notes. JSON means RFC 8259, and messages
are those of JSON-RPC 2.0 as MCP narrows it.

`lines_members` is for the recorder: it turns many lines into verdicts and then records in a single pass.
"""

from operator import itemgetter
from typing import Any, Final

# A recorder reads the last of mcpproxy's files before it loads orjson: after that, no file can be missing.
from captures.flawless import MAX_METHOD_NAMES, flawless_verdict, read_flawless

# isort: split
from orjson import dumps, loads

from captures.exact_judge import is_too_large_to_judge, judge_exactly, nesting_depth
from captures.limits import (
    MAX_DEPTH,
    MAX_ENVELOPE_TEXT_BYTES,
    MAX_EXACTLY_JUDGED_BYTES,
    MAX_READER_JUDGED_BYTES,
    MAX_RECORDER_JUDGED_BYTES,
    MAX_SAFE_INTEGER,
    MAX_SHORT_CHARS,
    NOTIFICATION_PREFIX,
    RESERVED_PREFIX,
)
from captures.record import line_members
from captures.verdict import UNJUDGED, Direction, Envelope, Unit

__all__ = [
    "MAX_ENVELOPE_TEXT_BYTES",
    "MAX_READER_JUDGED_BYTES",
    "MAX_RECORDER_JUDGED_BYTES",
    "judge",
    "judge_and_read_part",
    "judge_before_forwarding",
    "judge_exactly",
    "lines_members",
]

_MAX_SHALLOW_BYTES: Final = 2 * MAX_DEPTH  # bytes; no frame up to this size can nest too deeply


def judge(
    raw: bytes,
    direction: Direction = "c2s",
    unit: Unit = "line",
    *,
    whole: bool = True,
    limit: int = MAX_RECORDER_JUDGED_BYTES,
) -> Envelope:
    """Returns the verdict on a frame: by the fast path if it is a flawless message, else by the exact path.

    Args:
        raw: the frame's bytes, without the delimiter.
        direction: the direction of the frame, which decides the rule that a line breaks if it is not JSON.
        unit: the unit of the frame; the rules about lines apply to `line` only.
        whole: False if the stream ended before the delimiter.
        limit: the size in bytes above which the verdict is `unjudged`; a frame of more than a million values is
            `unjudged`, too.
    """
    if is_too_large_to_judge(raw, limit):
        return UNJUDGED
    return (flawless_verdict(raw) if whole else None) or judge_exactly(raw, direction, unit, whole=whole, limit=limit)


def judge_and_read(
    raw: bytes, direction: Direction, unit: Unit, *, whole: bool, limit: int
) -> tuple[Envelope, dict[str, Any] | None, bool]:
    """Returns the verdict; for a flawless message, also the message, and whether orjson would write the same bytes."""
    if is_too_large_to_judge(raw, limit):
        return UNJUDGED, None, False
    message = read_flawless(raw) if whole else None
    return message or (judge_exactly(raw, direction, unit, whole=whole, limit=limit), None, False)


def judge_and_read_part(
    raw: bytes, direction: Direction, unit: Unit, limit: int = MAX_READER_JUDGED_BYTES
) -> tuple[Envelope, dict[str, Any] | None]:
    """Returns the verdict, without problems, on the part of a message in an imported log, and the message if flawless.

    The verdict is `unjudged` unless the part is a message by itself.
    """
    envelope, body, _ = judge_and_read(raw, direction, unit, whole=True, limit=limit)
    if envelope.kind in ("batch", "invalid", "unjudged"):
        return UNJUDGED, None
    return envelope if envelope.problem is None else envelope._replace(problem=None), body


def judge_before_forwarding(
    raw: bytes, direction: Direction = "c2s", unit: Unit = "line", *, whole: bool = True
) -> Envelope:
    """Returns the verdict on a frame that waits to be forwarded; `unjudged` if the exact path would take too long."""
    fast_verdict = flawless_verdict(raw) if whole and len(raw) <= MAX_RECORDER_JUDGED_BYTES else None
    return fast_verdict or judge_exactly(raw, direction, unit, whole=whole, limit=MAX_EXACTLY_JUDGED_BYTES)


# --- many lines at once ----------------------------------------------------------------------------------------------

# One call returns all members or raises KeyError, in half the time of looking up and testing each.
_request_members: Final = itemgetter("jsonrpc", "params", "method", "id")
_notification_members: Final = itemgetter("jsonrpc", "params", "method")
_response_members: Final = itemgetter("jsonrpc", "result", "id")


def _templates(direction: Direction) -> tuple[bytes, bytes, bytes]:
    """Returns the `%` templates of a request, a notification and a result: id token, method, size and text.

    For notifications, `%.0b` consumes the token and writes nothing, so all three are filled in the same way.
    """
    start, end = b',"dir":"%b","kind":' % direction.encode(), b',"size":%d,"raw":%b'
    middles = (b'"request","id":%b%b', b'"notification"%.0b%b', b'"response","id":%b%b')
    request, notification, response = (start + kind + end for kind in middles)
    return request, notification, response


_TEMPLATES: Final[dict[Direction, tuple[bytes, bytes, bytes]]] = {"c2s": _templates("c2s"), "s2c": _templates("s2c")}


class MethodMembers(dict[object, bytes]):
    """The member `method` of a record, by the method's name: a peer uses few names, so each is escaped once.

    A name that must be examined more closely raises KeyError. If a peer invents names, the first `MAX_METHOD_NAMES` are
    kept.
    """

    def __init__(self, *odd: str) -> None:
        super().__init__()
        self._odd = odd

    def __missing__(self, method: object) -> bytes:
        if type(method) is not str or not 0 < len(method) <= MAX_SHORT_CHARS or method.startswith(self._odd):
            raise KeyError(method)
        member = b',"method":%b' % dumps(method)
        if len(self) < MAX_METHOD_NAMES:
            self[method] = member
        return member


_request_methods: Final = MethodMembers(NOTIFICATION_PREFIX, RESERVED_PREFIX)
_notification_methods: Final = MethodMembers(RESERVED_PREFIX)


def lines_members(direction: Direction, lines: list[bytes]) -> list[bytes]:
    """Returns the middles of the `frame` records for several lines that wait to be forwarded, all of which ended in LF.

    The result is the same as from `line_members` with the verdict of `judge_before_forwarding`. These two functions
    handle each line that is not a request, notification or result with only the usual members and nothing odd about it.
    In a flood, nearly all lines are plain, and cost a quarter less without a Python call and an envelope for each.
    """
    request, notification, response = _TEMPLATES[direction]
    middles = []
    for raw in lines:
        size = len(raw)
        if size <= _MAX_SHALLOW_BYTES or (size <= MAX_RECORDER_JUDGED_BYTES and nesting_depth(raw) <= MAX_DEPTH):
            try:
                message = loads(raw)
                count = len(message)
                if count == 4:
                    version, value, method, raw_id = _request_members(message)
                    template, method_member = request, _request_methods[method]
                elif count == 3 and "result" in message:
                    version, value, raw_id = _response_members(message)
                    template, method_member = response, b""
                elif count == 3:
                    version, value, method = _notification_members(message)
                    template, method_member, raw_id = notification, _notification_methods[method], 0
                else:
                    raise KeyError
                if (
                    version == "2.0"
                    and type(value) is dict
                    and (
                        -MAX_SAFE_INTEGER <= raw_id <= MAX_SAFE_INTEGER
                        if type(raw_id) is int
                        else type(raw_id) is str and len(raw_id) <= MAX_SHORT_CHARS
                    )
                    # If orjson would write the same bytes, no member occurs twice, and all tokens are spelt as orjson
                    # spells them. Most peers write JSON like this, and no proof is cheaper.
                    and dumps(message) == raw
                ):
                    middles.append(template % (dumps(raw_id), method_member, size, dumps(raw.decode())))
                    continue
            except (KeyError, TypeError, ValueError):
                pass
        middles.append(line_members(direction, raw, judge_before_forwarding(raw, direction)))
    return middles
