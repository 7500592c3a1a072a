"""The group `error`: codes of errors, and what has to be said beside them."""

MODULES = ("responses", "codes", "lists")
