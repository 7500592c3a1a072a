"""The group `listen`: `subscriptions/listen`, the one request by which a client is told of changes since 2026-07-28."""

MODULES = ("start", "end", "changes")
