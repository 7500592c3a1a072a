"""The group `ext-events`: Events, a draft extension with which servers report events; all its findings are notes."""

MODULES = ("types", "occurrences", "streams", "cursors", "webhooks")
