"""What the user chose for a mock."""

from typing import Literal, NamedTuple, TypeAlias

from analysis.playback.matching import Matching

OnMiss: TypeAlias = Literal["error", "nearest", "pass"]


class MockOptions(NamedTuple):
    """How a mock answers."""

    matching: Matching = Matching()
    on_miss: OnMiss = "error"
    """For a request that was not recorded: an error that names the nearest one, the nearest one's answer, or that of
    the real server."""
    speed: float | None = None
    """How many times as fast as recorded; None for at once, in the recorded order."""
    is_strict: bool = False
    """Whether recorded requests that the client never sent make the exit code 1."""
