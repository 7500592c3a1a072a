"""MCP Inspector exports.

The Export buttons of [MCP Inspector](https://github.com/modelcontextprotocol/inspector), from version 2 on, write a JSON file for
each of its tabs:

    [
      {
        "id": "0d3c…",
        "timestamp": "2026-03-01T10:12:05.377Z",
        "direction": "request",
        "origin": "client",
        "message": { "jsonrpc": "2.0", "id": 1, "method": "tools/list" },
        "response": { "jsonrpc": "2.0", "id": 1, "result": { "tools": [] } },
        "duration": 14
      }
    ]

| tab | file | what the capture contains |
|---|---|---|
| Protocol (before 2.1, History) | `inspector-protocol-SERVER-TIME.json` | the messages |
| Network | `inspector-network-SERVER-TIME.json` | the HTTP exchanges, grouped by server as in [HAR files](har.md) |
| Logs | `inspector-logs-SERVER-TIME.json` | the `notifications/message` of the server |
| Console | `inspector-console-SERVER-TIME.json` | the server's stderr |

Inspector's list of servers (`mcp.json`) contains no conversation.

**Where to find it.** In the downloads folder of the browser. The session is the one between Inspector and the server, not that of
another client.

**What the capture contains.** See the table. Times are to the millisecond; a response has the time of its request plus its
duration. A file may be up to 32 MiB long.

**What is missing.** The original text of messages, because they were parsed. From Protocol, messages that were cleared, and all but the newest 1,000
(or as many as Inspector is set to keep). From Network, credentials, which Inspector masks, and the events of streams that were
opened with GET.

Sources: [types.ts](https://github.com/modelcontextprotocol/inspector/blob/main/core/mcp/types.ts) and
[App.tsx](https://github.com/modelcontextprotocol/inspector/blob/main/clients/web/src/App.tsx) of version 2.3; version 2.12 writes the same.
"""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from captures.verdict import Direction
from mcpproxy.importers.exchange_log import (
    LoggedExchange,
    UnreadableExchange,
    checked_method,
    checked_time,
    is_http_url,
    items_of,
)
from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import Item, LeftOut, LoggedFrame, LoggedStderr, sorted_by_time
from mcpproxy.importers.source import (
    InvalidLine,
    Log,
    consume_entries,
    first_element,
    json_of,
    required_object,
    whole_json,
)
from mcpproxy.importers.times import stamp_of_date

MILLISECOND_NS: Final = 1_000_000
_FILE: Final = re.compile(
    r"inspector-(?:protocol(?:-(?:un)?pinned)?|history|logs|network|console)-(.+)-\d{4}-\d\d-\d\dT"
).match
_CONSOLE: Final = "inspector-console-"
_SIDES: Final[dict[object, Direction]] = {"client": "c2s", "server": "s2c"}
_OPPOSITE: Final[dict[Direction | None, Direction | None]] = {"c2s": "s2c", "s2c": "c2s", None: None}


def sniff(head: bytes, file_name: str) -> bool:
    """Returns whether the log is an array whose first element has the format of a tab."""
    return _tab(first_element(head), file_name) is not None


def read(log: Log) -> Iterator[Item]:
    """Read a log.

    Raises:
        InvalidLine: the log is too long, or is not the export of a tab.
    """
    entries = whole_json(log, "clear the tab before the next export")
    if not isinstance(entries, list):
        raise InvalidLine("expected a list")
    name, tab = _server(log), _tab(next(iter(entries), None), log.file_name)
    if tab == "network":
        yield from items_of(_exchanges(entries))
        return
    if tab is None:
        raise InvalidLine("expected the export of a tab of MCP Inspector")
    items: list[LoggedFrame | LoggedStderr] = []
    for number, entry in consume_entries(entries):
        try:
            items += _READERS[tab](required_object(entry, "an object"), name)
        except InvalidLine as error:
            yield LeftOut(f"entry {number}", str(error), name)
    yield from sorted_by_time(items)


def _tab(entry: object, file_name: str) -> str | None:
    """Returns the tab that exports such entries, or None."""
    if not isinstance(entry, dict):
        return None
    if entry.get("direction") in ("request", "response", "notification") and isinstance(entry.get("message"), dict):
        return "protocol"
    if isinstance(entry.get("requestHeaders"), dict) and entry.get("category") in ("auth", "transport"):
        return "network"
    if isinstance(entry.get("receivedAt"), str) and isinstance(entry.get("params"), dict):
        return "logs"
    # Any program may write these two members.
    return "console" if entry.keys() == {"timestamp", "message"} and file_name.startswith(_CONSOLE) else None


