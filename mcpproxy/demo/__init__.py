"""A real MCP server and a scripted client, which `mcpproxy demo` records and tests use as well-behaved peers."""
