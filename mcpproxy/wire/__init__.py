"""Splits bytes into frames, as each transport delimits them. No module here parses JSON."""
