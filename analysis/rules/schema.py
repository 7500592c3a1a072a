"""The rules of the group `schema`."""
