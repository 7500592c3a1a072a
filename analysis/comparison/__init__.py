"""Compares two captures, or two sets of captures: what changed from the old side to the new one, and whether it breaks.

Each side is read once. Each aspect (definitions, findings, values, and so on) has one module with two classes: an
observer, which collects from the one reading what the comparison needs, and a record of what it collected, which can be
written to a file (an expectation) or sent between processes. A function of the same module compares two records.
"""
