"""The group `version`: the revision in use, and how the two sides agree on it."""

MODULES = ("choice", "names")
