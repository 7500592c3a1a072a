"""The group `ext-events`: Events (SEP-3415), a draft with which servers report events, so its findings are notes."""

MODULES = ("declarations", "types", "list_changes", "occurrences", "streams", "cursors", "webhooks")
