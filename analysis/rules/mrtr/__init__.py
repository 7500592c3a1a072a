"""The group `mrtr`: calls of several rounds, in which a server asks for input and the client calls again."""

MODULES = ("interim_results", "retries")
