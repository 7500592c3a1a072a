"""Serves a capture as a server: requests get the recorded answers."""
