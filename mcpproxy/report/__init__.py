"""Rows in, text out: what the reading commands print. Nothing here opens a capture or a terminal."""
