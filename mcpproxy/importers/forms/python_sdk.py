"""Python SDK debug logs.

The modules `mcp.client.sse`, `mcp.client.streamable_http` and `mcp.server.sse` of the official Python SDK log every
message at the level DEBUG. `sse_starlette`, which sends the events of SDK servers, logs each event:

    2026-03-01 10:12:05,377 - mcp.client.sse - DEBUG - Sending client message: root=JSONRPCRequest(method='ping', params=None, jsonrpc='2.0', id=1)
    2026-03-01 10:12:05,391 - mcp.client.sse - DEBUG - Received server message: root=JSONRPCResponse(jsonrpc='2.0', id=1, result={})
    2026-03-01 10:12:05,391 - sse_starlette.sse - DEBUG - chunk: b'event: message\\r\\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\\r\\n\\r\\n'

**Where to find it.** Such logs come from any program that uses version 1 or 2 of the package `mcp` and calls, for example,
`logging.basicConfig(level=logging.DEBUG)`. It logs to stderr, or to a file that the program chooses; there is no standard place.
The program's log format may put any text before these words. As logs of other programs often contain such lines, this
format is tried only if none of the others but `text` fits.

**What the capture contains.** From a client, or a server over HTTP+SSE, the messages in both directions; from a server over
Streamable HTTP, those that it sent. A conversation begins when the server is initialized. Its name is the host of
the server, or the name that the server gave itself. A message that is logged several times in a row, because the program has
several handlers or because the SDK has several lines about it, is recorded once.

**What is missing.** The original text of messages: they are rebuilt from what Python printed, so members without a value
are absent. Responses that a client over Streamable HTTP received as JSON and not as events. Everything over stdio, which
the SDK does not log. The HTTP exchanges. If a program talks to several servers at the same time, its log does not say which
message belongs to which server: all are recorded for the server to which it connected last. Times have no zone and are assumed to be in
the zone of this machine; set `TZ` to import a log from elsewhere. If `rich` wrapped a long line, its message can be restored
only approximately, and is partial.

Sources: [streamable_http.py](https://github.com/modelcontextprotocol/python-sdk/blob/main/src/mcp/client/streamable_http.py),
[sse.py](https://github.com/modelcontextprotocol/python-sdk/blob/main/src/mcp/server/sse.py), logs
[of a client and its server](https://github.com/ks6088ts-labs/mcp-python/blob/main/README.md) and
[of a server with three handlers](https://github.com/mccuskero/py-cs-aviation-mcp-claude/blob/main/docs/troubleshoot/20260209/failing-all-tests.md).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from orjson import JSONDecodeError, loads

from captures.verdict import Direction
from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import Item, LeftOut, LoggedFrame
from mcpproxy.importers.printed_entries import PrintedEntry, printed_entries
from mcpproxy.importers.printed_objects import printed_bytes, printed_object
from mcpproxy.importers.source import Log, is_json
from mcpproxy.importers.times import LoggedTime, time_in_text

MAX_LATEST: Final = 8
"""Messages of one direction that the next one is compared with, to find out whether it repeats one of them."""
MAX_COPIED_AFTER_NS: Final = 50_000_000
"""Nanoseconds between copies of the same line by two handlers."""
_PREFIXES_IN_ORDER: Final = (
    b"Sending client message",
    b"Received server message",
    b"SSE message",
    b"Received JSON",
    b"Validated client message",
    b"Sending session message to writer",
    b"Sending message to writer",
    b"Sending message via SSE",
    b"chunk",
)
"""The words before messages. The lines about one message come in this order."""
_MESSAGE: Final = re.compile(
    rb"(?:" + b"|".join(_PREFIXES_IN_ORDER) + rb"): "
    rb"(?=root=JSONRPC|SessionMessage\(message=|JSONRPC\w+\(|jsonrpc='2|b['\"](?:event: message\\r\\n|\{)"
    rb"|\{'(?:jsonrpc|method|id|params)': )"
).search
_START: Final = re.compile(
    rb"(?:Connecting to (?P<transport>SSE|StreamableHTTP) endpoint: (?P<url>\S+)|Initializing server '(?P<name>[^']+)')"
).search
_WRAPPERS: Final = re.compile(r"(?:SessionMessage\(message=)?(?:JSONRPCMessage\()?(?:root=)?").match
MAX_SOURCE_COLUMN_BYTES: Final = 200
"""The bytes at the end of a line in which `rich` may print the line of source code that logged it."""
_SOURCE_COLUMN: Final = re.compile(rb"\s{2,}\w+\.py:\d+ *$").search
"""Matches the last column of `rich`, with the file and line number of the source code."""
_DATA: Final = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_KINDS: Final = frozenset({"method", "result", "error"})
_CLIENT_PREFIXES: Final = (b"Sending client message", b"Received server message", b"SSE message")
_SERVER_MESSAGE_PREFIXES: Final = (b"Received server message", b"SSE message", b"Sending message via SSE", b"chunk")


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the log contains a message in the SDK's format."""
    return _MESSAGE(head) is not None


