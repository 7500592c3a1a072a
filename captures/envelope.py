"""Judges one frame by itself: which JSON-RPC message it is, and the first rule of the catalogue that it breaks.

The recorder judges a frame before it is forwarded, and every reader judges it again. `judge` promises never to raise,
regardless of the bytes, to take time linear in their number, and to return the same verdict on either of its two paths:

* the fast path, `flawless`, returns a verdict only if nothing about the frame is odd;
* the exact path, `judge_exactly`, decides everything else by a walk over the top level that sees what parsers hide:
  duplicate members, tokens as they were spelt, numbers of any length, NaN, lone surrogates.

A problem here is one that a single frame proves. Rules that need the peer, the revision, the HTTP status, who ended
the stream or another frame belong to the analysis; so do notes. JSON is that of RFC 8259, messages are those of
JSON-RPC 2.0 as MCP narrows it.

`lines_members` is for the recorder: it turns many lines into verdicts and then records in a single pass.
"""

from operator import itemgetter
from typing import Any, Final

# A recorder reads the last of our files before it loads orjson: from then on none can be missing.
from captures.flawless import MAX_METHOD_NAMES, read, verdict

# isort: split
from orjson import dumps, loads

from captures.exact_judge import is_too_large_to_judge, judge_exactly, nesting_depth
from captures.limits import (
    DEEP,
    EXACT_JUDGE_LIMIT,
    MAX_ENVELOPE_TEXT_BYTES,
    MAX_READER_JUDGED_BYTES,
    MAX_RECORDER_JUDGED_BYTES,
    NOTIFICATIONS,
    RESERVED,
    SAFE,
    SHORT,
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

_SHALLOW: Final = 2 * DEEP  # bytes that cannot hold more levels


def judge(
    raw: bytes,
    direction: Direction = "c2s",
    unit: Unit = "line",
    *,
    whole: bool = True,
    limit: int = MAX_RECORDER_JUDGED_BYTES,
) -> Envelope:
    """The verdict on one frame: by the fast path if it is a flawless request, notification or result, else exactly.

    Args:
        raw: the frame's bytes, without the delimiter.
        direction: who sent it; decides which rule a line breaks if it is not JSON.
        unit: what delimits it; the rules about lines hold for `line` only.
        whole: false where the stream ended before the delimiter.
        limit: bytes above which the verdict is `unjudged`; a frame of more than a million values is `unjudged`, too.
    """
    if is_too_large_to_judge(raw, limit):
        return UNJUDGED
    return (verdict(raw) if whole else None) or judge_exactly(raw, direction, unit, whole=whole, limit=limit)


def judge_and_read(
    raw: bytes, direction: Direction, unit: Unit, *, whole: bool, limit: int
) -> tuple[Envelope, dict[str, Any] | None, bool]:
    """The same verdict; for a flawless message, also the message, and whether orjson would write the same bytes."""
    if is_too_large_to_judge(raw, limit):
        return UNJUDGED, None, False
    message = read(raw) if whole else None
    return message or (judge_exactly(raw, direction, unit, whole=whole, limit=limit), None, False)


def judge_and_read_part(
    raw: bytes, direction: Direction, unit: Unit, limit: int = MAX_READER_JUDGED_BYTES
) -> tuple[Envelope, dict[str, Any] | None]:
    """The verdict on what an imported log has of a message, without problems, and the message if it is flawless.

    It is `unjudged` unless that is a message itself, with the members that are known.
    """
    envelope, body, _ = judge_and_read(raw, direction, unit, whole=True, limit=limit)
    if envelope.kind in ("batch", "invalid", "unjudged"):
        return UNJUDGED, None
    return envelope if envelope.problem is None else envelope._replace(problem=None), body


def judge_before_forwarding(
    raw: bytes, direction: Direction = "c2s", unit: Unit = "line", *, whole: bool = True
) -> Envelope:
    """The verdict on a frame that waits to be forwarded: by the fast path, exactly if that is quick, or `unjudged`."""
    at_once = verdict(raw) if whole and len(raw) <= MAX_RECORDER_JUDGED_BYTES else None
    return at_once or judge_exactly(raw, direction, unit, whole=whole, limit=EXACT_JUDGE_LIMIT)


# --- many lines at once ----------------------------------------------------------------------------------------------

# One call takes all members or raises KeyError, in half the time of a look-up and a test for each.
_of_request: Final = itemgetter("jsonrpc", "params", "method", "id")
_of_notification: Final = itemgetter("jsonrpc", "params", "method")
_of_response: Final = itemgetter("jsonrpc", "result", "id")


def _forms(direction: Direction) -> tuple[bytes, bytes, bytes]:
    """A request, a notification and a result as `%` fills them in: the id's token, the method, the size, the text.

    `%.0b` consumes the token and writes nothing, for notifications, so that all three are filled in the same way.
    """
    start, end = b',"dir":"%b","kind":' % direction.encode(), b',"size":%d,"raw":%b'
    kinds = (b'"request","id":%b%b', b'"notification"%.0b%b', b'"response","id":%b%b')
    request, notification, response = (start + kind + end for kind in kinds)
    return request, notification, response


_FORMS: Final[dict[Direction, tuple[bytes, bytes, bytes]]] = {"c2s": _forms("c2s"), "s2c": _forms("s2c")}


class Methods(dict[object, bytes]):
    """The member `method` of a record, by the method's name: a peer uses few names, so each is escaped once.

    A name that needs a closer look raises KeyError. If a peer invents names, the first `MAX_METHOD_NAMES` are kept.
    """

    def __init__(self, *odd: str) -> None:
        super().__init__()
        self._odd = odd

    def __missing__(self, method: object) -> bytes:
        if type(method) is not str or not 0 < len(method) <= SHORT or method.startswith(self._odd):
            raise KeyError(method)
        member = b',"method":%b' % dumps(method)
        if len(self) < MAX_METHOD_NAMES:
            self[method] = member
        return member


_requested: Final = Methods(NOTIFICATIONS, RESERVED)
_notified: Final = Methods(RESERVED)


def lines_members(direction: Direction, lines: list[bytes]) -> list[bytes]:
    """The middle of the `frame` record for each of several lines that wait to be forwarded, all of which ended in LF.

    The result is the same as from `line_members` with the verdict of `judge_before_forwarding`. Those two handle every
    line except a request, a notification or a result that has only the usual members and nothing odd about it. In a
    flood nearly all lines are like that, and cost a quarter less without a Python call and an envelope for each.
    """
    request, notification, response = _FORMS[direction]
    middles = []
    for raw in lines:
        size = len(raw)
        if size <= _SHALLOW or (size <= MAX_RECORDER_JUDGED_BYTES and nesting_depth(raw) <= DEEP):
            try:
                read = loads(raw)
                count = len(read)
                if count == 4:
                    version, value, method, ident = _of_request(read)
                    form, named = request, _requested[method]
                elif count == 3 and "result" in read:
                    version, value, ident = _of_response(read)
                    form, named = response, b""
                elif count == 3:
                    version, value, method = _of_notification(read)
                    form, named, ident = notification, _notified[method], 0
                else:
                    raise KeyError
                if (
                    version == "2.0"
                    and type(value) is dict
                    and (-SAFE <= ident <= SAFE if type(ident) is int else type(ident) is str and len(ident) <= SHORT)
                    # If orjson would write the same bytes, no member occurs twice, and all tokens are as orjson spells
                    # them. Most peers write like this, and no proof is cheaper.
                    and dumps(read) == raw
                ):
                    middles.append(form % (dumps(ident), named, size, dumps(raw.decode())))
                    continue
            except (KeyError, TypeError, ValueError):
                pass
        middles.append(line_members(direction, raw, judge_before_forwarding(raw, direction)))
    return middles
