"""A unit of bytes as one line of stdio, whatever its reader takes for the end of a line.

Over HTTP, a message may span lines. Over stdio, a line feed ends it, and for readers with universal newlines, such as
Python's text files, a carriage return does, too: what follows would be a message of its own.
"""

from typing import Final

from analysis.conversation.message import parse_exactly

_BREAKS_TO_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")


def as_single_line(raw: bytes) -> bytes | None:
    """Returns a unit of bytes without line breaks; None if it has some and is not JSON, so that they may mean anything.

    In JSON, line breaks occur only between tokens, and become spaces.
    """
    if b"\n" not in raw and b"\r" not in raw:
        return raw
    try:
        parse_exactly(raw)
    except (ValueError, RecursionError):
        return None
    return raw.translate(_BREAKS_TO_SPACES)
