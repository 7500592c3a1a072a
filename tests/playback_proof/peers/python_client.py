"""A client on the official Python SDK that uses everything that a server offers, and prints what it got as JSON lines.

    python_client.py --mode legacy|auto|2026-07-28 [--sse URL | URL | -- COMMAND ...]

Results are what the SDK's types made of them, so an answer that does not fit them is an error here. What the server
sends by itself is printed with the call during which it belongs (progress), or at the end, sorted (everything else).
"""

import argparse
import json
import sys
from collections.abc import Awaitable
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from pydantic import FileUrl

WITHIN_S = 60.0
CALLS: dict[str, list[dict[str, Any]]] = {
    # the official "everything" server
    "echo": [{"message": "hello"}, {"message": "naïve 🥚 \u2028"}, {"message": "hello"}, {}],
    "get-sum": [{"a": 2, "b": 3}, {"a": 2.5, "b": 1e300}],
    "get-tiny-image": [{}],
    "get-annotated-message": [{"messageType": "error", "includeImage": True}],
    "get-resource-links": [{"count": 3}],
    "get-resource-reference": [{"resourceType": "Text", "resourceId": 3}],
    "get-structured-content": [{"location": "New York"}],
    "get-roots-list": [{}],
    "trigger-long-running-operation": [{"duration": 0.4, "steps": 4}],
    "trigger-sampling-request": [{"prompt": "hi", "maxTokens": 10}],
    "trigger-elicitation-request": [{}],
    "trigger-url-elicitation": [{"url": "https://example.com/", "message": "look"}],
    "toggle-subscriber-updates": [{}, {}],
    # tests/peers/sdk_server.py and sdk_http_server.py
    "count": [{"steps": 0}, {"steps": 5}, {"steps": 5}],
    "fail": [{}],
    "greet": [{}],
    "dream": [{}],
    "tell": [{"text": "from the tool"}],
    "roots": [{}],
    "change": [{}],
    "part": [{}],
    # tests/peers/sdk_library.py
    "look": [{"text": "a"}, {"text": "b"}, {"text": "a"}],
    "show": [{}],
    # the bundled demo
    "add": [{"a": 1, "b": 2}, {"a": 1.5, "b": -2}],
    "ask": [{}],
    "nothing-is-called-this": [{}],
}
TEMPLATES = ("demo://resource/dynamic/text/1", "note://by-name/x", "note://two", "test://none")


class Transcript:
    """What the client got, in order."""

    def __init__(self) -> None:
        self.by_itself: list[str] = []
        """What the server sent without a request of the client, or to other calls."""

    def note(self, what: str, value: Any) -> None:
        if hasattr(value, "model_dump"):
            value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        print(json.dumps([what, value], sort_keys=True), flush=True)

    def keep(self, what: str, value: Any) -> None:
        if hasattr(value, "model_dump"):
            value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.by_itself.append(json.dumps([what, value], sort_keys=True))

    async def get(self, what: str, call: Awaitable[Any]) -> Any:
        """Note the result of a call, or its error."""
        try:
            with anyio.fail_after(WITHIN_S):
                result = await call
        except MCPError as error:
            self.note(what, {"error": error.error.model_dump(mode="json", exclude_none=True)})
            return None
        except TimeoutError:
            self.note(what, "no answer")
            return None
        except Exception as error:  # noqa: BLE001 -- what the SDK does not accept is what is looked for
            self.note(what, f"{type(error).__name__}: {str(error)[:300]}")
            return None
        self.note(what, result)
        return result


