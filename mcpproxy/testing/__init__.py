"""Captures in tests: fixtures, context managers and assertions, for pytest and unittest."""
