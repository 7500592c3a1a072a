"""Encodes and decodes records, one per line, as FORMAT.md specifies; uses no files and no clock.

Encoding has two halves, because number and stamp are assigned late, under a lock, and the rest must be ready by then:
`members()` and `frame_members()` return the middle of a line, and `seal()` adds number, stamp and checksum around it.

An MCP client waits for its server while this module loads, so it imports very little. `use_orjson()` makes string
escaping fast once orjson has been loaded.
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
"""Returns a text as a JSON string, without escaping non-ASCII characters."""

MAX_LINE_BYTES: Final = 8 << 20
"""The most bytes of a line, its LF included."""
MAX_RAW_BYTES: Final = 1 << 20
"""The most bytes of a frame that is not written as parts.

A control character takes six bytes in JSON, so 1 MiB always fits into a line.
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
        ImportError: orjson is not installed; the slower functions remain in use.
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
    """The number of the record in the capture."""
    rec: str
    """The type of the record; readers skip unknown types."""
    t_ns: int
    """Nanoseconds since the capture opened."""
    members: dict[str, Any]
    """All members as parsed, including `seq`, `rec` and `t_ns`."""
    offset: int = -1
    """The offset of the line in the segment's file, in bytes."""
    line: bytes = b""
    """The line itself, without its LF."""
    skipped: int = 0
    """How many numbers are missing right before this record, as far as is known: a later `gap` may account for them."""

    @property
    def line_size(self) -> int:
        """The size of the line in bytes, without its LF."""
        return len(self.line)


def seal(seq: int, t_ns: int, rec: str, middle: bytes) -> bytes:
    """Returns a whole line: number, type and stamp, then the middle, the checksum and LF."""
    body = b'{"seq":%d,"rec":"%b","t_ns":%d%b' % (seq, _NAMES.get(rec) or rec.encode(), t_ns, middle)
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def seal_all(first: int, t_ns: int, rec: str, middles: Sequence[bytes]) -> bytes:
    """Returns the lines of records with the same type and stamp, numbered from `first`."""
    stamp = b',"rec":"%b","t_ns":%d' % (_NAMES.get(rec) or rec.encode(), t_ns)
    parts: list[bytes] = []
    for seq, middle in enumerate(middles, first):
        start = b'{"seq":%d%b' % (seq, stamp)
        # The checksum is continued from part to part, so only the join copies the middles, once instead of three times.
        parts += start, middle, b',"crc":"%08x"}\n' % crc32(middle, crc32(start))
    return b"".join(parts)


def members(**fields: object) -> bytes:
    """Returns the middle of a record of any type but `frame`: JSON members in the order given.

    Members that are None are left out. A lone surrogate in a text becomes a `?`, as parsers would reject the line.
    """
    entries = {name: value for name, value in fields.items() if value is not None}
    text = _encode(entries)
    # An inner object may also begin with `seq` (as with an environment variable), and must not look like a record.
    return b"," + text[1:-1].replace(LINE_START, b'{ "seq":') if entries else b""


def _encode_slowly(value: dict[str, object]) -> bytes:
    return _to_json(value).encode("utf-8", "replace")


_encode: Callable[[dict[str, object]], bytes] = _encode_slowly


