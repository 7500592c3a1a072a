"""The group `auth`: credentials, as seen in requests and challenges."""

MODULES = ("challenges", "documents", "tokens")
