"""A client on the official Python SDK: gateway_client.py URL MODE [wait].

Prints a line of JSON for each step that it sees. With `wait`, it waits for a line on stdin after the slow call.
"""

import asyncio
import json
import sys
import warnings
from collections.abc import Awaitable
from typing import Any

from mcp import Client

ANSWER_S = 8.0
warnings.simplefilter("ignore")


def tell(step: str, saw: Any) -> None:
    """Print the outcome of a step."""
    print(json.dumps([step, saw]), flush=True)


async def attempt(step: str, doing: Awaitable[Any]) -> Any:
    """Run a step, and report any error."""
    try:
        return await asyncio.wait_for(doing, ANSWER_S + 2)
    except Exception as error:  # noqa: BLE001
        tell(step, f"{type(error).__name__}: {error}")


async def call(client: Client, name: str) -> None:
    """Call a tool."""
    steps: list[float] = []

    async def note(progress: float, _total: float | None, _message: str | None) -> None:
        steps.append(progress)

    print(json.dumps(["begin", name]), flush=True)
    result = await attempt(name, client.call_tool(name, {}, progress_callback=note if name == "steps" else None))
    if result is not None:
        text = result.content[0].text
        tell(name, [result.is_error, len(text), text[:100], steps])


async def main(url: str, mode: str, wait: str = "") -> None:
    """Run one conversation."""
    async with Client(url, mode=mode, read_timeout_seconds=ANSWER_S) as client:
        tell("connect", [client.protocol_version, client.server_info.name])
        if (tools := await attempt("list", client.list_tools())) is not None:
            tell("list", [tool.name for tool in tools.tools])
        await call(client, "steps")
        await call(client, "large")
        await call(client, "slow")
        if wait:
            await asyncio.to_thread(sys.stdin.readline)
        if client.protocol_version < "2026" and await attempt("ping", client.send_ping()) is not None:
            tell("ping", "ok")
        await call(client, "steps")
    tell("end", "ok")


try:
    asyncio.run(main(*sys.argv[1:]))
except BaseException as error:  # noqa: BLE001
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    tell("failed", f"{type(error).__name__}: {error}")
