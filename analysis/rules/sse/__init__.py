"""The group `sse`: streams of events of Streamable HTTP, and how they are resumed."""

MODULES = ("delivery", "resumption")
