"""The rules of the group `version`."""
