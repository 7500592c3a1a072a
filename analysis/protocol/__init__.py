"""The protocol as specified: revisions, methods, capabilities, error codes, and JSON Pointers into messages."""