def _to_json(value: object) -> str:
    """Returns the same as `json.dumps`, without loading `json` and `re`.

    Bytes from the system (arguments, paths) become text that is always valid UTF-8.
    """
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return quote(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, dict):
        return "{" + ",".join([f"{quote(name)}:{_to_json(member)}" for name, member in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_to_json, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"{type(value).__name__} has no place in a record")


def payload_members(raw: bytes) -> bytes:
    """Returns the members that contain exact bytes: `size`, then `raw`, or `raw_b64` if they are not UTF-8."""
    try:
        return b',"size":%d,"raw":%b' % (len(raw), _escape(raw.decode()))
    except UnicodeDecodeError:
        return b',"size":%d,"raw_b64":"%b"' % (len(raw), b2a_base64(raw, newline=False))


def _location_members(direction: Direction, conn: int, exchange: int | None, unit: Unit, event_id: str | None) -> bytes:
    text = b',"dir":"%b"' % direction.encode()
    if conn:
        text += b',"conn":%d' % conn
    if exchange is not None:
        text += b',"exchange":%d' % exchange
    if unit != "line":
        text += b',"unit":"%b"' % unit.encode()
    if event_id is not None:
        text += b',"event_id":%b' % _escape(event_id)
    return text


def _verdict_members(verdict: Envelope) -> bytes:
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
        text += b',"omitted":%b' % _to_json(verdict.omitted).encode()
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
    """Returns the middle of a `frame` record.

    Args:
        direction: the direction of the frame.
        raw: the bytes; ignored with `parts`, as they have then been written already.
        verdict: the verdict on the frame.
        delim: the delimiter as forwarded: LF, CR LF or nothing.
        whole: False if the stream ended before the delimiter.
        parts: (number of parts, total bytes) of a giant frame.
        conn: number of the connection.
        exchange: number of the HTTP exchange.
        unit: the unit of the frame.
        event_id: the SSE event id in force.
        event: the type of an SSE event that is not `message`.
        id_again: whether the event itself repeats the id of the previous frame.
        fault: the type of the exception that prevented a verdict; `verdict` is then `UNJUDGED`.
        partial: whether an imported log contains only a part of the frame.
        time_is_exact: False if an imported log has no exact time of the frame.
    """
    middle = _location_members(direction, conn, exchange, unit, event_id)
    if id_again:
        middle += b',"id_again":true'
    if event is not None:
        middle += b',"event":%b' % _escape(event)
    middle += _verdict_members(verdict)
    if fault is not None:
        middle += b',"fault":%b' % _escape(fault)
    if delim != b"\n":
        middle += b',"delim":%b' % _escape(delim.decode())
    if not whole:
        middle += b',"whole":false'
    if partial:
        middle += b',"partial":true'
    middle += payload_members(raw) if parts is None else b',"parts":%d,"size":%d' % parts
    return middle if time_is_exact else with_inexact_time(middle)


def with_inexact_time(middle: bytes) -> bytes:
    """Returns the middle of a `frame` record, marked as one whose `t_ns` is not the exact time of the frame."""
    return middle + b',"time_is_exact":false'


def faulty_members(
    direction: Direction, raw: bytes, error: Exception, *, delim: bytes = b"\n", whole: bool = True
) -> bytes:
    """Returns the middle of the `frame` record for a line that an internal fault left unjudged; never raises."""
    fault = type(error).__name__
    try:
        return frame_members(direction, raw, UNJUDGED, delim=delim, whole=whole, fault=fault)
    except Exception:  # noqa: BLE001 - the bytes are kept, even if anything else is broken
        delim_member = b"" if delim == b"\n" else b',"delim":"%b"' % delim.replace(b"\r", b"\\r").replace(b"\n", b"\\n")
        whole_member = b"" if whole else b',"whole":false'
        values = (
            direction.encode(),
            fault.encode("ascii", "replace"),
            delim_member,
            whole_member,
            len(raw),
            b2a_base64(raw, newline=False),
        )
        return b',"dir":"%b","kind":"unjudged","fault":"%b"%b%b,"size":%d,"raw_b64":"%b"' % values


def line_members(direction: Direction, raw: bytes, verdict: Envelope) -> bytes:
    """Returns the same as `frame_members` for a whole line that ended in LF.

    Nearly all frames of stdio are such lines, so this builds them in a single step.
    """
    kind, id_, method, code, problem, omitted = verdict
    if code is not None or problem is not None or omitted:
        return frame_members(direction, raw, verdict)
    try:
        text = _escape(raw.decode())
    except UnicodeDecodeError:
        return frame_members(direction, raw, verdict)
    id_and_method = b"" if id_ is None else b',"id":%b' % id_
    if method is not None:
        id_and_method += b',"method":%b' % _escape(method)
    return b',"dir":"%b","kind":"%b"%b,"size":%d,"raw":%b' % (
        _NAMES[direction],
        _NAMES[kind],
        id_and_method,
        len(raw),
        text,
    )


def part_members(direction: Direction, number: int, raw: bytes, *, conn: int = 0, exchange: int | None = None) -> bytes:
    """Returns the middle of a `part` record: the `number`th piece of a giant frame, counted from 1."""
    return _location_members(direction, conn, exchange, "line", None) + b',"part":%d' % number + payload_members(raw)


def stderr_members(raw: bytes, *, delim: bytes = b"\n", whole: bool = True, skipped: int = 0) -> bytes:
    """Returns the middle of a `stderr` record."""
    middle = b',"skipped":%d' % skipped if skipped else b""
    if delim != b"\n":
        middle += b',"delim":%b' % _escape(delim.decode())
    if not whole:
        middle += b',"whole":false'
    return middle + payload_members(raw)


def values_of(line: bytes, loads: Callable[[bytes], Any]) -> dict[str, Any] | None:
    """Returns the members of the record in `line` (without its LF), or None if the checksum or a fixed member is wrong.

    The checksum is compared as bytes before anything is parsed: a damaged line never reaches a parser.
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
    """Returns the record in `line` (without its LF), or None if the checksum or a fixed member is wrong."""
    values = values_of(line, loads)
    return None if values is None else Record(values["seq"], values["rec"], values["t_ns"], values, offset, line)


def raw_bytes(values: dict[str, Any]) -> bytes | None:
    """Returns the exact bytes in `raw` or `raw_b64` of a record, or None if there are none or they are invalid."""
    raw, encoded = values.get("raw"), values.get("raw_b64")
    try:
        if isinstance(raw, str):
            return raw.encode()
        return a2b_base64(encoded, strict_mode=True) if isinstance(encoded, str) else None
    except ValueError:
        return None
