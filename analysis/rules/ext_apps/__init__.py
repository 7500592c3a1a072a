"""The group `ext-apps`: MCP Apps (SEP-1865), an extension with which tools show their results in a server's UI."""

MODULES = ("capability", "tool_meta", "resources", "csp", "messages")
