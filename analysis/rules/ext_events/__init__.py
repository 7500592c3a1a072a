"""The group `ext-events`: a draft of an extension with which servers report events, so its findings are notes."""

MODULES = ("types", "list_changes", "occurrences", "streams", "cursors", "webhooks")
