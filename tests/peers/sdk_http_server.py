"""The server of sdk_server.py over HTTP, with its own log of everything that it received and sent.

    python -m tests.peers.sdk_http_server ACCOUNT [--sse | --json | --mounted | --batches | --bearer TOKEN | --cors URL]

It listens on a free loopback port, then prints its URL. For each exchange, one line of JSON is written to ACCOUNT: what
the application received and sent, as seen above the server's HTTP layer.

| option | serves |
|---|---|
| none | Streamable HTTP of all revisions, with resumption |
| `--sse` | the HTTP+SSE transport of 2024-11-05 |
| `--json` | Streamable HTTP without event streams |
| `--mounted` | Streamable HTTP below /mcp, so that /mcp is redirected to an absolute /mcp/; also as /api/mcp |
| `--batches` | responses to batches, as in 2025-03-26: in one array, or in events if nothing else is accepted |
| `--bearer` | Streamable HTTP for clients that send TOKEN |
| `--cors` | Streamable HTTP for a browser with a page from the origin URL |

More tools: `tell {text}` logs, `roots {}` requests the client's roots, `change {}` announces that the list of tools and
a resource have changed, `part {}` closes its stream before it answers, `meet {who, parties}` answers when that many
have called it.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import ListRoots, Resolve
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage, ListRootsResult
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from tests.peers.sdk_server import server

RETRY_MS = 100
"""How long a client waits before it resumes a stream: longer than the server needs to send the rest."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def roots(found: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Tell the client's roots."""
    return ", ".join(str(root.uri) for root in found.roots)


@server.tool()
async def tell(text: str, ctx: Context) -> str:
    """Log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await ctx.info(text)
    return "told"


@server.tool()
async def change(ctx: Context) -> str:
    """Say what has changed, to whoever listens."""
    if ctx.protocol_version == "2026-07-28":
        await ctx.notify_tools_changed()
        await ctx.notify_resource_updated("note://groceries")
    else:
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_resource_updated("note://groceries")
    return "changed"


@server.tool()
async def part(ctx: Context) -> str:
    """Close the stream of this call, and say the rest where the client resumes it."""
    await ctx.report_progress(1, 2, "before")
    await ctx.close_sse_stream()
    await ctx.report_progress(2, 2, "after")
    return "resumed"


_met: set[str] = set()
_all_met = anyio.Event()


@server.tool()
async def meet(who: str, parties: int) -> str:
    """Wait for all others."""
    _met.add(who)
    if len(_met) == parties:
        _all_met.set()
    await _all_met.wait()
    return f"met {who}"


class MemoryEventStore(EventStore):
    """Stores all events, so that any stream can be resumed."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return f"{stream_id}/{len(self._events)}"

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        stream, _, last = last_event_id.rpartition("/")
        for number, (of, message) in enumerate(list(self._events), 1):
            if of == stream and number > int(last) and message is not None:
                await send_callback(EventMessage(message, f"{stream}/{number}"))
        return stream


class Doorman:
    """Verifies tokens; accepts exactly one."""

    def __init__(self, token: str, resource: str) -> None:
        self._known = AccessToken(token=token, client_id="witness", scopes=["notes"], resource=resource)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self._known if token == self._known.token else None


async def answer_batch(request: Request) -> Response:
    """An empty result for each request of a batch."""
    answers = [{"jsonrpc": "2.0", "id": one["id"], "result": {}} for one in await request.json() if "id" in one]
    if not answers:
        return Response(status_code=202)
    if request.headers["accept"] == "text/event-stream":
        first, rest = json.dumps(answers[:1]), json.dumps(answers[1:])
        return Response(f"data: {first}\n\nid: 7\ndata: {rest}\n\n", media_type="text/event-stream")
    return JSONResponse(answers)


class TrafficLog:
    """Logs everything that an application receives and sends."""

    def __init__(self, app: App, path: Path) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        heard, said, answer = bytearray(), bytearray(), {"status": 0, "headers": []}

        async def listen() -> Message:
            message = await receive()
            heard.extend(message.get("body", b""))
            return message

        async def say(message: Message) -> None:
            # If a client has left its event stream, the SDK sends a second head, which nobody receives.
            if message["type"] == "http.response.start" and not answer["status"]:
                answer.update(status=message["status"], headers=_text(message["headers"]))
            # Written before it is passed on: nothing may be received that is not in the account.
            said.extend(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, listen, say)
        finally:
            line = {
                "method": scope["method"],
                "target": (scope["raw_path"] + b"?" * bool(scope["query_string"]) + scope["query_string"]).decode(),
                "headers": _text(scope["headers"]),
                "heard": heard.decode("latin-1"),
                "status": answer["status"],
                "answer_headers": answer["headers"],
                "said": said.decode("latin-1"),
            }
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def _text(headers: Any) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def application(options: argparse.Namespace, port: int) -> tuple[Any, str]:
    """The application to serve, and its path."""
    if options.sse:
        return server.sse_app(), "/sse"
    if options.batches:
        return Starlette(routes=[Route("/mcp", answer_batch, methods=["POST"])]), "/mcp"
    if options.mounted:
        inner = server.streamable_http_app(streamable_http_path="/")

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with server.session_manager.run():
                yield

        mount = Mount("/mcp", inner)
        return Starlette(routes=[mount, Mount("/api", Starlette(routes=[mount]))], lifespan=lifespan), "/mcp"
    if options.bearer:
        own = AnyHttpUrl(f"http://127.0.0.1:{port}/mcp")
        issuer = AnyHttpUrl("https://issuer.example/")
        auth = AuthSettings(
            issuer_url=issuer, resource_server_url=own, required_scopes=["notes"], validate_token_resource=True
        )
        guarded = MCPServer("guarded", auth=auth, token_verifier=Doorman(options.bearer, str(own)), log_level="ERROR")
        return guarded.streamable_http_app(), "/mcp"
    if options.cors:
        app = server.streamable_http_app()
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[options.cors],
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["mcp-session-id"],
        )
        return app, "/mcp"
    if options.json:
        return server.streamable_http_app(json_response=True), "/mcp"
    return server.streamable_http_app(event_store=MemoryEventStore(), retry_interval=RETRY_MS), "/mcp"


def serve(arguments: list[str]) -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("account", type=Path)
    how = parser.add_mutually_exclusive_group()
    for flag in ("--sse", "--json", "--mounted", "--batches"):
        how.add_argument(flag, action="store_true")
    how.add_argument("--bearer")
    how.add_argument("--cors")
    options = parser.parse_args(arguments)
    # asyncio sends without delay only if it sees the protocol's number.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        port = listener.getsockname()[1]
        app, path = application(options, port)
        print(f"http://127.0.0.1:{port}{path}", flush=True)
        config = uvicorn.Config(TrafficLog(app, options.account), log_level="error", timeout_graceful_shutdown=2)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    serve(sys.argv[1:])
