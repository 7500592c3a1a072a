"""`--filter` of `show` and `export`, which run no rules: the keys that they refuse, and those known only at the end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from analysis.filter import OF_FINDINGS, Filter, FilterError, parse
from analysis.reading import Reading
from analysis.selection import selected_at_the_end

_NEVER_KNOWN: Final = OF_FINDINGS | {"has:mark"}
"""Keys about findings and about the marks of `tui`."""
_KNOWN_LATER: Final = frozenset({"has:answer", "has:error", "has:failure", "has:waiting"})
"""Keys about how a request ends."""


def message_filter(text: str, command: str, refused: Mapping[str, str]) -> Filter:
    """Parse a filter of messages.

    Args:
        text: the filter.
        command: the name of the command.
        refused: keys that it does not know with the given options, each with the reason.

    Raises:
        FilterError: the filter is invalid, or has a key that the command does not know.
    """
    only = parse(text)
    for key, at in only.keys.items():
        if key in _NEVER_KNOWN:
            reason = f"`{command}` does not know `{key}`: it runs no rules, and marks belong to `tui`"
            raise FilterError(reason, text, at)
        if key in refused:
            raise FilterError(refused[key], text, at)
    return only


def filter_of(path: Path, only: Filter | None) -> Filter | None:
    """Returns the filter for one capture; if it depends on how requests end, this reads the capture to its end.

    Args:
        path: the capture.
        only: the filter; None for all messages.

    Raises:
        CaptureError: the capture cannot be read.
    """
    if only is None or _KNOWN_LATER.isdisjoint(only.keys):
        return only
    return selected_at_the_end(only, Reading(path))
