"""Observes a side: reads each of its captures once, and passes calls, messages and findings to all observers."""

from collections.abc import Sequence
from pathlib import Path

from analysis.comparison.options import ObserveOptions
from analysis.comparison.side import Side


def observe(name: str, captures: Sequence[tuple[str, Path]], options: ObserveOptions) -> Side:
    """Observe a side.

    Args:
        name: the side as the user named it.
        captures: the name (for `Place.capture`) and path of each capture, oldest first.
        options: what to observe.

    Raises:
        CaptureError: a capture cannot be read: the comparison has failed.
        FilterError: the filter is invalid.
    """
    raise NotImplementedError
