"""The group `elicitation`: input that a server requests from the user, and the replies."""

MODULES = ("form", "reply", "url")
