"""The kinds of changes, a module for each area; `table.py` collects them."""
