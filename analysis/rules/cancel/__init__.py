"""The group `cancel`: requests that are cancelled."""

MODULES = ("effects", "targets")
