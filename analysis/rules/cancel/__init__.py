"""The group `cancel`: requests that are taken back."""

MODULES = ("effects", "targets")
