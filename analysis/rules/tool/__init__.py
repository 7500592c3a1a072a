"""The group `tool`: what a server says of its tools, and calls of them."""

MODULES = ("calls", "lists", "repeats", "schemas")
