"""Plays a capture again: what each side sent, when it was due, and which request of today is which one of then."""