async def walk(told: Transcript, what: str, fetch: Any, member: str) -> list[Any]:
    """Fetch all pages of a list."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(100):
        result = await told.get(what, fetch(cursor=cursor))
        if result is None:
            return found
        found += getattr(result, member)
        cursor = result.next_cursor
        if cursor is None:
            break
    return found


async def talk(client: Client, told: Transcript) -> None:  # noqa: C901 -- one thing after another
    """Use everything."""
    legacy = client.protocol_version < "2026"
    told.note("server", [client.protocol_version, client.instructions])
    told.note("info", client.server_info)
    told.note("capabilities", client.server_capabilities)
    offered = client.server_capabilities
    if legacy:
        await told.get("ping", client.send_ping())
    if legacy and offered.logging is not None:
        await told.get("level", client.set_logging_level("debug"))
    tools = await walk(told, "tools", client.list_tools, "tools") if offered.tools else []
    resources, prompts = [], []
    if offered.resources:
        resources = await walk(told, "resources", client.list_resources, "resources")
        await walk(told, "templates", client.list_resource_templates, "resource_templates")
    if offered.prompts:
        prompts = await walk(told, "prompts", client.list_prompts, "prompts")
    names = {tool.name for tool in tools} | {"nothing-is-called-this"}
    for name, variants in CALLS.items():
        for arguments in variants if name in names else ():
            await call(client, told, name, arguments)
    for uri in [*(resource.uri for resource in resources[:4]), *TEMPLATES]:
        if offered.resources:
            await told.get(f"read {uri}", client.read_resource(uri))
    for prompt in prompts:
        given = {argument.name: "x" for argument in prompt.arguments or []}
        await told.get(f"prompt {prompt.name}", client.get_prompt(prompt.name, given))
        await told.get(f"prompt {prompt.name} bare", client.get_prompt(prompt.name))
    if offered.completions and prompts and prompts[-1].arguments:
        reference = types.PromptReference(type="ref/prompt", name=prompts[-1].name)
        for start in ("", "b", "be", "zz"):
            asked = {"name": prompts[-1].arguments[0].name, "value": start}
            await told.get(f"complete {start}", client.complete(reference, asked))
    await together(client, told, names)
    await subscriptions(client, told, names, resources, legacy=legacy)
    if "wait" in names:
        with anyio.move_on_after(0.5) as left:
            await client.call_tool("wait", {}, progress_callback=progress_into(told, "wait"))
        told.note("wait", ["cancelled", left.cancelled_caught])
        await told.get("after the cancellation", client.list_tools())
    if legacy:
        await told.get("roots changed", client.send_roots_list_changed())
        await told.get("ping", client.send_ping())


def progress_into(told: Transcript, what: str) -> Any:
    """Returns a callback that keeps progress."""

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.keep(f"progress of {what}", [progress, total, message])

    return on_progress


async def call(client: Client, told: Transcript, name: str, arguments: dict[str, Any]) -> None:
    """Call a tool, with its progress in order."""
    seen: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append([progress, total, message])

    await told.get(f"call {name} {arguments}", client.call_tool(name, arguments, progress_callback=on_progress))
    told.note(f"progress {name} {arguments}", seen)


async def together(client: Client, told: Transcript, names: set[str]) -> None:
    """Make calls at the same time."""
    several: list[tuple[str, dict[str, Any]]]
    several = [("count", {"steps": steps}) for steps in (7, 3, 5, 1)] if "count" in names else []
    several += [("echo", {"message": f"m{number}"}) for number in range(4)] if "echo" in names else []
    results: dict[str, Any] = {}

    async def one(name: str, arguments: dict[str, Any]) -> None:
        seen: list[Any] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append([progress, total, message])

        try:
            result: Any = (await client.call_tool(name, arguments, progress_callback=on_progress)).model_dump(
                mode="json"
            )
        except MCPError as error:
            result = repr(error)
        results[f"{name} {arguments}"] = [result, seen]

    async with anyio.create_task_group() as group:
        for name, arguments in several:
            group.start_soon(one, name, arguments)
    told.note("together", results)


async def subscriptions(
    client: Client, told: Transcript, names: set[str], resources: list[Any], *, legacy: bool
) -> None:
    """Subscribe to a resource, cause a change, and unsubscribe."""
    uri = "note://groceries" if any(resource.uri == "note://groceries" for resource in resources) else None
    uri = uri or (resources[0].uri if resources else None)
    if uri is None:
        return
    offered = client.server_capabilities.resources
    if legacy:
        if offered is not None and offered.subscribe:
            await told.get("subscribe", client.subscribe_resource(uri))
            if "change" in names:
                await call(client, told, "change", {})
            await told.get("unsubscribe", client.unsubscribe_resource(uri))
        return
    if "change" not in names:
        return
    try:
        with anyio.fail_after(10):
            async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:
                told.note("honoured", subscription.honored)
                await call(client, told, "change", {})
                events = set()
                async for event in subscription:
                    events.add(repr(event))
                    if len(events) == 2:
                        break
                told.note("events", sorted(events))
    except Exception as error:  # noqa: BLE001
        told.note("listen", f"{type(error).__name__}: {str(error)[:300]}")


async def main() -> None:  # noqa: C901 -- the callbacks
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="legacy")
    parser.add_argument("--sse", action="store_true")
    parser.add_argument("--errors")
    parser.add_argument("target", nargs="+")
    options = parser.parse_args()
    told = Transcript()

    async def sampling(context: Any, params: Any) -> types.CreateMessageResult:
        told.keep("sampling", params)
        said = types.TextContent(type="text", text="sampled")
        return types.CreateMessageResult(role="assistant", content=said, model="m", stop_reason="endTurn")

    async def elicitation(context: Any, params: Any) -> types.ElicitResult:
        told.keep("elicitation", params)
        if getattr(params, "mode", "form") == "url":
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def roots(context: Any) -> types.ListRootsResult:
        told.keep("roots", None)
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///work"), name="work")])

    async def logging(params: Any) -> None:
        told.keep("log", params)

    async def anything(message: Any) -> None:
        if isinstance(message, Exception):
            told.keep("exception", f"{type(message).__name__}: {str(message)[:300]}")
        elif type(message).__name__ not in ("LoggingMessageNotification", "ProgressNotification"):
            told.keep(type(message).__name__, message)

    (first, *rest) = options.target
    errors = open(options.errors, "a") if options.errors else sys.stderr  # noqa: SIM115, ASYNC230
    way: Any = first
    if "://" not in first:
        way = stdio_client(StdioServerParameters(command=first, args=rest), errlog=errors)
    elif options.sse:
        way = sse_client(first)
    try:
        async with Client(
            way,
            mode=options.mode,
            sampling_callback=sampling,
            elicitation_callback=elicitation,
            list_roots_callback=roots,
            logging_callback=logging,
            message_handler=anything,
            log_level="debug",
            cache=None,
            client_info=types.Implementation(name="proof", version="1"),
        ) as client:
            await talk(client, told)
    except Exception as error:  # noqa: BLE001
        told.note("end", f"{type(error).__name__}: {str(error)[:500]}")
    for line in sorted(told.by_itself):
        print(line)


anyio.run(main)
