"""What the detail of a row shows: its views, the relevant places in them, and the search in them."""
