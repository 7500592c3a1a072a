"""A server for the film: notes that can be searched, and a tool whose back end never answers."""

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("notes", version="1.4.0")


@server.tool()
async def search(text: str) -> str:
    """Search the notes."""
    await anyio.sleep(0.12)
    return f"2 notes contain {text}"


@server.tool()
def read_note(name: str) -> str:
    """Read a note."""
    return f"# {name}\nThe library closes at six."


@server.tool()
async def sync(folder: str) -> str:
    """Copy a folder of notes to the archive."""
    await anyio.sleep_forever()
    return folder


server.run("stdio")
