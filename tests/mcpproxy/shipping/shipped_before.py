"""A data set that version 0.1 shipped: its columns have, and keep, the names of that version."""

import shutil
from pathlib import Path

from tests.analysis.store.capture_writer import CaptureWriter

GOLDEN = Path(__file__).parent / "golden"
"""What `mcpproxy ship --findings --unredacted` of version 0.1 wrote for the capture that `before` writes."""


def before(path: Path) -> Path:
    """Write the capture, which has a value in every column that has since been renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    one = CaptureWriter(path, "before", 77, parents=[{"pid": 7, "exe": "editor"}])
    one.handshake()
    called = one.call(20, 1, "search")
    one.record(25, "stall", dir="c2s", of=called, waited_ns=4_000_000)
    one.answer(30, 1)
    one.call(40, 2, "search")
    return one.close(50)


def data_set(place: Path) -> Path:
    """Returns a copy of the shipped data set."""
    return Path(shutil.copytree(GOLDEN, place))
