"""A client on FastMCP 2, 3 or 4: fastmcp_client.py PROGRAM|URL."""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(target: str) -> None:
    async with Client(target if "://" in target else StdioTransport(target, [])) as client:
        print([tool.name for tool in await client.list_tools()])
        print((await client.call_tool("add", {"a": 1, "b": 2})).content)
        print(await client.list_resources())
        print(await client.list_prompts())


asyncio.run(main(sys.argv[1]))
