"""Colours: what the terminal can show, the themes, and the rules with which users colour rows."""
