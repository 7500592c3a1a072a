"""Claude Code MCP logs.

Claude Code logs which tools it called, what servers wrote to stderr, and what else it did with the servers. It writes JSON files
for each server, or a debug log:

    {"debug":"Calling MCP tool: read_note","timestamp":"2026-03-01T09:12:05.377Z","sessionId":"…","cwd":"…"}
    {"error":"Server stderr: reading notes.txt\\n","timestamp":"2026-03-01T09:12:05.391Z","sessionId":"…","cwd":"…"}

    2026-03-01T09:12:05.612Z [DEBUG] MCP server "notes": Tool 'read_note' completed successfully in 235ms

**Where to find it.** The logs of a server are in `FOLDER/mcp-logs-NAME` under

| system | folder |
|---|---|
| macOS | `~/Library/Caches/claude-cli-nodejs` |
| Windows | `%LOCALAPPDATA%\\claude-cli-nodejs\\Cache` |
| Linux | `~/.cache/claude-cli-nodejs` |

FOLDER is the path of the working directory with dashes in place of separators. Since the end of 2025, the files are `.jsonl`, with
an object on each line; before that they were `.txt`, an array of objects. The debug log is `~/.claude/debug/SESSION.txt`, which
`claude --debug` writes, or the file named with `--debug-file`. The terminal output of `--mcp-debug` can also be imported.

**What the capture contains.** Tool calls, with their names, start and end times, and error messages; the server's stderr.
Claude Code logs no ids, so `import` numbers the calls (`"call 1"`), and a call that ends is assumed to be the oldest open one of
its tool. The frames are partial: arguments are empty, and so are results, unless they are errors. If a line of stdout is
not JSON, the capture has its first ten characters. Each session with a server has its own capture.

**What is missing.** All other messages. The `.jsonl` and `.txt` files do not contain the name of the server. It is taken from the
folder, so keep the file in a folder with the original name. Terminal output has no times.

Sources: examples [of the debug log](https://github.com/anthropics/claude-code/issues/30147) and
[of the array](https://github.com/utensils/mcp-nixos/issues/31); [where the files are](https://github.com/anthropics/claude-code/issues/69427).
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from orjson import JSONDecodeError, loads

from mcpproxy.importers.entries import MAX_SNIFFED_LINES, is_fence, is_program_log, sniffed_lines
from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import (
    ClientExit,
    Disconnection,
    Item,
    LeftOut,
    LoggedFrame,
    LoggedStderr,
    ServerExit,
    ServerStart,
    left_out_if_too_long,
)
from mcpproxy.importers.rejected_lines import rejected_line, unexpected_message
from mcpproxy.importers.source import MAX_INPUT_LINE_BYTES, Log, first_lines
from mcpproxy.importers.times import stamp_of_date
from mcpproxy.importers.tool_calls import ToolCalls

MAX_OBJECT_LINES: Final = 64
"""Lines of one object in an array. An object has one line for each of its members, four or five in practice."""
MAX_RUNNING_SERVERS: Final = 10_000
"""Servers that are tracked as running."""
MAX_SESSION_CHARS: Final = 64
_DEBUG_LINE: Final = re.compile(
    rb"(?:(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) )?\[(?:DEBUG|INFO|WARN|ERROR)\] "
    rb'(?:MCP server "(?P<name>[^"\r\n]{1,256})":? (?P<text>[^\r\n]*))?'
).match
_FOLDER_PREFIX: Final = "mcp-logs-"
_STDERR: Final = "Server stderr: "
_START: Final = "Starting connection with timeout"
_CALLING: Final = re.compile(r"Calling MCP tool: (?P<tool>\S{1,256})").fullmatch
_SUCCEEDED: Final = re.compile(r"Tool '(?P<tool>[^'\r\n]{1,256})' completed successfully").match
_FAILED: Final = re.compile(
    r"Tool '(?P<tool>[^'\r\n]{1,256})' failed(?: after [\d.]+m?s)?(?: \([^)\r\n]{1,100}\))?: (?P<why>.*)", re.DOTALL
).fullmatch
_STOPPING: Final = re.compile(r"Sending SIG(?:INT|TERM|KILL) to MCP server process").match
_ENDED: Final = re.compile(
    r"\w+ connection closed after |MCP server process exited|Connection failed after |Connection failed:"
).match
_ENDED_BY_SERVER: Final = re.compile(r"closed after \S+ \(with errors\)|Connection closed$|exited (?!cleanly)").search
"""Matches ends for which the server is responsible, unless Claude Code has stopped it."""
_MEMBERS: Final = frozenset({"debug", "error", "timestamp", "sessionId", "cwd"})
_OBJECT_START: Final = re.compile(rb"\s*+(?:\[\s*+)?\{|\[\s*$").match


class _Entry(NamedTuple):
    name: str
    session: str
    stamp_ns: int | None
    text: str
    place: str


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the log begins with an object of Claude Code, or with debug entries, one of which names a server."""
    if entry_lines := sniffed_lines(head, _OBJECT_START, is_named=False):
        objects = _objects(enumerate(entry_lines[:MAX_OBJECT_LINES], 1))
        entry = next((_entry_of(value, "", "") for value, _ in objects), None)
        return entry is not None
    return is_program_log(head, _DEBUG_LINE, _names_server, is_named=False)


