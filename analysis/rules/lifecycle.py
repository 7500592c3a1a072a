"""The rules of the group `lifecycle`."""
