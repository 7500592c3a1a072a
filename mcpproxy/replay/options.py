"""What the user chose for a replay."""

from typing import NamedTuple

from analysis.playback.matching import Matching


class ReplayOptions(NamedTuple):
    """How the client's half is sent."""

    speed: float | None = None
    """How many times as fast as recorded; None for as soon as the answers that came before have come."""
    timeout_ns: int = 30_000_000_000
    """How much longer than in the recording an answer is waited for, in nanoseconds."""
    matching: Matching = Matching()
    """How the server's requests are matched with the recorded ones."""
