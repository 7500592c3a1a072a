"""A client for the film: starts the server of `.claude.json` as a client does, and calls it at a calm pace.

It ends when its stdin does.
"""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Implementation

PACE_S = 0.8
CALLS = (
    ("search", {"text": "library"}),
    ("read_note", {"name": "library"}),
    ("search", {"text": "opening hours"}),
    ("read_note", {"name": "opening hours"}),
    ("sync", {"folder": "notes/2026"}),
    ("search", {"text": "keys"}),
    ("read_note", {"name": "keys"}),
)


async def converse(entry: dict[str, Any]) -> None:
    """Converse until stdin ends; calls do not wait for each other."""
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=entry.get("env"))
    async with (
        stdio_client(parameters) as (read, write),
        ClientSession(read, write, client_info=Implementation(name="agent", version="2.0")) as session,
        anyio.create_task_group() as tasks,
    ):
        await session.initialize()
        await session.list_tools()
        for name, arguments in CALLS:
            await anyio.sleep(PACE_S)
            tasks.start_soon(session.call_tool, name, arguments)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        tasks.cancel_scope.cancel()


anyio.run(converse, json.loads(Path(".claude.json").read_text())["mcpServers"]["notes"])
