"""The rules of the group `method`."""
