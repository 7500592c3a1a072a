"""A small handwritten server on aiohttp, with sessions and streams: gateway_aiohttp.py PORT."""

import asyncio
import json
import sys
import uuid
from typing import Any

from aiohttp import web

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("steps", "slow", "large")]
sessions: set[str] = set()


async def start(request: web.Request) -> web.StreamResponse:
    """Begin an event stream."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    return response


async def send(stream: web.StreamResponse, message: dict[str, Any]) -> None:
    """Send one event."""
    await stream.write(b"event: message\ndata: %s\n\n" % json.dumps({"jsonrpc": "2.0", **message}).encode())


async def call(stream: web.StreamResponse, params: dict[str, Any]) -> dict[str, Any]:
    """Run a tool."""
    name, token = params["name"], params.get("_meta", {}).get("progressToken")
    if name == "slow":
        await asyncio.sleep(4)
    if name == "steps" and token is not None:
        for step in range(1, 4):
            told = {"progressToken": token, "progress": step, "total": 3}
            await send(stream, {"method": "notifications/progress", "params": told})
            await asyncio.sleep(0.2)
    text = {"steps": "done", "slow": "at last", "large": "0123456789" * 10_000}[name]
    return {"content": [{"type": "text", "text": text}]}


async def post(request: web.Request) -> web.StreamResponse:
    """Answer one message."""
    message = await request.json()
    method = message.get("method")
    if method == "initialize":
        session = uuid.uuid4().hex
        sessions.add(session)
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "gateway-aiohttp", "version": "1.0.0"},
        }
        headers = {"Mcp-Session-Id": session}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)
    if request.headers.get("Mcp-Session-Id") not in sessions:
        raise web.HTTPNotFound
    if "id" not in message:
        return web.Response(status=202)
    if method == "tools/call":
        stream = await start(request)
        await send(stream, {"id": message["id"], "result": await call(stream, message["params"])})
        await stream.write_eof()
        return stream
    results: dict[str, Any] = {"tools/list": {"tools": TOOLS}, "ping": {}}
    if method in results:
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": results[method]})
    error = {"code": -32601, "message": "Method not found"}
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})


async def get(request: web.Request) -> web.StreamResponse:
    """Keep a stream open without ever sending anything on it."""
    stream = await start(request)
    while True:
        await asyncio.sleep(60)
        await stream.write(b": still here\n\n")


async def delete(request: web.Request) -> web.Response:
    """End a session."""
    sessions.discard(request.headers.get("Mcp-Session-Id", ""))
    return web.Response(status=204)


app = web.Application()
app.add_routes([web.post("/mcp", post), web.get("/mcp", get), web.delete("/mcp", delete)])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, shutdown_timeout=0.5)
