"""Widgets that draw line by line: a million rows cost no more than a screenful."""
