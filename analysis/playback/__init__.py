"""A capture as a script, to play it again: what each side sent, when, and which recorded request matches a new one."""
