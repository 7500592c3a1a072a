"""The group `ext-apps`: Apps (SEP-1865), an extension with which tools show their results in a UI of the server."""

MODULES = ("capability", "tool_meta", "resources", "csp", "messages")
