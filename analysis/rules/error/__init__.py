"""The group `error`: codes of errors, and the data that belongs to them."""

MODULES = ("responses", "codes", "lists")
