"""The group `mrtr`: calls with several rounds, in which the server asks for input and the client calls again."""

MODULES = ("interim_results", "retries")
