"""What the official SDK says is right: the checker finds nothing above a note in all that its two ends can do."""

import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from tests.analysis.traces import alarms, findings_of
from tests.mcpproxy.test_sdk import MODES, recorded

LIBRARY = [sys.executable, str(Path(__file__).parents[1] / "peers/sdk_library.py")]


async def use_the_library(client: Client) -> None:
    cursor = None
    while True:
        listed = await client.list_resources(cursor=cursor)
        cursor = listed.next_cursor
        if cursor is None:
            break
    first = await client.list_tools()
    assert first.next_cursor is not None
    await client.list_tools(cursor=first.next_cursor)
    await client.list_resource_templates()
    await client.read_resource("note://one")
    await client.list_prompts()
    await client.get_prompt("ask", {"topic": "bees"})
    await client.complete(PromptReference(type="ref/prompt", name="ask"), {"name": "topic", "value": "be"})
    await client.complete(
        ResourceTemplateReference(type="ref/resource", uri="note://{name}"), {"name": "name", "value": "b"}
    )
    for tool in ("show", "look"):
        await client.call_tool(tool, {"text": "x"})
    if client.protocol_version < "2026-07-28":
        await client.set_logging_level("info")
        await client.subscribe_resource("note://one")
        await client.call_tool("change", {})
        await client.unsubscribe_resource("note://one")
        await client.send_ping()
        await client.send_roots_list_changed()
    with suppress(MCPError):
        await client.get_prompt("nothing", {})


# The SDK warns of what 2026-07-28 has done away with; older revisions speak it, and so must a test of them.
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("mode", MODES)
def test_all_that_the_library_offers_is_right(mode: str, tmp_path: Path) -> None:
    capture = tmp_path / "library.mcpcap"

    async def talk() -> None:
        async with recorded(LIBRARY, capture, mode) as client:
            await use_the_library(client)

    anyio.run(talk)
    assert alarms(capture) == []
    assert len(findings_of(capture)) < 40
