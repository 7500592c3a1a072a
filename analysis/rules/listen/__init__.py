"""The group `listen`: `subscriptions/listen`, with which clients subscribe to changes since 2026-07-28."""

MODULES = ("start", "end", "changes")
