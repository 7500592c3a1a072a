"""Compares JSON Schemas with direction, and proves what breaks with values."""
