"""The group `mrtr`: calls of several rounds, in which a server asks back and the client calls again."""

MODULES = ("interim_results", "retries")
