"""What people read in a row: messages, values and definitions as text, wrapped for a pane."""
