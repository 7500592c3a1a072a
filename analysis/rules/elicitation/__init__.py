"""The group `elicitation`: input that a server requests from the user, and the answers."""

MODULES = ("form", "reply", "url")
