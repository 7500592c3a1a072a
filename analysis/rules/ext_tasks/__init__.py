"""The group `ext-tasks`: tasks since 2026-07-28, which are an extension, and which only servers run."""

MODULES = ("capability", "keys", "reports")
