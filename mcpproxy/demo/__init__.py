"""A real MCP server and a scripted client, bundled: what `mcpproxy demo` records, and an honest peer for tests."""
