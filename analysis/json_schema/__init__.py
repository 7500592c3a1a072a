"""Validates values against JSON Schemas from the traffic, and those schemas themselves."""
