"""The rules of the group `framing`."""
