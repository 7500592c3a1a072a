"""The official SDK is taken as correct: `check` finds nothing above a note in what its client and server do."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ListRootsResult, PromptReference, ResourceTemplateReference

from tests.analysis.traces import alarms, findings_of
from tests.harness import Place, Session
from tests.mcpproxy.test_sdk_integration import DEADLINE_S, everything_server, recorded

__all__ = ["everything_server"]  # a fixture

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


async def rooted(context: object) -> ListRootsResult:
    return ListRootsResult(roots=[])


# The SDK warns about features that 2026-07-28 has removed; older revisions have them, so this test uses them.
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.costly("the SDK's two ends, and all that its library offers")
@pytest.mark.parametrize("mode", ["legacy", "auto", pytest.param("2026-07-28", marks=pytest.mark.soak)])
def test_all_that_the_library_offers_is_right(mode: str, tmp_path: Path) -> None:
    capture = tmp_path / "library.mcpcap"

    async def talk() -> None:
        async with recorded(LIBRARY, capture, mode, list_roots_callback=rooted) as client:
            await use_the_library(client)

    anyio.run(talk)
    # The conversation ends with a request for a prompt that does not exist.
    assert [rule for rule, _, _ in alarms(capture)] == ["prompt/unlisted"]
    assert len(findings_of(capture)) < 40


TASKS: dict[str, Any] = {
    "list": {},
    "cancel": {},
    "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
}


class ScriptedClient:
    """A client that sends what a test gives it, for what the SDK's client cannot do."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last_id = 0

    def tell(self, method: str, **params: Any) -> None:
        self._say({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request; returns its result, after answering any requests that the server sends before it."""
        self._last_id += 1
        self._say({"id": self._last_id, "method": method, "params": params})
        while True:
            heard = json.loads(self._session.line())
            if "method" not in heard and heard.get("id") == self._last_id:
                assert "error" not in heard, heard
                result: dict[str, Any] = heard["result"]
                return result
            if "id" in heard:
                assert heard["method"] == "roots/list"
                self._say({"id": heard["id"], "result": {"roots": []}})

    def _say(self, members: dict[str, Any]) -> None:
        self._session.send(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n")


@pytest.mark.timeout(3 * DEADLINE_S)
def test_tasks_of_the_reference_server_are_right(everything_server: list[str], place: Place) -> None:
    session = place.start(everything_server)
    client = ScriptedClient(session)
    capabilities = {"roots": {}, "elicitation": {"form": {}}, "sampling": {}, "tasks": TASKS}
    who = {"name": "plain", "version": "1"}
    client.ask("initialize", protocolVersion="2025-11-25", capabilities=capabilities, clientInfo=who)
    client.tell("notifications/initialized")
    client.ask("tools/list")
    asked = {"name": "simulate-research-query", "arguments": {"topic": "bees"}, "task": {"ttl": 60_000}}
    task = client.ask("tools/call", **asked)["task"]["taskId"]
    assert client.ask("tasks/result", taskId=task)["content"]
    assert client.ask("tasks/get", taskId=task)["status"] == "completed"
    assert [one["taskId"] for one in client.ask("tasks/list")["tasks"]] == [task]
    second = client.ask("tools/call", **asked)["task"]["taskId"]
    client.ask("tasks/cancel", taskId=second)
    session.process.kill()  # the server would live on for a minute and a half
    session.process.wait()
    assert session.capture is not None
    assert alarms(session.capture) == []
