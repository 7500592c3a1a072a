"""The terminal UI: live and recorded sessions, read only from capture files."""
