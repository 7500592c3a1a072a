"""The group `error`: error codes, and the data that belongs to them."""

MODULES = ("responses", "codes", "lists")
