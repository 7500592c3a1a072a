"""A small server on the official Python SDK of the handshake era: mcp_1_server.py TRANSPORT PORT."""

import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("zoo-mcp-1", host="127.0.0.1", port=int(sys.argv[2]))


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.resource("zoo://gate")
def gate() -> str:
    """The gate."""
    return "open"


@server.prompt()
def ask(about: str) -> str:
    """Ask."""
    return f"What of {about}?"


server.run(transport=sys.argv[1])
