"""A small handwritten server on FastAPI, without sessions, that answers only with JSON: gateway_fastapi.py PORT."""

import asyncio
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

app = FastAPI()
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("steps", "slow", "large")]


async def call(name: str) -> dict[str, Any]:
    """Run a tool."""
    if name == "slow":
        await asyncio.sleep(4)
    text = {"steps": "done", "slow": "at last", "large": "0123456789" * 10_000}[name]
    return {"content": [{"type": "text", "text": text}]}


@app.post("/mcp")
async def post(request: Request) -> Response:
    """Answer one message."""
    message = await request.json()
    if "id" not in message:
        return Response(status_code=202)
    method, params = message["method"], message.get("params", {})
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        answer["result"] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "gateway-fastapi", "version": "1.0.0"},
        }
    elif method == "tools/list":
        answer["result"] = {"tools": TOOLS}
    elif method == "tools/call":
        answer["result"] = await call(params["name"])
    elif method == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    return JSONResponse(answer)


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