def _names_server(line: bytes) -> bool:
    match = _DEBUG_LINE(line)
    return match is not None and match["name"] is not None


def read(log: Log) -> Iterator[Item]:
    """Read a log."""
    reader = _Reader()
    for entry in _entries(log):
        if isinstance(entry, _Entry):
            yield from reader.items(entry)
        else:
            yield entry


def _entries(log: Log) -> Iterator[_Entry | Item]:
    if not any(_DEBUG_LINE(line) for line in first_lines(log.head, MAX_SNIFFED_LINES)):
        has_name = log.folder_name.startswith(_FOLDER_PREFIX)
        name = log.folder_name.removeprefix(_FOLDER_PREFIX) if has_name else log.name
        for value, place in _objects(_skip_surrounding_text(log.lines())):
            entry = _entry_of(value, name, place)
            yield entry or LeftOut(place, "expected a JSON object with `debug` or `error`", name)
        return
    yield from _debug_entries(log)


def _debug_entries(log: Log) -> Iterator[_Entry | Item]:
    """Yields the entries about servers in a debug log, and the lines of stderr that continue them."""
    last_entry: _Entry | None = None
    for number, line in log.lines():
        place = f"line {number}"
        if left_out := left_out_if_too_long(number, line):
            yield left_out
            continue
        match = _DEBUG_LINE(line)
        if match is None:
            if last_entry and last_entry.text.startswith(_STDERR):
                yield LoggedStderr(last_entry.name, line.rstrip(b"\r\n"), last_entry.stamp_ns)
            continue
        last_entry = None
        if match["name"] is not None:
            stamp_ns = stamp_of_date(match["stamp"].decode()) if match["stamp"] else None
            name, text = (match[group].decode("utf-8", "replace") for group in ("name", "text"))
            last_entry = _Entry(name, "", stamp_ns, text, place)
            if not line.endswith(b"\n") and (_CALLING(text) or _FAILED(text)):
                yield LeftOut(place, "the last line may be truncated", name)
            else:
                yield last_entry


