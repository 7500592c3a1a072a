"""The group `listen`: `subscriptions/listen`, the request by which a client subscribes to changes since 2026-07-28."""

MODULES = ("start", "end", "changes")
