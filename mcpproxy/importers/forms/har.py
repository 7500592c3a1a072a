"""HAR files.

HTTP archives (HAR 1.2), as browsers, HTTP debuggers and [`mcpproxy export`](../exports/har.md) write them. Such a log usually
contains much other traffic. Each origin that receives JSON-RPC by POST counts as a server and becomes a capture, `HOST.mcpcap`, with
its HTTP exchanges at paths that speak MCP, for `.well-known` documents and in OAuth logins. All other entries are skipped, and stderr says
how many.

**Where to find it.** In the developer tools of a browser, choose Network, then Export HAR.

**What the capture contains.** The HTTP exchanges, with heads, decoded bodies, and times to the millisecond. A file may
be up to 128 MiB long, and the head of a request or response up to 512 KiB. An entry that cannot be read, or has a date
after 2115, is left out. An entry without a time gets the time of the entry before it, marked as not exact. An entry without a
response is imported as an unanswered request.

**What is missing.**

| missing | what the capture has instead |
|---|---|
| when each event of a stream arrived, unless the file comes from `mcpproxy export` or has `_eventSourceMessages` | the time at which the stream ended, marked as not exact |
| how bodies were compressed or sent in chunks | `Content-Encoding` and `Transfer-Encoding` are left out |
| connections that failed before a request, and HTTP/2 | requests are recorded as HTTP/1.1 |
"""

import re
from binascii import a2b_base64
from collections.abc import Iterator
from typing import Any, Final, get_args

from mcpproxy.importers.capture_lines import MAX_STAMP_NS
from mcpproxy.importers.case import Case
from mcpproxy.importers.exchange_log import (
    EndedBy,
    LoggedExchange,
    StreamEvent,
    UnreadableExchange,
    checked_method,
    checked_time,
    is_http_url,
    items_of,
    looks_like_http_url,
)
from mcpproxy.importers.form import Form
from mcpproxy.importers.har_start import har_scheme
from mcpproxy.importers.log_items import LeftOut, Remark
from mcpproxy.importers.source import InvalidLine, Log, required_object, whole_json
from mcpproxy.importers.times import SECOND_NS, stamp_of_date

