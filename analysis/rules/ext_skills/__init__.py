"""The group `ext-skills`: Agent Skills that servers publish as resources, an extension since 2026-07-28."""

MODULES = ("declarations", "entries", "files", "history", "content", "requests", "directories")
