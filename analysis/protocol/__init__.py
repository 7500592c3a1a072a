"""The protocol as specified: revisions, methods, capabilities, and JSON Pointers into messages."""
