"""If the lock of a new capture is taken, its creator waits for it briefly, then gives up."""

import errno
import fcntl
import threading
from pathlib import Path

import pytest

from captures.errors import CannotCreate
from captures.file import CaptureFile, is_live
from tests.captures.test_file import NAME, failing, listing


def test_a_reader_that_looks_whether_it_is_live_does_no_harm(tmp_path: Path) -> None:
    """Checking takes the lock for a moment, which may be just after the file was created and before it was locked."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            is_live(tmp_path / NAME)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(300):
            CaptureFile(tmp_path / NAME).close()
            (tmp_path / NAME).unlink()
    finally:
        over.set()
        looker.join()


def test_somebody_who_keeps_the_lock_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, fcntl, "flock", errno.EWOULDBLOCK)
    with pytest.raises(CannotCreate):
        CaptureFile(tmp_path / NAME)
    assert listing(tmp_path) == {}
