"""A real MCP server and a scripted client: what `mcpproxy demo` records, and a well-behaved peer for tests."""
