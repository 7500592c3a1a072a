"""What the detail of a row shows: its views, the places in them that matter, and the search in them."""
