"""Whether the params and results of a message have the shape that their revision declares."""
