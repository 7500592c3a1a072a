"""The group `jsonrpc`: the envelope of JSON-RPC 2.0, as MCP narrows it."""

MODULES = ("responses", "envelope")