def _server(log: Log) -> str:
    """Returns the name of the server, by the name of the file."""
    match = _FILE(log.file_name)
    return unquote(match[1]) if match else log.name


# ---- messages


def _messages(entry: dict[str, Any], name: str) -> list[LoggedFrame | LoggedStderr]:
    stamp_ns = stamp_of_date(entry.get("timestamp"))
    message, response = required_object(entry.get("message"), "an object in `message`"), entry.get("response")
    side = _SIDES.get(entry.get("origin"))
    frames: list[LoggedFrame | LoggedStderr] = [LoggedFrame(name, side, json_of(message), stamp_ns)]
    if response is not None:
        duration = entry.get("duration")
        response_ns = None
        if stamp_ns is not None and duration is not None:
            response_ns = stamp_ns + checked_time(duration, "milliseconds in `duration`", MILLISECOND_NS)
        raw_response = json_of(required_object(response, "an object in `response`"))
        frames.append(
            LoggedFrame(name, _OPPOSITE[side], raw_response, response_ns or stamp_ns, response_ns is not None)
        )
    return frames


def _log_message(entry: dict[str, Any], name: str) -> list[LoggedFrame | LoggedStderr]:
    params = required_object(entry.get("params"), "an object in `params`")
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    return [LoggedFrame(name, "s2c", json_of(message), stamp_of_date(entry.get("receivedAt")))]


def _stderr_line(entry: dict[str, Any], name: str) -> list[LoggedFrame | LoggedStderr]:
    stamp_ns, text = stamp_of_date(entry.get("timestamp")), entry.get("message")
    if not isinstance(text, str):
        raise InvalidLine("expected text in `message`")
    return [LoggedStderr(name, line.encode("utf-8", "replace"), stamp_ns) for line in text.splitlines()]


_READERS: Final = {"protocol": _messages, "logs": _log_message, "console": _stderr_line}


# ---- HTTP


def _exchanges(entries: list[Any]) -> Iterator[LoggedExchange | UnreadableExchange]:
    for number, entry in consume_entries(entries):
        try:
            yield _exchange(required_object(entry, "an object"), f"entry {number}")
        except InvalidLine as error:
            yield UnreadableExchange(f"entry {number}", str(error), "")


def _exchange(entry: dict[str, Any], place: str) -> LoggedExchange:
    start_ns, url = stamp_of_date(entry.get("timestamp")), entry.get("url")
    if start_ns is None:
        raise InvalidLine("expected a date and time from 1970 to 2115 in `timestamp`")
    if not isinstance(url, str) or not is_http_url(url):
        raise InvalidLine("expected the URL of a server in `url`")
    duration, status = entry.get("duration"), entry.get("responseStatus")
    end_ns = (
        start_ns
        if duration is None
        else start_ns + checked_time(duration, "milliseconds in `duration`", MILLISECOND_NS)
    )
    method, request_body, response_body = (
        _text(entry.get("method")),
        entry.get("requestBody"),
        entry.get("responseBody"),
    )
    has_response = type(status) is int and 0 < status <= 999
    return LoggedExchange(
        place,
        start_ns,
        end_ns,
        end_ns,
        url,
        checked_method(method.encode("utf-8", "replace")),
        b"HTTP/1.1",
        _fields(entry.get("requestHeaders")),
        _text(request_body).encode("utf-8", "replace"),
        status if has_response else 0,  # type: ignore[arg-type] # it is a number
        _text(entry.get("responseStatusText")).encode("utf-8", "replace"),
        _fields(entry.get("responseHeaders")),
        _text(response_body).encode("utf-8", "replace"),
        lacks_request_body=request_body is None and method == "POST",
        lacks_response_body=response_body is None and status not in (202, 204),
        ended_by="complete" if has_response else "error",
    )


def _fields(headers: object) -> list[tuple[bytes, bytes]]:
    pairs = headers.items() if isinstance(headers, dict) else ()
    return [(name.encode("utf-8", "replace"), _text(value).encode("utf-8", "replace")) for name, value in pairs]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


FORM = Form(
    title="an MCP Inspector export",
    sniff=sniff,
    read=read,
    limitation="MCP Inspector exports parsed messages, and only those that it still shows",
)
