"""The group `sse`: streams of events of Streamable HTTP, and how they are taken up again."""

MODULES = ("delivery", "resumption")
