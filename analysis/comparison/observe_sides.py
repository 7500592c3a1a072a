"""Observes both sides of a comparison at the same time, if they are large enough for a second process.

This process observes the new side, and a worker the old one. Two processors are then as busy as they can be: dividing
the rules of each capture instead, as `check` does with a single one, would read every capture twice.

A worker that dies costs only time: this process then observes its side, too.
"""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from analysis.child_process import usable_processors
from analysis.comparison.observe import observe, parse_filter
from analysis.comparison.observe_worker import ObserveWorker
from analysis.comparison.options import ObserveOptions
from analysis.comparison.side import Side
from captures.listing import segments

WORTH: Final = 8 << 20
"""The size of the smaller side, in bytes, that justifies another process: starting it takes as long as reading half of
that without rules."""


class SideSource(NamedTuple):
    """Where a side comes from."""

    name: str
    """The side as the user named it."""
    captures: Sequence[tuple[str, Path]]
    """The name (for `Place.capture`) and path of each capture, oldest first."""


def observe_sides(
    old: SideSource, new: SideSource, options: ObserveOptions, on_progress: Callable[[int], None] | None = None
) -> tuple[Side, Side]:
    """Observe both sides of a comparison; `observe` observes a single one.

    Args:
        old: where the old side comes from.
        new: where the new side comes from.
        options: what to observe.
        on_progress: as for `observe`; for large sides, it is called for the new one only.

    Raises:
        CaptureError: a capture cannot be read: the comparison has failed.
        FilterError: the filter is invalid.
    """
    parse_filter(options.only)
    if usable_processors() > 1 and min(_size(old), _size(new)) >= WORTH:
        with suppress(OSError), closing(ObserveWorker(*old, options)) as worker:
            new_side = observe(*new, options, on_progress)
            with suppress(ValueError):
                return worker.side(), new_side
    return observe(*old, options, on_progress), observe(*new, options, on_progress)


def _size(source: SideSource) -> int:
    """Returns the size of a side in bytes, or 0 if that is unknown: then reading it fails, and says why."""
    with suppress(OSError):
        return sum(segment.stat().st_size for _, path in source.captures for segment in segments(path))
    return 0
