"""The group `framing`: from bytes to JSON, in lines, bodies and events."""

MODULES = ("lines", "values")
