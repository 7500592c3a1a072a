"""The readable content of a row: messages, values and definitions as text, wrapped for a pane."""
