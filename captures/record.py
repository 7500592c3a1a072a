"""One record, one line: pure encoding and decoding as FORMAT.md says, with no file and no clock.

Encoding has two halves, because number and stamp are taken late, under a lock, and the rest should be ready by then:
`members()` and `frame_members()` make the middle of a line, `seal()` puts number, stamp and checksum around it.

This module is on the path on which an MCP client waits for its server, so it loads next to nothing.
`use_orjson()` makes string escaping fast once orjson has been loaded.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Sequence
from zlib import crc32

from captures.frame import C2S, S2C, UNJUDGED, Direction, Envelope, Unit
from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

try:
    from _json import encode_basestring
except ImportError:
    from json.encoder import py_encode_basestring as encode_basestring

quote: Final[Callable[[str], str]] = encode_basestring
"""A text as a JSON string that is not ASCII only."""

MAX_LINE: Final = 8 << 20
"""No line is longer, in bytes, its LF included."""
MAX_RAW: Final = 1 << 20
"""A frame of more bytes is written as parts. A control character takes six bytes in JSON.

So 1 MiB always fits into a line.
"""

_KINDS: Final = ("request", "response", "error", "notification", "batch", "invalid", "unjudged")
_NAMES: Final = {name: name.encode() for name in ("frame", "part", "stall", "stderr", C2S, S2C, *_KINDS)}

LINE_START: Final = b'{"seq":'
CRC_MARK: Final = b',"crc":"'
CRC_TAIL: Final = len(CRC_MARK) + len('01234567"}')

_escape: Callable[[str], bytes]


def _escape_slowly(text: str) -> bytes:
    return quote(text).encode()


_escape = _escape_slowly


def use_orjson() -> None:
    """Write JSON with orjson from now on: strings in a third of the time, header lists in a tenth.

    Raises:
        ImportError: orjson is not there; the slower way goes on working.
    """
    global _encode, _escape
    from orjson import JSONEncodeError, dumps

    def encode(value: dict[str, object]) -> bytes:
        try:
            return dumps(value)
        except JSONEncodeError:  # bytes, half a surrogate pair, or an integer above 64 bits
            return _encode_slowly(value)

    _encode, _escape = encode, dumps


class Record(NamedTuple):
    """One line of a capture, whole and with the right checksum."""

    seq: int
    """Its number in the capture."""
    rec: str
    """Its type; readers skip the ones that they do not know."""
    t_ns: int
    """Nanoseconds since the capture opened."""
    members: dict[str, Any]
    """All members as parsed, `seq`, `rec` and `t_ns` among them."""
    offset: int = -1
    """Where its line begins in the file of its segment, in bytes."""
    line: bytes = b""
    """The line itself, without its LF."""
    skipped: int = 0
    """How many numbers are missing right before it, as far as is known by then: a `gap` may yet account for them."""


def seal(seq: int, t_ns: int, rec: str, middle: bytes) -> bytes:
    """The whole line: number and type in front, checksum behind, LF at the end."""
    body = b'{"seq":%d,"rec":"%b","t_ns":%d%b' % (seq, _NAMES.get(rec) or rec.encode(), t_ns, middle)
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def seal_all(first: int, t_ns: int, rec: str, middles: Sequence[bytes]) -> bytes:
    """The lines of records of one type with one stamp, numbered from `first`."""
    stamp = b',"rec":"%b","t_ns":%d' % (_NAMES.get(rec) or rec.encode(), t_ns)
    parts: list[bytes] = []
    for seq, middle in enumerate(middles, first):
        start = b'{"seq":%d%b' % (seq, stamp)
        # The checksum goes on from part to part, so that the middles are copied once, by the join, and not three times.
        parts += start, middle, b',"crc":"%08x"}\n' % crc32(middle, crc32(start))
    return b"".join(parts)


def members(**fields: object) -> bytes:
    """The middle of a record of any type but `frame`: JSON members in the order given.

    Those that are None are left out. Half a surrogate pair in a text becomes a `?`: parsers would refuse the line.
    """
    present = {name: value for name, value in fields.items() if value is not None}
    text = _encode(present)
    # An inner object may begin with `seq`, too (a variable of the environment, say), and must not look like a record.
    return b"," + text[1:-1].replace(LINE_START, b'{ "seq":') if present else b""


def _encode_slowly(value: dict[str, object]) -> bytes:
    return _json(value).encode("utf-8", "replace")


_encode: Callable[[dict[str, object]], bytes] = _encode_slowly


def _json(value: object) -> str:
    """What `json.dumps` makes of it, which takes `json` and `re` to load.

    Bytes that came from the system (arguments, paths) become text that is valid UTF-8 whatever they hold.
    """
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return quote(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, dict):
        return "{" + ",".join([f"{quote(name)}:{_json(inner)}" for name, inner in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_json, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"{type(value).__name__} has no place in a record")


def payload(raw: bytes) -> bytes:
    """The members that hold exact bytes: `size`, then `raw`, or `raw_b64` where they are not UTF-8."""
    try:
        return b',"size":%d,"raw":%b' % (len(raw), _escape(raw.decode()))
    except UnicodeDecodeError:
        return b',"size":%d,"raw_b64":"%b"' % (len(raw), b2a_base64(raw, newline=False))


def _place(direction: Direction, conn: int, exchange: int | None, unit: Unit, event_id: str | None) -> bytes:
    place = b',"dir":"%b"' % direction.encode()
    if conn:
        place += b',"conn":%d' % conn
    if exchange is not None:
        place += b',"exchange":%d' % exchange
    if unit != "line":
        place += b',"unit":"%b"' % unit.encode()
    if event_id is not None:
        place += b',"event_id":%b' % _escape(event_id)
    return place


def _verdict(verdict: Envelope) -> bytes:
    text = b',"kind":"%b"' % verdict.kind.encode()
    if verdict.id is not None:
        text += b',"id":%b' % verdict.id
    if verdict.method is not None:
        text += b',"method":%b' % _escape(verdict.method)
    if verdict.code is not None:
        text += b',"code":%d' % verdict.code
    if verdict.problem is not None:
        text += b',"problem":"%b"' % verdict.problem.encode()
    if verdict.omitted:
        text += b',"omitted":%b' % _json(verdict.omitted).encode()
    return text


def frame_members(
    direction: Direction,
    raw: bytes,
    verdict: Envelope,
    *,
    delim: bytes = b"\n",
    whole: bool = True,
    parts: tuple[int, int] | None = None,
    conn: int = 0,
    exchange: int | None = None,
    unit: Unit = "line",
    event_id: str | None = None,
    event: str | None = None,
    id_again: bool = False,
    fault: str | None = None,
) -> bytes:
    """The middle of a `frame` record.

    Args:
        direction: who sent it to whom.
        raw: the bytes; ignored where `parts` says that they have been written already.
        verdict: what the frame is.
        delim: the delimiter as forwarded: LF, CR LF or nothing.
        whole: False where the stream ended before the delimiter.
        parts: (number of parts, bytes in all of them) of a giant frame.
        conn: number of the connection.
        exchange: number of the HTTP exchange.
        unit: what delimits the frame.
        event_id: the SSE event id in force.
        event: the type of an SSE event that is not `message`.
        id_again: whether it names the id itself, which is that of the frame before.
        fault: the type of the exception that kept us from judging it; `verdict` is then `UNJUDGED`.
    """
    middle = _place(direction, conn, exchange, unit, event_id)
    if id_again:
        middle += b',"id_again":true'
    if event is not None:
        middle += b',"event":%b' % _escape(event)
    middle += _verdict(verdict)
    if fault is not None:
        middle += b',"fault":%b' % _escape(fault)
    if delim != b"\n":
        middle += b',"delim":%b' % _escape(delim.decode())
    if not whole:
        middle += b',"whole":false'
    if parts is not None:
        return middle + b',"parts":%d,"size":%d' % parts
    return middle + payload(raw)


def faulty_members(
    direction: Direction, raw: bytes, error: Exception, *, delim: bytes = b"\n", whole: bool = True
) -> bytes:
    """The middle of the `frame` record of a line that a fault of ours has left without a verdict; raises nothing."""
    fault = type(error).__name__
    try:
        return frame_members(direction, raw, UNJUDGED, delim=delim, whole=whole, fault=fault)
    except Exception:  # noqa: BLE001 - whatever else is broken, the bytes are kept
        ends = b"" if delim == b"\n" else b',"delim":"%b"' % delim.replace(b"\r", b"\\r").replace(b"\n", b"\\n")
        cut = b"" if whole else b',"whole":false'
        kept = (
            direction.encode(),
            fault.encode("ascii", "replace"),
            ends,
            cut,
            len(raw),
            b2a_base64(raw, newline=False),
        )
        return b',"dir":"%b","kind":"unjudged","fault":"%b"%b%b,"size":%d,"raw_b64":"%b"' % kept


def line_members(direction: Direction, raw: bytes, verdict: Envelope) -> bytes:
    """The same as `frame_members` for a whole line that ended in LF; nearly all frames of stdio are.

    So it is made in one go.
    """
    kind, id_, method, code, problem, omitted = verdict
    if code is not None or problem is not None or omitted:
        return frame_members(direction, raw, verdict)
    try:
        text = _escape(raw.decode())
    except UnicodeDecodeError:
        return frame_members(direction, raw, verdict)
    named = b"" if id_ is None else b',"id":%b' % id_
    if method is not None:
        named += b',"method":%b' % _escape(method)
    return b',"dir":"%b","kind":"%b"%b,"size":%d,"raw":%b' % (_NAMES[direction], _NAMES[kind], named, len(raw), text)


def part_members(direction: Direction, number: int, raw: bytes, *, conn: int = 0, exchange: int | None = None) -> bytes:
    """The middle of a `part` record: the `number`th piece of a giant frame, from 1."""
    return _place(direction, conn, exchange, "line", None) + b',"part":%d' % number + payload(raw)


def stderr_members(raw: bytes, *, delim: bytes = b"\n", whole: bool = True, skipped: int = 0) -> bytes:
    """The middle of a `stderr` record."""
    middle = b',"skipped":%d' % skipped if skipped else b""
    if delim != b"\n":
        middle += b',"delim":%b' % _escape(delim.decode())
    if not whole:
        middle += b',"whole":false'
    return middle + payload(raw)


def decode(line: bytes, offset: int, loads: Callable[[bytes], Any]) -> Record | None:
    """The record that `line` (without its LF) is; None where the checksum or a fixed member is wrong.

    The checksum is compared as bytes before anything is parsed, so that a damaged line never reaches a parser.
    """
    end = len(line) - CRC_TAIL
    if (
        end < 0
        or line[end:] != b'%b%08x"}' % (CRC_MARK, crc32(line[:end]))  # a view of it costs more than a copy
        or not line.startswith(LINE_START)
    ):
        return None
    try:
        values = loads(line)
    except (ValueError, RecursionError):
        return None
    seq, rec, t_ns = values.get("seq"), values.get("rec"), values.get("t_ns")
    if type(seq) is not int or type(rec) is not str or type(t_ns) is not int or seq < 0 or t_ns < 0:
        return None
    return Record(seq, rec, t_ns, values, offset, line)


def raw_bytes(values: dict[str, Any]) -> bytes | None:
    """The exact bytes that a record holds in `raw` or `raw_b64`; None where it holds none, or no valid ones."""
    raw, encoded = values.get("raw"), values.get("raw_b64")
    try:
        if isinstance(raw, str):
            return raw.encode()
        return a2b_base64(encoded, strict_mode=True) if isinstance(encoded, str) else None
    except ValueError:
        return None
