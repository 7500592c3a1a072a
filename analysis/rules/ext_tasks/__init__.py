"""The group `ext-tasks`: tasks since 2026-07-28, which are an extension that only servers execute."""

MODULES = ("capability", "keys", "reports")
