"""The rules of the group `id`."""
