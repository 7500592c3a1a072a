"""The group `mrtr`: calls of several rounds, in which the server asks for input and the client calls again."""

MODULES = ("interim_results", "retries")
