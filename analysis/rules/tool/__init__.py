"""The group `tool`: how a server describes its tools, and calls to them."""

MODULES = ("calls", "lists", "repeated_calls", "schemas")
