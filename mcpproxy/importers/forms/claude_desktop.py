"""Claude Desktop MCP logs.

Claude Desktop logs its messages to and from local servers, in one file for each server and in one for all of them:

    2026-03-01T09:40:01.045Z [files] [info] Message from client: {"method":"ping","jsonrpc":"2.0","id":1} { metadata: undefined }
    2026-03-01T09:40:01.051Z [files] [info] Message from server: {"jsonrpc":"2.0","id":1,"result":{}} { metadata: undefined }

**Where to find it.** The files are `mcp-server-NAME.log` and `mcp.log`:

| system | folder |
|---|---|
| macOS | `~/Library/Logs/Claude` |
| Windows | `%LOCALAPPDATA%\\Claude\\Logs`, before August 2026 `%APPDATA%\\Claude\\logs` |
| Windows, from the Microsoft Store | `%LOCALAPPDATA%\\Packages\\Claude_…\\LocalCache\\Roaming\\Claude\\logs` |
| Linux | `~/.config/Claude/logs` |

**What the capture contains.** The messages between two starts of a server, with their times in milliseconds. From
`mcp-server-NAME.log`, the capture also has the server's stderr, which is logged without times: each line gets the time of the entry before it.
`mcp.log` has entries of all servers, and each server gets its own captures.

**What is missing.** This depends on the version of Claude Desktop:

- Until June 2026, the middle of every message of more than 512 characters was left out. The frame of such a message is partial:
  it contains as much of the beginning as can be read, and the id.
- Since then, messages are not logged, only their method, id and kind: `method="tools/call" id=3 params`,
  `id=3 result(1 blocks)`. These frames are partial, too: their params or results are empty. The times of calls and
  the codes of errors are known, but the names of tools are not.
- If the server writes a line to stdout that is not JSON, only its first ten characters are logged, or nothing.
- If two processes of the same server run at the same time, their messages cannot be told apart.

Sources: [debugging](https://modelcontextprotocol.io/docs/tools/debugging), a log
[of one server](https://github.com/modelcontextprotocol/servers/issues/4153) and
[of several](https://github.com/tan-yong-sheng/triliumnext-mcp/issues/4),
[where the files are](https://github.com/wonderwhy-er/DesktopCommanderMCP/pull/656).
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from orjson import JSONDecodeError, loads

from captures.verdict import Direction
from mcpproxy.importers.entries import is_fence, is_program_log
from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import (
    ClientExit,
    Event,
    Item,
    LeftOut,
    LoggedFrame,
    LoggedStderr,
    ServerExit,
    ServerStart,
    left_out_if_too_long,
)
from mcpproxy.importers.partial_messages import complete_message, error, notification, request, result
from mcpproxy.importers.rejected_lines import rejected_line
from mcpproxy.importers.source import Log, is_json
from mcpproxy.importers.times import stamp_of_date

MAX_RUNNING_SERVERS: Final = 10_000
"""Servers that are tracked as running."""
_STAMP: Final = rb"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) "
_LEVEL: Final = rb"\[(?:info|error|warn|debug|verbose|silly)\] "
_NAME: Final = rb"\[(?P<name>[^\r\n]{1,256}?)\] "
_COMMON_ENTRY: Final = re.compile(_STAMP + _LEVEL + _NAME).match
_SERVER_ENTRY: Final = re.compile(_STAMP + _NAME + _LEVEL).match
_NO_METADATA: Final = b" { metadata: undefined }"
_METADATA: Final = re.compile(rb' (?:\{ metadata: [^\r\n]{1,1000}\}|\{"context":"[a-z]{1,40}"\})$')
_CUT_METADATA: Final = re.compile(rb"\} \{(?: [^\r\n{}\"]{0,40})?$").search
_SIDES: Final[dict[bytes, Direction]] = {b"Message from client: ": "c2s", b"Message from server: ": "s2c"}
_PREFIX_BYTES: Final = len(b"Message from client: ")
_START: Final = b"Initializing server..."
_STOP: Final = b"Shutting down server..."
_CLIENT_END: Final = b"Client transport closed"
_END: Final = b"Server transport closed"
_UNEXPECTED: Final = b"Server transport closed unexpectedly"
"""The server is responsible for this end, unless Claude Desktop has stopped it. Both other texts may be logged before,
in either order."""
_WORDS: Final = (
    *_SIDES,
    _START,
    _STOP,
    _CLIENT_END,
    _END,
    b"Server started and connected successfully",
)
_SUMMARY: Final = re.compile(
    r'(?:method="(?P<method>[^"\r\n]{1,256})")?(?: ?id=(?P<id>"[^"\r\n]{0,256}"|[^ \r\n]{1,256}))?'
    r"(?: (?P<kind>params|result|error)(?:\((?:code=(?P<code>-?\d{1,15})|[^()\r\n]{0,256})\))?)?"
).fullmatch
_KEPT_UNITS: Final = 256
"""The number of UTF-16 units that Claude Desktop keeps at each end of a long message."""
_CUT_WORDS: Final = b" chars truncated]..."
_CUT: Final = re.compile(r"\.\.\.\[\d{1,12} chars truncated\]\.\.\.").search
_NO_JSON: Final = "the server wrote a line that is not JSON, and the log does not have it"
_FILE: Final = re.compile(r"mcp(?:-server-(?P<name>.+?))?\d?\.log").fullmatch
_TAIL_HEADER: Final = re.compile(rb"==> .{1,4096}\.log <==").fullmatch
"""Matches the header that `tail` writes before each of several files."""


class _Entry(NamedTuple):
    name: str
    stamp_ns: int | None
    text: bytes
    session: str
    """The name of the common file, or empty. The same server is logged in two files, and `tail` can show both."""
    is_cut: bool = False
    """Whether the log may end in the middle of this entry."""


def sniff(head: bytes, file_name: str) -> bool:
    """Returns whether the log begins with an entry, and one of its first entries has a text of Claude Desktop."""
    return is_program_log(head, _is_entry_or_header, _is_known, is_named=_FILE(file_name) is not None)


def _is_entry_or_header(line: bytes) -> bool:
    return _entry(line) is not None or _TAIL_HEADER(line.rstrip()) is not None


def _is_known(line: bytes) -> bool:
    entry = _entry(line)
    return entry is not None and entry.text.startswith(_WORDS)


def read(log: Log) -> Iterator[Item]:
    """Read a log."""
    return _Reader(log).items()


class _Reader:
    def __init__(self, log: Log) -> None:
        self._log = log
        match = _FILE(log.file_name)
        self._entry = _Entry(match["name"], None, b"", "") if match and match["name"] else None
        """The last entry."""
        self._is_open = False
        """Whether the next lines may belong to the last entry."""
        self._is_fenced = False
        """Whether the log is in a Markdown code block."""
        self._running_servers: set[tuple[str, str]] = set()
        self._ends: dict[tuple[str, str], list[ClientExit | ServerExit]] = {}
        """Possible ends of conversations, by server; see `_on_end`."""

    def items(self) -> Iterator[Item]:
        for number, line in self._log.lines():
            if left_out := left_out_if_too_long(number, line):
                yield left_out
                continue
            entry = _entry(line)
            if entry is not None and entry.text.startswith((_CLIENT_END, _END)):
                self._entry = entry
                self._is_open = entry.text.endswith((b"{", b"["))
                yield from self._on_end(entry)
                continue
            item = self._entry_item(entry, f"line {number}") if entry else self._other_line_item(line, f"line {number}")
            if item is not None:
                yield from self._take_ends(item.name, "" if isinstance(item, LeftOut) else item.session)
                self._mark_running(item)
                yield item
        for name, session in list(self._ends):
            yield from self._take_ends(name, session)

    def _mark_running(self, item: Item) -> None:
        if isinstance(item, LoggedFrame | ServerStart) and len(self._running_servers) < MAX_RUNNING_SERVERS:
            self._running_servers.add((item.name, item.session))

    def _on_end(self, entry: _Entry) -> Iterator[Item]:
        """Hold the first end of a conversation until its next entry, which may say that the server is responsible."""
        name, stamp_ns, text, session, _ = entry
        key = name, session
        if key not in self._running_servers:
            return
        ends = self._ends.setdefault(key, [])
        if text.startswith(_UNEXPECTED):
            del self._ends[key]
            self._running_servers.discard(key)
            yield ServerExit(name, stamp_ns, session=session)
        elif text.startswith(_END):
            if not any(isinstance(end, ServerExit) for end in ends):
                ends.append(ServerExit(name, stamp_ns, session=session))
        elif not ends:
            ends.append(ClientExit(name, stamp_ns, session))

    def _take_ends(self, name: str, session: str) -> Iterator[Item]:
        """Yields the ends of a conversation that were held, and forgets them."""
        for end in self._ends.pop((name, session), ()):
            if isinstance(end, ServerExit):
                self._running_servers.discard((name, session))
            yield end

    def _entry_item(self, entry: _Entry, place: str) -> Event | LeftOut | None:
        self._entry = entry
        self._is_open = entry.text.endswith((b"{", b"["))
        name, stamp_ns, text, session, _ = entry
        side = _SIDES.get(text[:_PREFIX_BYTES])
        if side is not None:
            return _message(entry, side, place)
        if text.startswith(_START):
            return ServerStart(name, stamp_ns, session)
        if text.startswith(_STOP) and (name, session) in self._running_servers:
            return ClientExit(name, stamp_ns, session)
        line = rejected_line(text.decode("utf-8", "replace")) if b"JSON" in text else None
        if line is None:
            return None
        if not line:
            return LeftOut(place, _NO_JSON, name, is_message=False)
        return LoggedFrame(name, "s2c", line, stamp_ns, session=session)

    def _other_line_item(self, line: bytes, place: str) -> Event | LeftOut | None:
        """Returns the event on a line without a time, which continues an entry or is a line of stderr."""
        line = line.rstrip(b"\r\n")
        if self._is_open and line[:1] in (b" ", b"}", b"]"):
            self._is_open = line[:1] == b" "
            return None
        self._is_open = False
        if _TAIL_HEADER(line):
            return None
        if (self._entry is None or self._is_fenced) and is_fence(line):
            self._is_fenced = True
            return None
        if self._entry is None or self._entry.session:
            return LeftOut(place, "expected a time and the name of a server in brackets", is_message=False)
        return LoggedStderr(self._entry.name, line, self._entry.stamp_ns)


def _entry(line: bytes) -> _Entry | None:
    match = _COMMON_ENTRY(line)
    is_common = match is not None
    match = match or _SERVER_ENTRY(line)
    if match is None:
        return None
    text = line[match.end() :].rstrip(b"\r\n")
    is_cut = not line.endswith(b"\n")
    if text.endswith(_NO_METADATA):
        text, is_cut = text.removesuffix(_NO_METADATA), False
    elif is_cut:
        text = text[: text.rfind(b"} {") + 1] if _CUT_METADATA(text) else text
    else:
        text = _METADATA.sub(b"", text)
    name = match["name"].decode("utf-8", "replace")
    return _Entry(name, stamp_of_date(match["stamp"].decode()), text, "mcp.log" if is_common else "", is_cut)


def _message(entry: _Entry, side: Direction, place: str) -> LoggedFrame | LeftOut:
    body = entry.text[_PREFIX_BYTES:]
    raw, is_whole = body, True
    if _CUT_WORDS in body and (parts := _cut_parts(body.decode("utf-8", "replace"))):
        raw, is_whole = complete_message(*parts) or b"", False
    elif not body.startswith((b"{", b"[")):
        raw, is_whole = b"" if entry.is_cut else _message_from_summary(body.decode("utf-8", "replace")) or b"", False
    elif not is_json(body):
        raw, is_whole = (body, False) if entry.is_cut else (b"", True)
    if not raw:
        return LeftOut(place, "the message is neither JSON nor a summary that Claude Desktop writes", entry.name)
    return LoggedFrame(entry.name, side, raw, entry.stamp_ns, is_whole=is_whole, session=entry.session)


def _cut_parts(body: str) -> tuple[str, str, str] | None:
    """Returns the two ends of a message that Claude Desktop cut, and the text that replaces its middle; None if it is whole."""
    match = _CUT(body, _KEPT_UNITS // 2, _KEPT_UNITS + 40)
    if match is None:
        return None
    head, tail = body[: match.start()], body[match.end() :]
    return (head, match[0], tail) if _units(head) == _units(tail) == _KEPT_UNITS else None


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2


def _message_from_summary(summary: str) -> bytes | None:
    """Returns the message that a summary describes, with empty content, or None if the text is not a summary."""
    match = _SUMMARY(summary)
    if match is None:
        return None
    method, kind = match["method"], match["kind"]
    message_id = _scalar(match["id"])
    params: dict[str, object] | None = {} if kind == "params" else None
    if method is not None:
        return notification(method, params) if match["id"] is None else request(message_id, method, params)
    if kind == "error":
        return error(message_id, None if match["code"] is None else int(match["code"]))
    return result(message_id) if kind == "result" and match["id"] is not None else None


def _scalar(token: str | None) -> object:
    try:
        return None if token is None else loads(token)
    except JSONDecodeError:
        return token


FORM = Form(
    title="a Claude Desktop log",
    sniff=sniff,
    read=read,
    limitation="Claude Desktop logs parsed messages, not the original bytes",
)
