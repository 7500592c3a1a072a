"""Runs the rules over a capture: selects them, measures their cost, and counts and ranks their findings."""
