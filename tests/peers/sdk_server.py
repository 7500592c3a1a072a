"""A server on the official SDK that speaks both eras and sends requests to its client.

    sdk_server.py

| tool | does |
|---|---|
| `count {steps}` | reports progress `steps` times, then answers |
| `wait {}` | reports progress once, and never answers |
| `fail {}` | ends in a tool error |
| `greet {}` | asks the user for a name: with a request before 2026-07-28, with `input_required` from then on |
| `dream {}` | asks the client's model, in the same two ways |

It also has a resource, a resource template and a prompt.
"""

from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("sdk-notebook", version="4.5.6", log_level="ERROR")


class Name(BaseModel):
    name: str


def ask_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


def ask_model() -> Sample:
    said = SamplingMessage(role="user", content=TextContent(type="text", text="Dream of something."))
    return Sample([said], max_tokens=50)


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Count aloud."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted to {steps}"


@server.tool()
async def wait(ctx: Context) -> str:
    """Never answer."""
    await ctx.report_progress(0, 1, "waiting")
    await anyio.sleep_forever()
    return "never"


@server.tool()
async def fail() -> str:
    """Fail."""
    raise ToolError("the ink has run out")


@server.tool()
async def greet(who: Annotated[Name, Resolve(ask_name)]) -> str:
    """Greet the user by a name that nobody told yet."""
    return f"hello {who.name}"


@server.tool()
async def dream(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Tell what the model dreamt."""
    return f"dreamt by {answer.model}"


@server.resource("note://groceries")
def groceries() -> str:
    """What to buy."""
    return "milk, naïve bread, 🥚"


@server.resource("note://by-name/{name}")
def note(name: str) -> str:
    """Any note."""
    return f"the note {name}"


@server.prompt()
def summarise(note: str) -> str:
    """Sum a note up."""
    return f"Sum up {note} in one sentence."


if __name__ == "__main__":
    server.run("stdio")
