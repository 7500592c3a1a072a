"""The terminal UI: sessions live and recorded, read from the capture files alone."""
