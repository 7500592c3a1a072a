"""A small server on FastMCP 2, 3 or 4: fastmcp_server.py TRANSPORT PORT."""

import sys

from fastmcp import FastMCP

server = FastMCP("zoo-fastmcp", version="1.0.0")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.resource("zoo://gate")
def gate() -> str:
    """The gate."""
    return "open"


@server.prompt
def ask(about: str) -> str:
    """Ask."""
    return f"What of {about}?"


transport, port = sys.argv[1], int(sys.argv[2])
server.run(transport, **({"host": "127.0.0.1", "port": port} if port else {}))
