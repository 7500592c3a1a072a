"""Plays captures to their own clients and to their own servers again, and compares what is recorded then."""
