"""The rows and columns of each list of the terminal UI: texts and cells, which widgets draw."""
