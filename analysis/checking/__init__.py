"""Running the rules over a capture: which rules, what they cost, and what their findings add up to."""
