"""mcpproxy records the traffic between an MCP client and an MCP server, and shows what happened."""

__version__ = "0.1.0"
