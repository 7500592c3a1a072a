"""Encodes and decodes records, one per line, as FORMAT.md specifies; uses no file and no clock.

Encoding has two halves, because number and stamp are assigned late, under a lock, and the rest should be ready by then:
`members()` and `frame_members()` make the middle of a line, `seal()` adds number, stamp and checksum around it.

An MCP client waits for its server while this module loads, so it imports next to nothing.
`use_orjson()` makes string escaping fast once orjson has been loaded.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Sequence
from zlib import crc32

from captures.tuples import NamedTuple
from captures.verdict import C2S, S2C, UNJUDGED, Direction, Envelope, Unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

try:
    from _json import encode_basestring
except ImportError:
    from json.encoder import py_encode_basestring as encode_basestring

quote: Final[Callable[[str], str]] = encode_basestring
"""Encodes a text as a JSON string, without escaping non-ASCII characters."""

MAX_LINE_BYTES: Final = 8 << 20
"""The longest line, in bytes, its LF included."""
MAX_RAW_BYTES: Final = 1 << 20
"""A frame of more bytes than this is written as parts. A control character takes six bytes in JSON.

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
        ImportError: orjson is not installed; the slower way still works.
    """
    global _encode, _escape
    from orjson import JSONEncodeError, dumps

    def encode(value: dict[str, object]) -> bytes:
        try:
            return dumps(value)
        except JSONEncodeError:  # bytes, a lone surrogate, or an integer above 64 bits
            return _encode_slowly(value)

    _encode, _escape = encode, dumps


class Record(NamedTuple):
    """One line of a capture, whole and with a correct checksum."""

    seq: int
    """Its number in the capture."""
    rec: str
    """Its type; readers skip unknown types."""
    t_ns: int
    """Nanoseconds since the capture opened."""
    members: dict[str, Any]
    """All members as parsed, `seq`, `rec` and `t_ns` among them."""
    offset: int = -1
    """The offset of its line in the segment's file, in bytes."""
    line: bytes = b""
    """The line itself, without its LF."""
    skipped: int = 0
    """How many numbers are missing right before it, as known so far: a later `gap` may account for them."""

    @property
    def line_size(self) -> int:
        """Bytes of its line, without its LF."""
        return len(self.line)


def seal(seq: int, t_ns: int, rec: str, middle: bytes) -> bytes:
    """The whole line: number and type first, then the middle, the checksum and LF."""
    body = b'{"seq":%d,"rec":"%b","t_ns":%d%b' % (seq, _NAMES.get(rec) or rec.encode(), t_ns, middle)
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def seal_all(first: int, t_ns: int, rec: str, middles: Sequence[bytes]) -> bytes:
    """The lines of records with the same type and stamp, numbered from `first`."""
    stamp = b',"rec":"%b","t_ns":%d' % (_NAMES.get(rec) or rec.encode(), t_ns)
    parts: list[bytes] = []
    for seq, middle in enumerate(middles, first):
        start = b'{"seq":%d%b' % (seq, stamp)
        # The checksum continues from part to part, so that the join copies the middles once, instead of three times.
        parts += start, middle, b',"crc":"%08x"}\n' % crc32(middle, crc32(start))
    return b"".join(parts)


def members(**fields: object) -> bytes:
    """The middle of a record of any type but `frame`: JSON members in the order given.

    Members that are None are left out. A lone surrogate in a text becomes a `?`: parsers would reject the line.
    """
    present = {name: value for name, value in fields.items() if value is not None}
    text = _encode(present)
    # An inner object may begin with `seq`, too (an environment variable, say), and must not look like a record.
    return b"," + text[1:-1].replace(LINE_START, b'{ "seq":') if present else b""


def _encode_slowly(value: dict[str, object]) -> bytes:
    return _json(value).encode("utf-8", "replace")


_encode: Callable[[dict[str, object]], bytes] = _encode_slowly


