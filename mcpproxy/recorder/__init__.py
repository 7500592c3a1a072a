"""What is recorded of a session: the relay's bytes become records of a capture."""
