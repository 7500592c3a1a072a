"""What the specification fixes: revisions, methods, capabilities, and JSON Pointers into messages."""
