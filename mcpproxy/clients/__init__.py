"""The MCP clients on this machine: where each keeps its servers, and how mcpproxy is put in front of them.

Nothing here is on the path of `mcpproxy run`.
"""
