"""A client on the official Python SDK of both eras: mcp_2_client.py PROGRAM|URL."""

import asyncio
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(target: str) -> None:
    way = target if "://" in target else stdio_client(StdioServerParameters(command=target))
    async with Client(way) as client:
        print([tool.name for tool in (await client.list_tools()).tools])
        print((await client.call_tool("add", {"a": 1, "b": 2})).content)
        print((await client.list_resources()).resources)
        print((await client.list_prompts()).prompts)


asyncio.run(main(sys.argv[1]))
