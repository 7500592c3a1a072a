"""The rules of the group `error`."""
