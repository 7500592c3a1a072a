"""The rules of the group `timeout`."""
