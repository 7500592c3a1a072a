"""The group `elicitation`: what a server has the user asked for, and what comes of it."""

MODULES = ("form", "reply", "url")
