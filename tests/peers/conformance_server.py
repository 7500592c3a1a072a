"""A server on the official SDK with the features that the official conformance suite tests, as far as the SDK has them.

    python -m tests.peers.conformance_server

It listens on a free loopback port, then prints its URL. Names and texts are those of the suite. The suite reports any
missing feature, with and without the recorder.
"""

import asyncio
import json
import socket
import warnings
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import (
    AudioContent,
    CallToolResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

from tests.peers.sdk_http_server import RETRY_MS, MemoryEventStore

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

server = MCPServer("conformance", version="1.0.0", log_level="CRITICAL")


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def image() -> ImageContent:
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri: str, words: str, kind: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=kind, text=words))


# ---- tools that answer


@server.tool()
async def test_simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@server.tool()
async def test_image_content() -> CallToolResult:
    """Answer with an image."""
    return CallToolResult(content=[image()])


@server.tool()
async def test_audio_content() -> CallToolResult:
    """Answer with a sound."""
    return CallToolResult(content=[AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")])


@server.tool()
async def test_embedded_resource() -> CallToolResult:
    """Answer with a resource."""
    return CallToolResult(content=[embedded("test://embedded-resource", "This is an embedded resource content.")])


@server.tool()
async def test_multiple_content_types() -> CallToolResult:
    """Answer with one of each."""
    mixed = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return CallToolResult(content=[text("Multiple content types test:"), image(), mixed])


@server.tool()
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool()
async def test_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Take an argument that is sent as a header as well."""
    return region


# ---- tools that send notifications before they answer


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three times."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await ctx.info(words)
        await anyio.sleep(0.05)
    return "logged"


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Make progress."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await anyio.sleep(0.05)
    return "done"


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Close the stream, and answer in the one that resumes it."""
    await ctx.close_sse_stream()
    await anyio.sleep(RETRY_MS / 1000)
    return "Reconnection test completed successfully."


# ---- tools that send requests to the client


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        message = SamplingMessage(role="user", content=text(prompt))
        answer = await ctx.session.create_message([message], max_tokens=100)
    return f"LLM response: {answer.content.text if isinstance(answer.content, TextContent) else answer.content}"


class Account(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field("active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = True


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user."""
    return f"User response: {await ctx.elicit(message, Account)}"


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user, and propose an answer."""
    found = await ctx.elicit("Check these values", Defaults)
    return f"Elicitation completed: action={found.action}"


def asked_for(message: str, name: str, kind: str = "string") -> ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def asked_of_model(question: str, tokens: int) -> CreateMessageRequest:
    messages = [SamplingMessage(role="user", content=text(question))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=messages, max_tokens=tokens))


def wanting(state: str | None = None, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


@server.tool()
async def test_input_required_result_elicitation(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask the user, as 2026-07-28 does."""
    answer = (ctx.input_responses or {}).get("user_name")
    if not isinstance(answer, ElicitResult) or "name" not in (answer.content or {}):
        return wanting(user_name=asked_for("What is your name?", "name"))
    return CallToolResult(content=[text(f"Hello, {(answer.content or {})['name']}!")])


@server.tool()
async def test_input_required_result_sampling(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask the model, as 2026-07-28 does."""
    answer = (ctx.input_responses or {}).get("capital_question")
    if not isinstance(answer, CreateMessageResult):
        return wanting(capital_question=asked_of_model("What is the capital of France?", 100))
    return CallToolResult(content=[text(str(answer.content))])


@server.tool()
async def test_input_required_result_list_roots(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask for the roots, as 2026-07-28 does."""
    answer = (ctx.input_responses or {}).get("client_roots")
    if not isinstance(answer, ListRootsResult):
        return wanting(client_roots=ListRootsRequest())
    return CallToolResult(content=[text(str(answer.roots))])


@server.tool()
async def test_input_required_result_request_state(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Have a state carried."""
    if ctx.request_state is None:
        return wanting("asked", confirm=asked_for("Please confirm", "ok", "boolean"))
    return CallToolResult(content=[text("state-ok")])


@server.tool()
async def test_input_required_result_tampered_state(ctx: Context) -> CallToolResult | InputRequiredResult:
    """The same; the SDK guards its integrity."""
    return await test_input_required_result_request_state(ctx)


@server.tool()
async def test_input_required_result_multiple_inputs(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask everybody at once."""
    if not ctx.input_responses:
        return wanting(
            "asked",
            user_name=asked_for("What is your name?", "name"),
            greeting=asked_of_model("Generate a greeting", 50),
            client_roots=ListRootsRequest(),
        )
    return CallToolResult(content=[text("all there")])


@server.tool()
async def test_input_required_result_multi_round(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask twice."""
    if ctx.request_state is None:
        return wanting("one", step1=asked_for("Step 1: What is your name?", "name"))
    if ctx.request_state == "one":
        return wanting("two", step2=asked_for("Step 2: What is your favorite color?", "color"))
    return CallToolResult(content=[text("thank you")])


# ---- resources and prompts


@server.resource("test://static-text", mime_type="text/plain", description="A text")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png", description="An image")
def static_binary() -> bytes:
    return b"\x89PNG\r\n\x1a\n"


@server.resource("test://template/{id}/data", mime_type="application/json", description="Any")
def template(id: str) -> str:  # noqa: A002 - the suite's name
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt()
def test_simple_prompt() -> str:
    """Say something."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Say what was said."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite's name
    """Show a resource."""
    shown = embedded(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(shown), UserMessage("Please process the embedded resource above.")]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """Show an image."""
    return [UserMessage(image()), UserMessage("Please analyze the image above.")]


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    return Completion(values=["paris", "park", "party"], total=3, has_more=False)


# ---- handlers that the SDK's high-level server does not provide

Requested = ServerRequestContext[Any, Any]


async def take_level(ctx: Requested, params: SetLevelRequestParams) -> EmptyResult:
    return EmptyResult()


async def take_subscription(ctx: Requested, params: SubscribeRequestParams | UnsubscribeRequestParams) -> EmptyResult:
    return EmptyResult()


def main() -> None:
    low = server._lowlevel_server
    low.add_request_handler("logging/setLevel", SetLevelRequestParams, take_level)
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, take_subscription)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, take_subscription)
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        app = server.streamable_http_app(event_store=MemoryEventStore(), retry_interval=RETRY_MS)
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=2)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
