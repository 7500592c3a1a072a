"""What each list of the terminal UI has in its rows and columns: its texts and cells; widgets draw them."""
