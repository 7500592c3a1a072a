"""Finding: what a rule has to say about frames of a capture. Derived, never stored in a capture."""

from enum import IntEnum
from typing import Literal, NamedTuple, TypeAlias

Blames: TypeAlias = Literal["client", "server", "transport", "unknown"]
"""Whose doing it is."""


class Level(IntEnum):
    """How bad it is; levels compare."""

    NOTE = 1
    """Legal, worth knowing."""
    WARNING = 2
    """Something that should not be, or is very suspicious."""
    ERROR = 3
    """Something that the revision in force forbids."""

    def __str__(self) -> str:
        """In lower case, as people and JSON write it."""
        return self.name.lower()


class Finding(NamedTuple):
    """One thing that a rule found."""

    rule: str
    """Its id, such as `id/unknown-response`."""
    level: Level
    blames: Blames
    session: int
    """Number of the session in the capture, from 1; 0 where it belongs to none."""
    frame: int
    """Number of the record at which it shows."""
    message: str
    """What is wrong, in a sentence. Foreign text in it is cut, and not safe on a screen."""
    related: tuple[int, ...] = ()
    """Numbers of other records that prove it."""
    pointer: str = ""
    """Where in the frame's message: a JSON Pointer (RFC 6901); empty for the whole of it."""
    source: str = ""
    """What obliges: a page of the specification, or an RFC."""
    t_ns: int = 0
    """The stamp of `frame`."""
    item: int | None = None
    """The place of the message in its batch, or on its line."""
    method: str = ""
    """The method of the message; of an answer, that of its request; empty where there is none. Cut, and foreign."""
