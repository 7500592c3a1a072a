"""Sends the client's half of a capture to a real server again."""