def read(log: Log) -> Iterator[Item]:
    """Read a log."""
    names = {"client": log.name, "server": log.name}
    repetitions = _RepetitionDetector()
    for entry in printed_entries(log, _find_entry):
        if isinstance(entry, LeftOut):
            yield entry
            continue
        time = time_in_text(entry.prefix.decode("utf-8", "replace"))
        start_match = _START(entry.lines[0])
        if start_match:
            side = "client" if start_match["url"] else "server"
            names[side] = _name(start_match) or log.name
            repetitions = _RepetitionDetector()
            continue
        yield from _frames(entry, time, names, repetitions)


def _find_entry(line: bytes) -> int | None:
    match = _MESSAGE(line) or _START(line)
    return match.start() if match else None


def _name(start_match: re.Match[bytes]) -> str:
    if start_match["name"]:
        return start_match["name"].decode("utf-8", "replace")
    try:
        return urlsplit(start_match["url"].decode("utf-8", "replace")).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def _frames(
    entry: PrintedEntry, time: LoggedTime, names: dict[str, str], repetitions: "_RepetitionDetector"
) -> Iterator[Item]:
    words, _, text = entry.body.partition(b": ")
    name = names["client" if words in _CLIENT_PREFIXES else "server"]
    side: Direction = "s2c" if words in _SERVER_MESSAGE_PREFIXES else "c2s"
    is_whole = True
    if len(entry.lines) > 1:
        lines = [_without_source_column(line) for line in entry.lines]
        is_whole = lines == entry.lines
        text = b"\n".join(lines).partition(b": ")[2]
    messages = _messages(text.decode("utf-8", "replace"))
    if not messages:
        yield LeftOut(f"line {entry.number}", "expected a message as Python prints it", name)
    for raw, message, is_printed_whole in messages:
        if not repetitions.add(side, message, words, time.stamp_ns):
            yield LoggedFrame(name, side, raw, time.stamp_ns, time.is_exact, is_whole and is_printed_whole)


def _without_source_column(line: bytes) -> bytes:
    """Returns a line without the last column of `rich`."""
    place = _SOURCE_COLUMN(line, max(0, len(line) - MAX_SOURCE_COLUMN_BYTES))
    return line[: place.start()] if place else line


def _messages(text: str) -> list[tuple[bytes, Any, bool]]:
    """Returns the messages in an entry, each with its parsed value, and whether it was printed completely."""
    printed_content = printed_bytes(text)
    if printed_content is None:
        wrappers = _WRAPPERS(text)
        return _printed_messages(text[wrappers.end() if wrappers else 0 :])
    body, is_whole = printed_content
    raw_messages = [raw for raw in ([body] if body.startswith(b"{") else _DATA.findall(body)) if raw]
    if is_whole:
        # An event that is not a message was edited by hand: the server cannot have sent it.
        return [(raw, _parsed(raw), is_json(raw)) for raw in raw_messages]
    return [message for raw in raw_messages for message in _printed_messages(raw.decode("utf-8", "replace"))]


def _printed_messages(text: str) -> list[tuple[bytes, Any, bool]]:
    printed_message = printed_object(text)
    if printed_message is None or not printed_message.members.keys() & _KINDS:
        return []
    return [(printed_message.json, printed_message.members, printed_message.is_whole)]


def _parsed(raw: bytes) -> Any:
    try:
        return loads(raw)
    except JSONDecodeError:
        return raw


class _RepetitionDetector:
    """Detects repetitions among the latest messages, because many logs contain each message several times.

    The SDK logs several lines about a message, always in the same order, and a program with several handlers logs
    copies of each line.
    """

    def __init__(self) -> None:
        self._latest: dict[Direction, list[_LoggedMessage]] = {"c2s": [], "s2c": []}

    def add(self, side: Direction, message: Any, words: bytes, stamp_ns: int | None) -> bool:
        """Add the next message, with the words before it; returns whether it repeats one of the latest."""
        order = _PREFIXES_IN_ORDER.index(words)
        latest_messages = self._latest[side]
        for logged_message in reversed(latest_messages):
            if logged_message.message != message:
                continue
            if order > logged_message.order or (
                order == logged_message.order
                and logged_message is latest_messages[-1]
                and logged_message.is_copy(stamp_ns)
            ):
                logged_message.order = order
                return True
            break
        self._latest[side] = [*latest_messages[1 - MAX_LATEST :], _LoggedMessage(message, order, stamp_ns)]
        return False


@dataclass(slots=True)
class _LoggedMessage:
    message: Any
    order: int
    """The index in `_PREFIXES_IN_ORDER` of the words in its latest line."""
    stamp_ns: int | None

    def is_copy(self, stamp_ns: int | None) -> bool:
        """Whether a line with the same words and this time is a copy by another handler, not a second message."""
        if self.stamp_ns is None and stamp_ns is None:
            return isinstance(self.message, dict) and "id" in self.message
        return self.stamp_ns is None or stamp_ns is None or abs(stamp_ns - self.stamp_ns) <= MAX_COPIED_AFTER_NS


FORM = Form(
    title="a debug log of the Python SDK",
    sniff=sniff,
    read=read,
    limitation="the Python SDK logs messages as Python prints them, without a time zone and without HTTP",
    generality=1,  # Logs of clients contain what their servers wrote to stderr.
)
