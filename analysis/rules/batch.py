"""The rules of the group `batch`."""
