"""The rules of the group `shutdown`."""
