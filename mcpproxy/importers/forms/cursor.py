"""Cursor MCP logs.

Cursor logs which tools it called, and when it started and stopped servers:

    2026-03-01 10:12:05.377 [info] Calling tool 'read_note' with toolCallId: call_1
    2026-03-01 10:12:05.612 [info] Successfully called tool 'read_note'

**Where to find it.** In the server's channel of the Output panel, from which you can copy it, or in a file under

| system | folder |
|---|---|
| macOS | `~/Library/Application Support/Cursor/logs` |
| Windows | `%APPDATA%\\Cursor\\logs` |
| Linux | `~/.config/Cursor/logs` |

The file is `…/mcp-server-user-NAME.log` or `…/windowN/exthost/anysphere.cursor-mcp/MCP user-NAME.log`. Versions before June 2025 write
one file for all servers, `…/windowN/exthost/anysphere.cursor-always-local/Cursor MCP.log`.

**What the capture contains.** Tool calls, with their names, start and end times, and error messages. Cursor logs no ids,
so `import` numbers the calls (`"call 1"`), and a call that ends is assumed to be the oldest open one of its tool. The frames are
partial: arguments and results are empty. If a line of stdout is not JSON, the capture has its first ten characters. Errors in
texts that are not Cursor's own are assumed to be the server's stderr.

**What is missing.** All other messages. Times have no zone and are assumed to be in the zone of this machine; set `TZ` to import a log from
elsewhere. The file for all servers has only the last four characters of a server's name.

Sources: logs [of one server](https://github.com/microsoft/mcp/issues/1045) and
[of all servers](https://github.com/AgentDeskAI/browser-tools-mcp/issues/34).
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpproxy.importers.editor_logs import CURSOR_WORDS, EditorEntry, editor_entry, editor_of
from mcpproxy.importers.entries import is_fence
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
from mcpproxy.importers.source import Log
from mcpproxy.importers.tool_calls import ToolCalls

_SENTENCE: Final = re.compile(
    r"(?:(?P<server>[^\r\n]{4}): )?"
    r"(?:(?P<verb>Calling|Successfully called|Error calling) tool '(?P<tool>[^'\r\n]{1,256})'(?:: (?P<why>.*))?"
    r"|(?P<start>Starting new stdio process with command)|(?P<end>Client closed for command)"
    r"|(?P<stop>Handling (?:Delete|Reload)Client action|Cleaning up)"
    r"|Client error for command (?P<refused>.*))",
    re.DOTALL,
).match
_CONNECTION_CLOSED: Final = "Connection closed"
"""The end of a call's error if the server has closed the connection."""
_NO_JSON: Final = "the server wrote a line that is not JSON, and the log does not have it"
_FILE: Final = re.compile(r"(?:MCP |mcp-server-)(?:user-|project-\d+-)?(?P<name>.+?)(?:\.\d+)?\.log").fullmatch


def sniff(head: bytes, file_name: str) -> bool:
    """Returns whether Cursor wrote the log."""
    return editor_of(head, is_named=_FILE(file_name) is not None) == "cursor"


def read(log: Log) -> Iterator[Item]:
    """Read a log."""
    return _Reader(log).items()


class _Stderr(NamedTuple):
    name: str
    stamp_ns: int | None


class _Reader:
    def __init__(self, log: Log) -> None:
        self._log = log
        match = _FILE(log.file_name)
        self._name = match["name"] if match else log.name
        self._calls = ToolCalls()
        self._running_servers: set[str] = set()
        self._stopped_servers: set[str] = set()
        """Servers that Cursor stopped, or that had closed the connection before a call."""
        self._stderr: _Stderr | None = None
        """The entry of stderr that the next lines without a time continue."""
        self._has_entry = False
        self._is_fenced = False
        """Whether the log is in a Markdown code block."""

    def items(self) -> Iterator[Item]:
        for number, line in self._log.lines():
            place = f"line {number}"
            if left_out := left_out_if_too_long(number, line):
                yield left_out
                continue
            entry = editor_entry(line)
            if entry is not None:
                self._has_entry, self._stderr = True, None
                item = self._entry_item(entry, place)
            elif is_fence(line) and (self._is_fenced or not self._has_entry):
                self._is_fenced, item = True, None
            elif self._stderr:
                item = LoggedStderr(self._stderr.name, line.rstrip(b"\r\n"), self._stderr.stamp_ns)
            else:
                item = None if self._has_entry else LeftOut(place, "expected a time and a level in brackets")
            if item is not None:
                yield item

    def _entry_item(self, entry: EditorEntry, place: str) -> Item | None:
        stamp_ns = entry.stamp_ns
        if entry.is_error and not CURSOR_WORDS(entry.text):
            self._stderr = _Stderr(self._name, stamp_ns)
            self._running_servers.add(self._name)
            return LoggedStderr(self._name, entry.text, stamp_ns)
        match = _SENTENCE(entry.text.decode("utf-8", "replace"))
        if match is None:
            return None
        name, tool = match["server"] or self._name, match["tool"]
        if tool is not None:
            self._running_servers.add(name)
            if match["verb"] == "Calling":
                return self._calls.begin(name, tool, stamp_ns)
            if match["verb"] == "Successfully called":
                return self._calls.succeed(name, tool, stamp_ns, place)
            if (match["why"] or "").endswith(_CONNECTION_CLOSED):
                self._stopped_servers.add(name)
            return self._calls.fail(name, tool, match["why"] or "", stamp_ns, place, is_result=False)
        if match["start"]:
            self._running_servers.add(name)
            self._stopped_servers.discard(name)
            self._calls.forget_calls(name)
            return ServerStart(name, stamp_ns)
        if match["stop"] and name in self._running_servers:
            self._stopped_servers.add(name)
            return ClientExit(name, stamp_ns)
        if match["end"] and name in self._running_servers:
            self._running_servers.discard(name)
            return ServerExit(name, stamp_ns) if name in self._stopped_servers else Disconnection(name, stamp_ns)
        return _rejected_item(match["refused"], name, stamp_ns, place) if match["refused"] else None


def _rejected_item(error_text: str, name: str, stamp_ns: int | None, place: str) -> Item | None:
    line = rejected_line(error_text)
    if line is None:
        message = unexpected_message(error_text)
        return None if message is None else LoggedFrame(name, "s2c", message, stamp_ns, is_whole=False)
    if not line:
        return LeftOut(place, _NO_JSON, name, is_message=False)
    return LoggedFrame(name, "s2c", line, stamp_ns)


FORM = Form(
    title="a Cursor log",
    sniff=sniff,
    read=read,
    limitation="Cursor logs no messages, only which tools were called and when, without a time zone",
)
