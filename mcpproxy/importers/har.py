"""HAR 1.2, as browsers, HTTP debuggers and `mcpproxy export` write it.

HAR holds decoded bodies, so the capture has no `Content-Encoding`. It does not say when an event of a stream arrived:
that is known from our own `_mcp`, or from `_eventSourceMessages`, which some browsers add.
"""

import re
from binascii import a2b_base64
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, NamedTuple, get_args

from orjson import JSONDecodeError, loads

from mcpproxy.importers.capture_lines import MAX_NS
from mcpproxy.importers.exchange_log import (
    EndedBy,
    LoggedExchange,
    StreamEvent,
    checked_time,
    checked_token,
    is_web,
    looks_like_web,
)
from mcpproxy.importers.source import InvalidLine

MAX_HAR_BYTES: Final = 128 << 20
"""Bytes of a file. It is read as a whole."""
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
_TRANSFERRED: Final = frozenset({b"content-encoding", b"transfer-encoding"})
_STREAM_END: Final = re.compile(rb"(?:\r\n|\n|\r){2}")


class Entries(NamedTuple):
    """The content of a file."""

    log: list[LoggedExchange]
    """The HTTP exchanges."""
    others: int
    """How many entries are not HTTP."""
    unreadable: list[str]
    """The places of entries whose URL cannot be parsed."""


