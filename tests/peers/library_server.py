"""A server on the official SDK in two versions, for comparisons: each change of the second one is here for a purpose.

    library_server.py 1|2|1-again

| in version 2 | so |
|---|---|
| `search` requires `shelf` | calls without it, which version 1 accepts, fail |
| `lend` is gone | calls of it fail |
| `rate` knows fewer words for `mood` | calls with `sad` are refused |
| `count` answers another number | a value changes |
| `renew` is new, `search` has another description | nothing breaks |

`1-again` is version 1, with another number in what `count` answers.
"""

import sys
from typing import Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

VERSION = sys.argv[1]
server = MCPServer("library", version=f"{VERSION[0]}.0.0", log_level="ERROR")


class Total(BaseModel):
    books: int


@server.tool()
def count() -> Total:
    """Count the books."""
    return Total(books={"1": 12, "1-again": 13, "2": 14}[VERSION])


if VERSION == "2":

    @server.tool()
    def search(query: str, shelf: str) -> str:
        """Search one shelf."""
        return f"{query}: found on shelf {shelf}"

    @server.tool()
    def rate(title: str, mood: Literal["glad"]) -> str:
        """Rate a book."""
        return f"{title} is rated {mood}"

    @server.tool()
    def renew(title: str) -> str:
        """Keep a book for longer."""
        return f"{title} is renewed"
else:

    @server.tool()
    def search(query: str, shelf: str = "any") -> str:
        """Search the library."""
        return f"{query}: found on shelf {shelf}"

    @server.tool()
    def rate(title: str, mood: Literal["glad", "sad"]) -> str:
        """Rate a book."""
        return f"{title} is rated {mood}"

    @server.tool()
    def lend(title: str) -> str:
        """Lend a book."""
        if title == "lost":
            raise ToolError("this book is lost")
        return f"{title} is lent"


if __name__ == "__main__":
    server.run("stdio")