def _skip_surrounding_text(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Skip the lines of text before the first object, and Markdown fences."""
    has_begun = False
    for number, line in lines:
        has_begun = has_begun or _OBJECT_START(line) is not None
        if has_begun and not is_fence(line):
            yield number, line


def _objects(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[Any, str]]:
    """Yields the objects on lines, or in an array that spans lines, with their positions; None for invalid lines."""
    object_lines: list[bytes] = []
    for number, line in lines:
        text, place = line.strip(), f"line {number}"
        if not object_lines and text in (b"[", b"]", b"[]"):
            continue
        object_lines.append(text)
        if object_lines[0] in (b"{", b"[{") and not text.startswith(b"}") and len(object_lines) < MAX_OBJECT_LINES:
            continue
        value = _parsed(b"".join(object_lines)) if len(line) <= MAX_INPUT_LINE_BYTES else None
        object_lines = []
        for element in value if isinstance(value, list) else [value]:
            yield element, place
    if object_lines:
        yield None, place


def _parsed(text: bytes) -> Any:
    """Returns the value of a JSON text that may contain commas or brackets of an array, or None if it is not JSON."""
    text = text.strip(b",")
    for candidate in (text, text + b"]", text.removesuffix(b"]")):
        try:
            return loads(candidate)
        except JSONDecodeError:
            continue
    return None


def _entry_of(value: Any, name: str, place: str) -> _Entry | None:
    if not isinstance(value, dict) or not value.keys() <= _MEMBERS:
        return None
    text = value.get("error", value.get("debug"))
    if not isinstance(text, str):
        return None
    session = value.get("sessionId")
    session = session[:MAX_SESSION_CHARS] if isinstance(session, str) else ""
    return _Entry(name, session, stamp_of_date(value.get("timestamp")), text, place)


class _Reader:
    def __init__(self) -> None:
        self._calls = ToolCalls()
        self._running_servers: set[tuple[str, str]] = set()
        self._stopped_servers: set[tuple[str, str]] = set()
        """Servers that Claude Code has stopped."""

    def items(self, entry: _Entry) -> Iterator[Item]:
        """Yields the events that an entry reports."""
        name, session, stamp_ns, text, _ = entry
        key = name, session
        if text.startswith(_STDERR):
            self._mark_running(key)
            for line in text.removeprefix(_STDERR).rstrip("\r\n").split("\n"):
                yield LoggedStderr(name, line.rstrip("\r").encode("utf-8", "replace"), stamp_ns, session)
        elif text.startswith(_START):
            self._mark_running(key)
            self._stopped_servers.discard(key)
            self._calls.forget_calls(name, session)
            yield ServerStart(name, stamp_ns, session)
        elif _STOPPING(text):
            if key in self._running_servers:
                self._stopped_servers.add(key)
                yield ClientExit(name, stamp_ns, session)
        elif _ENDED(text):
            if key in self._running_servers:
                self._running_servers.discard(key)
                has_server_ended = key in self._stopped_servers or _ENDED_BY_SERVER(text)
                yield (
                    ServerExit(name, stamp_ns, session=session)
                    if has_server_ended
                    else Disconnection(name, stamp_ns, session)
                )
        elif item := self._call_item(entry) or _rejected_frame(entry):
            self._mark_running(key)
            yield item

    def _mark_running(self, key: tuple[str, str]) -> None:
        if len(self._running_servers) < MAX_RUNNING_SERVERS:
            self._running_servers.add(key)

    def _call_item(self, entry: _Entry) -> Item | None:
        name, session, stamp_ns, text, place = entry
        if match := _CALLING(text):
            return self._calls.begin(name, match["tool"], stamp_ns, session)
        if match := _SUCCEEDED(text):
            return self._calls.succeed(name, match["tool"], stamp_ns, place, session)
        if match := _FAILED(text):
            return self._calls.fail(name, match["tool"], match["why"], stamp_ns, place, session, is_result=True)
        return None


def _rejected_frame(entry: _Entry) -> Item | None:
    if "JSON" not in entry.text and "Received a " not in entry.text:
        return None
    line = rejected_line(entry.text)
    if line is None:
        message = unexpected_message(entry.text)
        if message is None:
            return None
        return LoggedFrame(entry.name, "s2c", message, entry.stamp_ns, is_whole=False, session=entry.session)
    if not line:
        return None
    return LoggedFrame(entry.name, "s2c", line, entry.stamp_ns, session=entry.session)


FORM = Form(
    title="a Claude Code log",
    sniff=sniff,
    read=read,
    limitation="Claude Code logs no messages, only the names and times of tool calls, and stderr",
)