def read(file: BinaryIO) -> Entries:
    """The entries of a file.

    Raises:
        InvalidLine: it is not HAR, or too large; the message begins with the place.
    """
    text = file.read(MAX_HAR_BYTES + 1)
    if len(text) > MAX_HAR_BYTES:
        raise InvalidLine(f"longer than {MAX_HAR_BYTES >> 20} MiB; export fewer entries")
    try:
        har = loads(text)
    except JSONDecodeError as error:
        raise InvalidLine(f"not JSON ({error})") from None
    log = har.get("log") if isinstance(har, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    if not isinstance(entries, list):
        raise InvalidLine("expected a list in `log.entries`")
    made = Entries([], 0, [])
    for number, entry in enumerate(entries):
        place, url = f"entry {number}", _url(entry)
        if url is None or is_web(url):
            made.log.append(_logged(entry, place))
        elif looks_like_web(url):
            made.unreadable.append(place)
        else:
            made = made._replace(others=made.others + 1)
    return made


def _url(entry: object) -> str | None:
    request = entry.get("request") if isinstance(entry, dict) else None
    url = request.get("url") if isinstance(request, dict) else None
    return url if isinstance(url, str) else None


def _logged(entry: object, place: str) -> LoggedExchange:
    values = _object(entry, place, "an object")
    request = _object(values.get("request"), place, "an object in `request`")
    response = _object(values.get("response"), place, "an object in `response`")
    content = _object(response.get("content"), place, "an object in `response.content`")
    begun_ns = _date(values.get("startedDateTime"), place)
    raw_timings = values.get("timings")
    timings = raw_timings if isinstance(raw_timings, dict) else {}
    ended_ns = begun_ns + checked_time(values.get("time", 0), place, "milliseconds in `time`", MS)
    if ended_ns >= MAX_NS:
        raise InvalidLine(f"{place}: expected an earlier end: `startedDateTime` and `time` lead to a year after 2115")
    answered_ns = max(begun_ns, ended_ns - round((_amount(timings.get("receive")) or 0) * MS))
    status = response.get("status", 0)
    if type(status) is not int or not 0 <= status <= 999:
        raise InvalidLine(f"{place}: expected a status in `response.status`")
    answer = _content(content, place)
    events = _events(values, answer, begun_ns)
    posted = _posted(request.get("postData"))
    return LoggedExchange(
        place,
        begun_ns,
        answered_ns,
        ended_ns,
        _text(request, "url", place),
        checked_token(_text(request, "method", place).encode("utf-8", "replace"), place),
        b"HTTP/1.1",
        _fields(request.get("headers")),
        posted,
        status,
        _string(response.get("statusText")).encode("utf-8", "replace"),
        _fields(response.get("headers")),
        answer or b"".join(event.raw for event in events),
        _peer(values),
        events,
        lacks_body=not posted and _had_body(request.get("bodySize")),
        ended_by=_ended_by(values),
        lacks_answer=not answer and not events and _had_body(content.get("size"), response.get("bodySize")),
    )


def _had_body(*sizes: object) -> bool:
    """Whether one of the sizes of a body that is not in the log says that there was one; -1 stands for unknown."""
    return any(type(size) is int and size > 0 for size in sizes) or all(size in (None, -1) for size in sizes)


def _posted(posted: object) -> bytes:
    return _string(posted.get("text")).encode("utf-8", "replace") if isinstance(posted, dict) else b""


def _content(content: dict[str, Any], place: str) -> bytes:
    text = _string(content.get("text"))
    if content.get("encoding") == "base64":
        try:
            return a2b_base64(text, strict_mode=True)
        except ValueError:
            raise InvalidLine(f"{place}: expected base64 in `response.content.text`") from None
    return text.encode("utf-8", "replace")


def _events(entry: dict[str, Any], answer: bytes, begun_ns: int) -> list[StreamEvent]:
    """The events of a stream, with their times if the entry holds them in any form."""
    sent = entry.get("_eventSourceMessages")
    if not answer and isinstance(sent, list):
        return [_event(message) for message in sent if isinstance(message, dict)]
    ours = entry.get("_mcp")
    messages = ours.get("messages") if isinstance(ours, dict) else None
    times = [
        _amount(message.get("time"))
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and message.get("dir") == "s2c"
    ]
    pieces, start = [], 0
    for end in _STREAM_END.finditer(answer):
        pieces.append(answer[start : end.end()])
        start = end.end()
    named = [piece for piece in pieces if not piece.startswith(b"event: endpoint")]
    if start < len(answer) or len(named) != len(times):
        return []
    stamps = iter(times)
    events = []
    for piece in pieces:
        after = None if piece.startswith(b"event: endpoint") else next(stamps)
        events.append(StreamEvent(None if after is None else begun_ns + round(after * MS), piece))
    return events


def _event(message: dict[str, Any]) -> StreamEvent:
    """One of `_eventSourceMessages`: its time in seconds since 1970, its name, id and data."""
    time, lines = _amount(message.get("time")), []
    for field, name in (("event", "eventName"), ("id", "eventId")):
        value = _string(message.get(name))
        if value and "\n" not in value and value != "message":
            lines.append(f"{field}: {value}")
    lines += [f"data: {line}" for line in _string(message.get("data")).split("\n")]
    raw = "\n".join(lines).encode("utf-8", "replace") + b"\n\n"
    return StreamEvent(None if time is None else round(time * SECOND), raw)


def _amount(value: object) -> float | None:
    """A time that is not negative and not absurd."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else None  # type: ignore[operator,arg-type] # it is one


def _peer(entry: dict[str, Any]) -> str:
    ours = entry.get("_mcp")
    peer = _string(ours.get("peer")) if isinstance(ours, dict) else ""
    return peer if len(peer) <= 1024 else ""


def _ended_by(entry: dict[str, Any]) -> EndedBy:
    """Who ended the exchange, as our own exports say."""
    ours = entry.get("_mcp")
    by = ours.get("endedBy") if isinstance(ours, dict) else None
    return next((known for known in get_args(EndedBy) if known == by), "complete")


def _date(value: object, place: str) -> int:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.year < 1970:
        raise InvalidLine(f"{place}: expected a date and time in `startedDateTime`")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND + moment.microsecond * 1000


def _fields(headers: object) -> list[tuple[bytes, bytes]]:
    rows = headers if isinstance(headers, list) else []
    pairs = [(row.get("name"), row.get("value")) for row in rows if isinstance(row, dict)]
    fields = [
        (name.encode("utf-8", "replace"), value.encode("utf-8", "replace"))
        for name, value in pairs
        if isinstance(name, str) and isinstance(value, str)
    ]
    return [(name, value) for name, value in fields if name.lower() not in _TRANSFERRED]


def _object(value: object, place: str, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidLine(f"{place}: expected {what}")
    return value


def _text(values: dict[str, Any], name: str, place: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidLine(f"{place}: expected text in `request.{name}`")
    return value


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
