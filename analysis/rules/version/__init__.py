"""The group `version`: which revision is in use, and how both sides agree on it."""

MODULES = ("choice", "names")
