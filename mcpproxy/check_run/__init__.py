"""Checks captures for `check` and `stats`, which report the findings."""
