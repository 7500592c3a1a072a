"""The group `auth`: credentials, as requests and challenges show them."""

MODULES = ("challenges", "documents", "tokens")
