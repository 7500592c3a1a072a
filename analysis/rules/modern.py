"""The rules of the group `modern`."""
