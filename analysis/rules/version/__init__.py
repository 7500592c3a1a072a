"""The group `version`: which revision is spoken, and how both sides come to it."""

MODULES = ("choice", "names")
