"""A recorder could have written the captures that `tests/heavy.py` writes."""

from pathlib import Path

from analysis.conversation.fold import Fold
from captures.reader import Capture, read_frames
from tests.heavy import write


def test_a_heavy_capture_is_one_that_a_recorder_could_have_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mcpcap", "exchanges", 1 << 17)
    fold = Fold()
    for item in read_frames(Capture(path)):
        fold.feed(item)
    assert (fold.lost_count, fold.ending, fold.transport) == (0, "client", "http")
