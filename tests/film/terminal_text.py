"""Output of a terminal, without the sequences that the emulator of the tests does not know and would show as text."""

import re
from typing import Final

_QUERIES: Final = re.compile(
    r"\x1b\[[?>=<][0-9;]*[a-zA-Z]|\x1b\[[0-9;?]*\$p|\x1b\[[>=<][^a-zA-Z]*[a-zA-Z]|\x1b\]22;[a-z]+\x07"
)


def without_queries(text: str) -> str:
    """Returns the text without private modes and queries."""
    return _QUERIES.sub("", text)
