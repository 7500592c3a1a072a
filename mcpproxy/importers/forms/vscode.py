"""VS Code MCP logs.

Visual Studio Code has a log for each MCP server. At the right level, it contains the messages:

    2026-03-01 10:12:05.377 [debug] [editor -> server] {"jsonrpc":"2.0","id":1,"method":"ping"}
    2026-03-01 10:12:05.380 [debug] [server -> editor] {"jsonrpc":"2.0","id":1,"result":{}}
    2026-03-01 10:12:05.391 [warning] [server stderr] reading notes.txt

**Where to find it.** In the Output panel (`MCP: List Servers`, the server, `Show Output`), from which you can copy it, or in the
file `mcpServer.mcp.config.….NAME.log` under

| system | folder |
|---|---|
| macOS | `~/Library/Application Support/Code/logs/…/windowN` |
| Windows | `%APPDATA%\\Code\\logs\\…\\windowN` |
| Linux | `~/.config/Code/logs/…/windowN` |

Messages are logged at the level `debug`, or `trace` in versions of 2025. Set the level with `Developer: Set Log Level` before the
server starts. Editors based on VS Code write the same logs.

**What the capture contains.** The messages between two starts of a server, with their times in milliseconds, the server's
stderr, its exit status, and lines of its stdout that are not JSON.

**What is missing.** The original bytes, because messages were parsed. Times have no zone and are assumed to be in the zone of this machine; set `TZ` to
import a log from elsewhere. The log has no HTTP exchanges, even if the server is reached over HTTP, and no messages at levels other
than `debug` and `trace`.

Sources: [mcpServerRequestHandler.ts](https://github.com/microsoft/vscode/blob/main/src/vs/workbench/contrib/mcp/common/mcpServerRequestHandler.ts),
[extHostMcpNode.ts](https://github.com/microsoft/vscode/blob/main/src/vs/workbench/api/node/extHostMcpNode.ts),
logs [of early 2025](https://github.com/microsoft/vscode/issues/244377) and
[of 2026](https://github.com/microsoft/vscode/issues/297416).
"""

import re
from collections.abc import Iterator
from typing import Final

from orjson import JSONDecodeError, loads

from captures.verdict import Direction
from mcpproxy.importers.editor_logs import VSCODE_WORDS, editor_entry, editor_of
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
from mcpproxy.importers.source import Log, is_json

_STARTING: Final = b"Starting server "
_STARTING_FROM_HOST: Final = b"Starting server from "
"""`Starting server from LocalProcess extension host` follows."""
_EXITED: Final = re.compile(rb"Connection state: Error Process exited with code (\d{1,10})$").match
_STOPPING: Final = b"Stopping server "
_STOPPED: Final = b"Connection state: Stopped"
_FAILED: Final = b"Connection state: Error"
_STDERR: Final = b"[server stderr] "
_NOT_JSON: Final = b"Failed to parse message: "
_SIDES: Final[dict[bytes, Direction]] = {
    b"[editor -> server] ": "c2s",
    b"[server -> editor] ": "s2c",
    b"[Client Says] ": "c2s",
    b"[Server Says] ": "s2c",
}
_FILE: Final = re.compile(r"mcpServer\..+\.log").fullmatch
_NAMED_FILE: Final = re.compile(r"mcpServer\.mcp\.config\.[^.]+\.(.+)\.log").fullmatch


def sniff(head: bytes, file_name: str) -> bool:
    """Returns whether VS Code wrote the log."""
    return editor_of(head, is_named=_FILE(file_name) is not None) == "vscode"


def read(log: Log) -> Iterator[Item]:
    """Read a log."""
    match = _NAMED_FILE(log.file_name)
    name, is_running, is_stopping, has_entry = match[1] if match else log.name, False, False, False
    for number, line in log.lines():
        if left_out := left_out_if_too_long(number, line):
            yield left_out
            continue
        entry = editor_entry(line)
        if entry is None:
            # Any other line continues an entry, such as a stack trace. Messages and lines of stderr are always one line.
            if not (has_entry or VSCODE_WORDS(line) or is_fence(line)):
                yield LeftOut(f"line {number}", "expected a time and a level in brackets")
            continue
        has_entry = True
        stamp_ns, _, text = entry
        if text.startswith(_STARTING) and not text.startswith(_STARTING_FROM_HOST):
            name = text.removeprefix(_STARTING).decode("utf-8", "replace") or name
            is_running, is_stopping = True, False
            yield ServerStart(name, stamp_ns)
        elif text.startswith(_STOPPING):
            if is_running:
                yield ClientExit(name, stamp_ns)
            is_stopping = True
        elif text.startswith((_STOPPED, _FAILED)):
            exit_match = _EXITED(text)
            if is_running and (is_stopping or text.startswith(_FAILED)):
                yield ServerExit(name, stamp_ns, int(exit_match[1]) if exit_match else None)
            elif is_running:
                yield Disconnection(name, stamp_ns)
            is_running = False
        elif item := _message_or_stderr(text, name, stamp_ns, f"line {number}", is_cut=not line.endswith(b"\n")):
            is_running = True
            yield item


def _message_or_stderr(text: bytes, name: str, stamp_ns: int | None, place: str, *, is_cut: bool) -> Item | None:
    """Returns the message or line of stderr that an entry reports, or None if it reports neither."""
    if text.startswith(_STDERR.rstrip()):
        return LoggedStderr(name, text[len(_STDERR) :], stamp_ns)
    if text.startswith(_NOT_JSON):
        line = _json_string(text.removeprefix(_NOT_JSON))
        if line is None:
            return LeftOut(place, "expected a JSON string after `Failed to parse message:`", name)
        return LoggedFrame(name, "s2c", line.removesuffix(b"\n"), stamp_ns)
    for words, side in _SIDES.items():
        if text.startswith(words):
            body, is_whole = text[len(words) :], is_json(text[len(words) :])
            if body and (is_whole or is_cut):
                return LoggedFrame(name, side, body, stamp_ns, is_whole=is_whole)
            return LeftOut(place, "the message is not JSON", name)
    return None


def _json_string(text: bytes) -> bytes | None:
    try:
        value = loads(text)
    except JSONDecodeError:
        return None
    return value.encode() if isinstance(value, str) else None


FORM = Form(
    title="a VS Code log",
    sniff=sniff,
    read=read,
    limitation="VS Code logs messages only at the levels debug and trace, parsed and without a time zone",
)