MAX_HAR_BYTES: Final = 128 << 20
MILLISECOND_NS: Final = 1_000_000
_TIMING_NAMES: Final = ("blocked", "dns", "connect", "send", "wait", "receive")
_TRANSFER_FIELDS: Final = frozenset({b"content-encoding", b"transfer-encoding"})
_STREAM_END: Final = re.compile(rb"(?:\r\n|\n|\r){2}")


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the log begins with the object `log`, and its first URL does not belong to a call without HTTP."""
    return har_scheme(head) not in (None, "mcp")


def read(log: Log) -> Iterator[Case | LeftOut | Remark]:
    """Read a log.

    Raises:
        InvalidLine: the log is not HAR, is too large, or contains no MCP.
    """
    har = whole_json(log, "export fewer entries", MAX_HAR_BYTES)
    root = har.get("log") if isinstance(har, dict) else None
    entries = root.get("entries") if isinstance(root, dict) else None
    if not isinstance(entries, list):
        raise InvalidLine("expected a list in `log.entries`")
    urls = [_url(entry) for entry in entries]
    other_count = sum(not (is_http_url(url) or looks_like_http_url(url)) for url in urls if url is not None)
    yield from items_of(_exchanges(entries, urls), other_count)


def _exchanges(entries: list[Any], urls: list[str | None]) -> Iterator[LoggedExchange | UnreadableExchange]:
    stamps = [stamp_of_date(entry.get("startedDateTime")) if isinstance(entry, dict) else None for entry in entries]
    latest_ns = next((stamp for stamp in stamps if stamp is not None), None)
    for number, (entry, url, stamp_ns) in enumerate(zip(entries, urls, stamps, strict=True)):
        place = f"entry {number}"
        latest_ns = latest_ns if stamp_ns is None else stamp_ns
        if url is None or is_http_url(url):
            try:
                yield _logged_exchange(entry, place, latest_ns)
            except InvalidLine as error:
                yield UnreadableExchange(place, str(error), url or "")
        elif looks_like_http_url(url):
            yield UnreadableExchange(place, "its URL is invalid", "")


def _url(entry: object) -> str | None:
    request = entry.get("request") if isinstance(entry, dict) else None
    url = request.get("url") if isinstance(request, dict) else None
    return url if isinstance(url, str) else None


def _logged_exchange(entry: object, place: str, latest_ns: int | None) -> LoggedExchange:
    """Returns the exchange of an entry.

    Args:
        entry: one of `log.entries`.
        place: its position, for error messages.
        latest_ns: its time, or the time of the last entry before it that has one.

    Raises:
        InvalidLine: the entry cannot be read.
    """
    values = required_object(entry, "an object")
    request = required_object(values.get("request"), "an object in `request`")
    response = _optional(values, "response")
    content = _optional(response, "content", "response.content")
    date = values.get("startedDateTime")
    start_ns = latest_ns if date is None and latest_ns is not None else _date(date)
    timings = _optional(values, "timings")
    end_ns = start_ns + _duration_ns(values.get("time"), timings)
    if end_ns >= MAX_STAMP_NS:
        raise InvalidLine("`startedDateTime` plus `time` is after the year 2115")
    response_ns = max(start_ns, end_ns - round((_amount(timings.get("receive")) or 0) * MILLISECOND_NS))
    status = response.get("status") or 0
    if type(status) is not int or not 0 <= status <= 999:
        raise InvalidLine("expected a status in `response.status`")
    response_body = _response_body(content)
    events = _events(values, response_body, start_ns)
    request_body = _request_body(request.get("postData"))
    return LoggedExchange(
        place,
        start_ns,
        response_ns,
        end_ns,
        _request_text(request, "url"),
        checked_method(_request_text(request, "method").encode("utf-8", "replace")),
        b"HTTP/1.1",
        _fields(request.get("headers")),
        request_body,
        status,
        _string(response.get("statusText")).encode("utf-8", "replace"),
        _fields(response.get("headers")),
        response_body or b"".join(event.raw for event in events),
        _peer(values),
        events,
        is_time_exact=date is not None,
        lacks_request_body=not request_body and _had_body(request.get("bodySize")),
        ended_by=_ended_by(values),
        lacks_response_body=not response_body
        and not events
        and _had_body(content.get("size"), response.get("bodySize")),
    )


def _duration_ns(time: object, timings: dict[str, Any]) -> int:
    """Returns how long an exchange took. Some programs log only the parts of the time, and -1 for unknown values."""
    if time is None or (isinstance(time, int | float) and time < 0):
        time = sum(_amount(timings.get(part)) or 0 for part in _TIMING_NAMES)
    return checked_time(time, "milliseconds in `time`", MILLISECOND_NS)


def _had_body(*sizes: object) -> bool:
    """Whether there was a body, by its sizes in the log. If all of them are unknown (-1 or missing), there may have been."""
    return any(type(size) is int and size > 0 for size in sizes) or all(size in (None, -1) for size in sizes)


def _request_body(post_data: object) -> bytes:
    return _string(post_data.get("text")).encode("utf-8", "replace") if isinstance(post_data, dict) else b""


def _response_body(content: dict[str, Any]) -> bytes:
    text = _string(content.get("text"))
    if content.get("encoding") == "base64":
        try:
            return a2b_base64(text, strict_mode=True)
        except ValueError:
            raise InvalidLine("expected base64 in `response.content.text`") from None
    return text.encode("utf-8", "replace")


def _events(entry: dict[str, Any], body: bytes, start_ns: int) -> list[StreamEvent]:
    """Returns the events of a stream with their times; empty if the entry does not contain these."""
    browser_events = entry.get("_eventSourceMessages")
    if not body and isinstance(browser_events, list):
        return [_event(message) for message in browser_events if isinstance(message, dict)]
    extension = entry.get("_mcp")
    messages = extension.get("messages") if isinstance(extension, dict) else None
    times = [
        _amount(message.get("time"))
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and message.get("dir") == "s2c"
    ]
    pieces, start = [], 0
    for match in _STREAM_END.finditer(body):
        pieces.append(body[start : match.end()])
        start = match.end()
    message_pieces = [piece for piece in pieces if not piece.startswith(b"event: endpoint")]
    if start < len(body) or len(message_pieces) != len(times):
        return []
    remaining_times = iter(times)
    events = []
    for piece in pieces:
        offset_ms = None if piece.startswith(b"event: endpoint") else next(remaining_times)
        events.append(StreamEvent(None if offset_ms is None else start_ns + round(offset_ms * MILLISECOND_NS), piece))
    return events


def _event(message: dict[str, Any]) -> StreamEvent:
    """Returns the event of a message in `_eventSourceMessages`, whose time is in seconds since 1970."""
    time, lines = _amount(message.get("time")), []
    for field, name in (("event", "eventName"), ("id", "eventId")):
        value = _string(message.get(name))
        if value and "\n" not in value and value != "message":
            lines.append(f"{field}: {value}")
    lines += [f"data: {line}" for line in _string(message.get("data")).split("\n")]
    raw = "\n".join(lines).encode("utf-8", "replace") + b"\n\n"
    return StreamEvent(None if time is None else round(time * SECOND_NS), raw)


def _amount(value: object) -> float | None:
    """Returns a time if it is neither negative nor absurd."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else None  # type: ignore[operator,arg-type] # it is one


def _peer(entry: dict[str, Any]) -> str:
    extension = entry.get("_mcp")
    peer = _string(extension.get("peer")) if isinstance(extension, dict) else ""
    return peer if len(peer) <= 1024 else ""


def _ended_by(entry: dict[str, Any]) -> EndedBy:
    """Returns what ended the exchange. Only mcpproxy's own exports contain this."""
    extension = entry.get("_mcp")
    ended_by = extension.get("endedBy") if isinstance(extension, dict) else None
    return next((value for value in get_args(EndedBy) if value == ended_by), "complete")


def _date(value: object) -> int:
    stamp_ns = stamp_of_date(value)
    if stamp_ns is None:
        raise InvalidLine("expected a date and time from 1970 to 2115 in `startedDateTime`")
    return stamp_ns


def _fields(headers: object) -> list[tuple[bytes, bytes]]:
    rows = headers if isinstance(headers, list) else []
    pairs = [(row.get("name"), row.get("value")) for row in rows if isinstance(row, dict)]
    fields = [
        (name.encode("utf-8", "replace"), value.encode("utf-8", "replace"))
        for name, value in pairs
        if isinstance(name, str) and isinstance(value, str)
    ]
    return [(name, value) for name, value in fields if name.lower() not in _TRANSFER_FIELDS]


def _optional(values: dict[str, Any], name: str, path: str = "") -> dict[str, Any]:
    """Returns a member that must be an object, or an empty one if it is null or missing."""
    return {} if values.get(name) is None else required_object(values[name], f"an object in `{path or name}`")


def _request_text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidLine(f"expected text in `request.{name}`")
    return value


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


FORM = Form(
    title="a HAR file",
    sniff=sniff,
    read=read,
    limitation="HAR files do not record how bodies were compressed, or connections that failed before a request",
    is_verbatim=True,
)
