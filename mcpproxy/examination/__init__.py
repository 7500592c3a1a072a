"""Checks captures for `check` and `stats`, and holds what was found."""
