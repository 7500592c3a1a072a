"""The group `sse`: event streams of Streamable HTTP, and how clients resume them."""

MODULES = ("delivery", "resumption")