def _json(value: object) -> str:
    """The same as `json.dumps`, without loading `json` and `re`.

    Bytes from the system (arguments, paths) become text that is always valid UTF-8.
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
    """The members that hold exact bytes: `size`, then `raw`, or `raw_b64` if they are not UTF-8."""
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
    partial: bool = False,
    time_is_exact: bool = True,
) -> bytes:
    """The middle of a `frame` record.

    Args:
        direction: who sent it to whom.
        raw: the bytes; ignored if `parts` says that they have been written already.
        verdict: the verdict on the frame.
        delim: the delimiter as forwarded: LF, CR LF or nothing.
        whole: False if the stream ended before the delimiter.
        parts: (number of parts, total bytes) of a giant frame.
        conn: number of the connection.
        exchange: number of the HTTP exchange.
        unit: what delimits the frame.
        event_id: the SSE event id in force.
        event: the type of an SSE event that is not `message`.
        id_again: whether the event itself names the id, which is that of the frame before.
        fault: the type of the exception that kept us from judging it; `verdict` is then `UNJUDGED`.
        partial: whether an imported log holds only the beginning of it.
        time_is_exact: False if an imported log has no exact time of it.
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
    if partial:
        middle += b',"partial":true'
    middle += payload(raw) if parts is None else b',"parts":%d,"size":%d' % parts
    return middle if time_is_exact else with_inexact_time(middle)


def with_inexact_time(middle: bytes) -> bytes:
    """The middle of a `frame` record, with the remark that `t_ns` is not the exact time of the frame."""
    return middle + b',"time_is_exact":false'


def faulty_members(
    direction: Direction, raw: bytes, error: Exception, *, delim: bytes = b"\n", whole: bool = True
) -> bytes:
    """The middle of the `frame` record for a line left without a verdict by an internal fault; never raises."""
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

    So it is built in a single step.
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
    """The middle of a `part` record: the `number`th piece of a giant frame, counted from 1."""
    return _place(direction, conn, exchange, "line", None) + b',"part":%d' % number + payload(raw)


def stderr_members(raw: bytes, *, delim: bytes = b"\n", whole: bool = True, skipped: int = 0) -> bytes:
    """The middle of a `stderr` record."""
    middle = b',"skipped":%d' % skipped if skipped else b""
    if delim != b"\n":
        middle += b',"delim":%b' % _escape(delim.decode())
    if not whole:
        middle += b',"whole":false'
    return middle + payload(raw)


def values_of(line: bytes, loads: Callable[[bytes], Any]) -> dict[str, Any] | None:
    """The members of the record in `line` (without its LF), or None if the checksum or a fixed member is wrong.

    The checksum is compared as bytes before anything is parsed, so that a damaged line never reaches a parser.
    """
    end = len(line) - CRC_TAIL
    if (
        end < 0
        or line[end:] != b',"crc":"%08x"}' % crc32(line[:end])  # a view costs more than a copy
        or not line.startswith(LINE_START)
    ):
        return None
    try:
        values: dict[str, Any] = loads(line)
    except (ValueError, RecursionError):
        return None
    seq, t_ns = values.get("seq"), values.get("t_ns")
    if type(seq) is not int or type(values.get("rec")) is not str or type(t_ns) is not int or seq < 0 or t_ns < 0:
        return None
    return values


def decode(line: bytes, offset: int, loads: Callable[[bytes], Any]) -> Record | None:
    """The record in `line` (without its LF), or None if the checksum or a fixed member is wrong."""
    values = values_of(line, loads)
    return None if values is None else Record(values["seq"], values["rec"], values["t_ns"], values, offset, line)


def raw_bytes(values: dict[str, Any]) -> bytes | None:
    """The exact bytes that a record holds in `raw` or `raw_b64`, or None if there are none or they are invalid."""
    raw, encoded = values.get("raw"), values.get("raw_b64")
    try:
        if isinstance(raw, str):
            return raw.encode()
        return a2b_base64(encoded, strict_mode=True) if isinstance(encoded, str) else None
    except ValueError:
        return None
