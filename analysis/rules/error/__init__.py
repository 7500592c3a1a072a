"""The group `error`: error codes, and the data that goes with them."""

MODULES = ("responses", "codes", "lists")
