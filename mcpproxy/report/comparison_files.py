"""Which file an annotation of a change belongs to."""

import os
from pathlib import Path

from analysis.comparison.change import Change, Comparison
from mcpproxy.sanitise import sanitise


def file_of(change: Change, comparison: Comparison) -> Path:
    """Returns the capture that shows a change: that of the new side, or that of the old side if something is gone.

    An expectation names its captures, and could name them in any way: what cannot be a path is made visible.
    """
    place = change.new or change.old
    name = place.capture if place is not None else comparison.new.name
    try:
        is_path = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        is_path = False
    return Path(name if is_path else sanitise(name))
