"""Checks captures for `check` and `stats`, and holds the findings."""
