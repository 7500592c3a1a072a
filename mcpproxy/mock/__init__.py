"""Serves a capture as a server: the recorded answers, to the requests that come."""
