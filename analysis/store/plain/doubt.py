"""The reason to leave a capture to the fold."""


class Doubt(Exception):
    """The plain way is not proved to give the same rows. Its text says why, in a few words without values."""
