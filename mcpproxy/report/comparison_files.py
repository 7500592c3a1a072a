"""The files of a comparison: that of an annotation, and the names of the sides."""

import os
from pathlib import Path

from analysis.comparison.change import Change, Comparison, SideSummary
from mcpproxy.report.github import relative_path
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.changes import MAX_NAME_CHARS


def file_of(change: Change, comparison: Comparison) -> Path:
    """Returns the capture that shows a change: that of the new side, or that of the old side if something is gone.

    If annotations belong to the old side, it is one of that side.

    An expectation names its captures, and could name them in any way: what cannot be a path is made visible.
    """
    place, side = change.new or change.old, comparison.new
    if comparison.annotates_old:
        place, side = change.old, comparison.old
    name = place.capture if place is not None else side.name
    try:
        is_path = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        is_path = False
    return Path(name if is_path else sanitise(name))


def side_name(side: SideSummary) -> str:
    """Returns the name of a side, sanitised; an absolute path is relative to the working directory, or to `~`."""
    name = side.name
    if os.path.isabs(name):
        try:
            name = relative_path(Path(name))
        except ValueError:  # no path that the system could have
            return sanitise(name, MAX_NAME_CHARS)
        home = os.path.join(os.path.expanduser("~"), "")
        name = f"~{os.sep}{name.removeprefix(home)}" if name.startswith(home) else name
    return sanitise(name, MAX_NAME_CHARS)
