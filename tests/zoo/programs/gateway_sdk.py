"""A small server on the official Python SDK of either major version, behind gateways: gateway_sdk.py MODE PORT.

MODE contains `json`, `stateless`, both, or neither.
"""

import asyncio
import importlib.metadata
import sys
from typing import Any

if importlib.metadata.version("mcp").startswith("1."):
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server
else:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as Server

mode, port = sys.argv[1], int(sys.argv[2])
how: dict[str, Any] = {"json_response": "json" in mode, "stateless_http": "stateless" in mode}
where: dict[str, Any] = {"host": "127.0.0.1", "port": port}
is_old = importlib.metadata.version("mcp").startswith("1.")
server = Server("gateway-py", **(how | where if is_old else {}))


@server.tool()
async def steps(ctx: Context) -> str:
    """Report three steps."""
    for step in range(1, 4):
        await ctx.report_progress(step, 3)
        await asyncio.sleep(0.2)
    return "done"


@server.tool()
async def slow() -> str:
    """Take four seconds."""
    await asyncio.sleep(4)
    return "at last"


@server.tool()
def large() -> str:
    """Return 100 kB."""
    return "0123456789" * 10_000


server.run("streamable-http", **({} if is_old else how | where))
