"""Soak test: the screen follows a recorder that writes as fast as the disk allows, and still responds to keys."""

import threading
import time
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import use_orjson
from tests.bench.tui import KEYS, OPENING, Screen, block, opening

FRAMES = 1_000_000
AT_ONCE = 2_000
ANSWER_S = 0.5
"""Ten times as long as the response to a key may take."""
MOST_MIB = 300


@pytest.mark.soak
def test_a_recorder_at_full_rate_is_followed_to_its_last_frame(tmp_path: Path) -> None:
    use_orjson()
    path = tmp_path / "live.mcpcap"
    made = CaptureFile(path)
    made.append(opening())
    written = threading.Event()

    def write() -> None:
        for first in range(0, FRAMES // 2, AT_ONCE // 2):
            made.append(block(1 + len(OPENING) + 2 * first, first, AT_ONCE // 2, first * 1_000_000))
        written.set()

    screen = Screen(path, str(tmp_path))
    try:
        screen.until("following")
        threading.Thread(target=write).start()
        answers: list[float] = []
        end = time.monotonic() + 600
        while screen.counted < FRAMES:
            assert time.monotonic() < end, f"{screen.counted} of {FRAMES} frames were counted"
            answers.append(screen.key(KEYS[len(answers) % len(KEYS)]).answered_s)
        assert written.is_set()
        assert sorted(answers)[len(answers) // 2] < ANSWER_S
        assert max(screen.peaks()) < MOST_MIB
    finally:
        screen.close()
        made.close()
