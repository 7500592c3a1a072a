"""Parses `--filter` for `show` and `export`, which run no rules, and applies keys that depend on later messages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from analysis.filter import FINDING_KEYS, Filter, FilterError, parse
from analysis.reading import Reading
from analysis.selection import OUTCOME_KEYS, filter_with_outcomes

_UNSUPPORTED_KEYS: Final = FINDING_KEYS | {"has:mark"}
"""Keys about findings, and about the marks of `tui`."""


def parse_message_filter(text: str, command: str, refused_keys: Mapping[str, str]) -> Filter:
    """Parse a filter of messages.

    Args:
        text: the filter.
        command: the name of the command.
        refused_keys: the keys that the command does not permit with the current options, each with the reason.

    Raises:
        FilterError: the filter is invalid, or has a key that the command does not permit.
    """
    selection = parse(text)
    for key, position in selection.keys.items():
        if key in _UNSUPPORTED_KEYS:
            reason = f"`{command}` does not know `{key}`: it runs no rules, and marks belong to `tui`"
            raise FilterError(reason, text, position)
        if key in refused_keys:
            raise FilterError(refused_keys[key], text, position)
    return selection


def filter_for_capture(path: Path, selection: Filter | None) -> Filter | None:
    """Return the filter for one capture; if it depends on the outcome of requests, read the capture to its end.

    Args:
        path: the capture.
        selection: the filter; None for all messages.

    Raises:
        CaptureError: the capture cannot be read.
    """
    if selection is None or OUTCOME_KEYS.isdisjoint(selection.keys):
        return selection
    return filter_with_outcomes(selection, Reading(path))
