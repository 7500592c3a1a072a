"""The recorders, which turn the relay's bytes into the records of a capture."""
