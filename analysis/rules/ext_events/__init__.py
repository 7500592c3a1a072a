"""The group `ext-events`: Events (SEP-3415), a draft extension with which servers report events; all are notes."""

MODULES = ("declarations", "types", "list_changes", "occurrences", "streams", "cursors", "webhooks")
