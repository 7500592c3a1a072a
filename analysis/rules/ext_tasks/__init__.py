"""The group `ext-tasks`: tasks since 2026-07-28, an extension in which only servers run tasks."""

MODULES = ("capability", "keys", "reports")
