"""The group `tool`: definitions of tools, calls to them, and their results."""

MODULES = ("calls", "lists", "repeated_calls", "schemas")
