"""The group `listen`: `subscriptions/listen`, which clients use from 2026-07-28 on to subscribe to changes."""

MODULES = ("start", "end", "changes")
