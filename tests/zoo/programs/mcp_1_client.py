"""A client on the official Python SDK of the handshake era: mcp_1_client.py PROGRAM|URL."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def main(target: str) -> None:
    way = streamablehttp_client(target) if "://" in target else stdio_client(StdioServerParameters(command=target))
    async with way as (read, write, *_), ClientSession(read, write) as session:
        print((await session.initialize()).serverInfo.name)
        print([tool.name for tool in (await session.list_tools()).tools])
        print((await session.call_tool("add", {"a": 1, "b": 2})).content)
        print((await session.list_resources()).resources)
        print((await session.list_prompts()).prompts)
        await session.send_ping()


asyncio.run(main(sys.argv[1]))
