"""The group `auth`: credentials as far as requests and challenges show them."""

MODULES = ("challenges", "documents", "tokens")
