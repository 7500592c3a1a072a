"""The cost of a fault in mcpproxy itself to a recording; both recorders report and count it alike.

Promise: such a fault never affects the session. Either a frame loses its verdict, or a stream is no longer recorded;
then the user is informed, and the capture states the fact and the amount.
"""

from __future__ import annotations

from captures.loss import Loss, PendingRecord
from captures.record import members
from captures.verdict import C2S, S2C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from captures.verdict import Direction
    from captures.writer import Writer


class UnrecordedTraffic:
    """The traffic on streams whose recording has ended."""

    def __init__(self) -> None:
        self.frames = 0
        self.bytes = 0

    def add(self, data: bytes) -> None:
        """Count a chunk of lines; each LF ends a frame."""
        self.frames += data.count(b"\n")
        self.bytes += len(data)


class Faults:
    """The faults of one recording."""

    def __init__(self, writer: Writer, tell: Callable[[str], None]) -> None:
        """Start without faults.

        Args:
            writer: the writer of the capture.
            tell: shows one line to the user.
        """
        self.missed: dict[Direction | None, UnrecordedTraffic] = {
            C2S: UnrecordedTraffic(),
            S2C: UnrecordedTraffic(),
            None: UnrecordedTraffic(),
        }
        """The traffic that was not recorded, by direction; the key None is the server's stderr."""
        self._writer = writer
        self._tell = tell
        self._has_reported = self._has_reported_event = False

    def in_verdict(self, error: Exception) -> None:
        """A frame is recorded without a verdict: report it, once."""
        if not self._has_reported:
            self._has_reported = True
            self._tell(
                f"a fault in mcpproxy leaves frames without a verdict ({type(error).__name__}); they are recorded"
            )

    def in_event(self, error: Exception) -> None:
        """An event or the end of the session is not recorded: report it, once. The guard completes the capture."""
        if not self._has_reported_event:
            self._has_reported_event = True
            self._tell(f"a fault in mcpproxy lost records ({type(error).__name__}); traffic continues")

    def in_recording(self, stream: str, error: Exception) -> None:
        """The recording of a stream has ended: report it, also in the capture, which is now incomplete."""
        self._tell(f"a fault in mcpproxy ended the recording of {stream} ({type(error).__name__}); traffic continues")
        self._writer.post(PendingRecord("gap", members(reason="fault")))

    def write_off(self) -> None:
        """Count what was missed as lost; the last step before the capture is closed."""
        for direction, missed in self.missed.items():
            if missed.frames or missed.bytes:
                self._writer.count_loss(Loss.of_fault(direction, missed.frames, missed.bytes))
