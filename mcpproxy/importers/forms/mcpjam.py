"""MCPJam Inspector logs.

[MCPJam Inspector](https://github.com/MCPJam/inspector) shows its messages to and from servers, and exports them as one JSON file, the
newest first:

    [
      {
        "timestamp": "2026-03-01T10:12:05.377Z",
        "source": "mcp-server",
        "serverId": "notes",
        "serverName": "notes",
        "direction": "SEND",
        "method": "tools/list",
        "payload": { "jsonrpc": "2.0", "id": 1, "method": "tools/list" }
      }
    ]

With `--rpc`, its CLI adds them to the output of a command, in the member `_rpcLogs`. Both can be imported.

**Where to find it.** In the downloads folder of the browser, where the button "Export logs as JSON file" saves
`json-rpc-logs-TIME.json`; or use "Copy logs", or `mcpjam … --format json --rpc`. The session is the one between MCPJam and the
server, not that of another client.

**What the capture contains.** The messages, with their times in milliseconds. Each server gets a capture.

**What is missing.** The original text of messages, because they were parsed; messages that the filter hid when the file was exported; stderr.
Entries about anything else, such as OAuth, HTTP and apps, are skipped. The CLI replaces secrets. A file may be up to 32 MiB long.

Sources: [logger-view.tsx](https://github.com/MCPJam/inspector/blob/main/mcpjam-inspector/client/src/components/logger-view.tsx) and
[rpc-logs.ts](https://github.com/MCPJam/inspector/blob/main/cli/src/lib/rpc-logs.ts) of version 2.45.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from captures.verdict import Direction
from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import Item, LeftOut, LoggedFrame, sorted_by_time
from mcpproxy.importers.source import InvalidLine, Log, consume_entries, first_element, json_of, whole_json
from mcpproxy.importers.times import stamp_of_date

_SIDES: Final[dict[object, Direction]] = {"SEND": "c2s", "RECEIVE": "s2c", "send": "c2s", "receive": "s2c"}
_MEMBERS: Final = frozenset({"timestamp", "source", "serverId", "direction", "payload"})
_OBJECT: Final = re.compile(rb"\s*\{").match
_RPC_LOGS: Final = re.compile(rb'"_rpcLogs"\s*:\s*\[\s*\{').search


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the log is an array whose first element is an entry, or an object with entries of the CLI."""
    if _OBJECT(head):
        return _RPC_LOGS(head) is not None
    return first_element(head).keys() >= _MEMBERS


def read(log: Log) -> Iterator[Item]:
    """Read a log.

    Raises:
        InvalidLine: the log is too long, or MCPJam Inspector did not write it.
    """
    content = whole_json(log, "clear the logs before the next export")
    entries = content.get("_rpcLogs") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise InvalidLine("expected a list of entries")
    frames = []
    for number, entry in consume_entries(entries):
        try:
            frames += _frames(entry, log.name)
        except InvalidLine as error:
            yield LeftOut(f"entry {number}", str(error))
    yield from sorted_by_time(frames if isinstance(content, dict) else reversed(frames))


def _frames(entry: object, default_name: str) -> list[LoggedFrame]:
    """Returns the message of an entry; empty if the entry is not about a message to or from a server."""
    if not isinstance(entry, dict):
        raise InvalidLine("expected an object")
    side, name = _SIDES.get(entry.get("direction")), entry.get("serverName") or entry.get("serverId")
    if side is None or entry.get("source") == "mcp-apps":
        return []
    message: Any = entry.get("payload", entry.get("message"))
    if not isinstance(message, dict | list):
        raise InvalidLine("expected a message in `payload` or `message`")
    server_id = entry.get("serverId")
    return [
        LoggedFrame(
            name if isinstance(name, str) else default_name,
            side,
            json_of(message),
            stamp_of_date(entry.get("timestamp")),
            session=server_id if isinstance(server_id, str) else "",
        )
    ]


FORM = Form(
    title="an MCPJam Inspector log",
    sniff=sniff,
    read=read,
    limitation="MCPJam Inspector exports parsed messages, and only those that it still shows",
)
