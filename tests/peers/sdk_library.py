"""A server on the official SDK's lower layer, with features that sdk_server.py lacks.

    sdk_library.py

The features: lists in pages of two, with cache hints if the revision has them; completion of prompt and template
arguments; log levels and log messages; subscriptions to resources, with updates when a tool changes one; roots, which
the tool `look` requests if the era lets a server send requests; resource templates; content of every kind.
"""

import base64
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

NOTES = [f"note://{name}" for name in ("one", "two", "three", "four", "five")]
PIXEL = base64.b64encode(b"\x89PNG\r\n").decode()


def page(params: types.PaginatedRequestParams | None, count: int) -> tuple[int, int, str | None]:
    start = int(params.cursor) if params is not None and params.cursor else 0
    stop = min(start + 2, count)
    return start, stop, str(stop) if stop < count else None


async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    names = ["look", "change", "show"]
    start, stop, cursor = page(params, len(names))
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [types.Tool(name=name, description=f"To {name}.", input_schema=schema) for name in names[start:stop]]
    return types.ListToolsResult(tools=tools, next_cursor=cursor)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "change":
        await ctx.session.send_resource_updated("note://one")
        await ctx.session.send_tool_list_changed()
    if params.name == "look":
        await ctx.session.send_log_message("info", "looking", logger="library")
    blocks: list[Any] = [
        types.TextContent(type="text", text="naïve 🥚"),
        types.ImageContent(type="image", data=PIXEL, mime_type="image/png"),
        types.EmbeddedResource(
            type="resource", resource=types.TextResourceContents(uri="note://one", text="one", mime_type="text/plain")
        ),
        types.ResourceLink(type="resource_link", name="two", uri="note://two"),
    ]
    shown = blocks if params.name == "show" else blocks[:1]
    told = types.TextContent(type="text", text='{"n": 1}')
    return types.CallToolResult(content=[*shown, told], structured_content={"n": 1})


async def list_resources(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    start, stop, cursor = page(params, len(NOTES))
    found = [types.Resource(uri=uri, name=uri, mime_type="text/plain", size=3) for uri in NOTES[start:stop]]
    return types.ListResourcesResult(resources=found, next_cursor=cursor)


async def list_templates(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    found = [types.ResourceTemplate(uri_template="note://{name}", name="note", description="Any note")]
    return types.ListResourceTemplatesResult(resource_templates=found)


async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    text = types.TextResourceContents(uri=params.uri, text="milk", mime_type="text/plain")
    blob = types.BlobResourceContents(uri=params.uri, blob=PIXEL, mime_type="image/png")
    return types.ReadResourceResult(contents=[text, blob])


async def list_prompts(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    argument = types.PromptArgument(name="topic", description="What about", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="ask", description="Ask.", arguments=[argument])])


async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    said = types.PromptMessage(role="user", content=types.TextContent(type="text", text=str(params.arguments)))
    return types.GetPromptResult(description="A question.", messages=[said])


async def complete(ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    found = [word for word in ("bees", "beer", "bread") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=found, total=len(found), has_more=False))


async def done(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def noted(ctx: Any, params: Any) -> None:
    return None


server: Server[Any] = Server(
    "sdk-library",
    version="1.0.0",
    instructions="Ask for notes.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=done,
    on_unsubscribe_resource=done,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=done,
    on_roots_list_changed=noted,
)


async def main() -> None:
    async with stdio_server() as (reading, writing):
        changes = NotificationOptions(tools_changed=True)
        await server.run(reading, writing, server.create_initialization_options(changes))


if __name__ == "__main__":
    anyio.run(main)
