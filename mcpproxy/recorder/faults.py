"""Reports and counts what a recording loses to faults in mcpproxy itself, for both recorders.

Promise: such a fault never affects the session. Either a frame is recorded without its verdict, or a stream is no
longer recorded. In the second case, the user is informed, and the capture states how much is missing.
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
    """The amount of traffic on streams whose recording has ended."""

    def __init__(self) -> None:
        self.frames = 0
        self.bytes = 0

    def add(self, data: bytes) -> None:
        """Count a chunk of lines; each LF ends a frame."""
        self.frames += data.count(b"\n")
        self.bytes += len(data)


class FaultReporter:
    """Reports and counts the faults in one recording."""

    def __init__(self, writer: Writer, tell: Callable[[str], None]) -> None:
        """Start without faults.

        Args:
            writer: the writer of the capture.
            tell: shows one line to the user.
        """
        self.unrecorded_traffic: dict[Direction | None, UnrecordedTraffic] = {
            C2S: UnrecordedTraffic(),
            S2C: UnrecordedTraffic(),
            None: UnrecordedTraffic(),
        }
        """The traffic that was not recorded, by direction; the key None is the server's stderr."""
        self._writer = writer
        self._say = tell
        self._has_reported = self._has_reported_event = False

    def on_verdict_fault(self, error: Exception) -> None:
        """Report, once, that a frame is recorded without a verdict."""
        if not self._has_reported:
            self._has_reported = True
            self._say(
                f"a fault in mcpproxy leaves frames without a verdict ({type(error).__name__}); they are recorded"
            )

    def on_event_fault(self, error: Exception) -> None:
        """Report, once, that an event or the end of the session is not recorded; the guard completes the capture."""
        if not self._has_reported_event:
            self._has_reported_event = True
            self._say(f"a fault in mcpproxy lost records ({type(error).__name__}); traffic continues")

    def on_recording_fault(self, stream: str, error: Exception) -> None:
        """Report, also in the capture, that the recording of a stream has ended."""
        self._say(f"a fault in mcpproxy ended the recording of {stream} ({type(error).__name__}); traffic continues")
        self._writer.post(PendingRecord("gap", members(reason="fault")))

    def write_off_traffic(self) -> None:
        """Count the missed traffic as lost; the last step before the capture is closed."""
        for direction, traffic in self.unrecorded_traffic.items():
            if traffic.frames or traffic.bytes:
                self._writer.count_loss(Loss.of_fault(direction, traffic.frames, traffic.bytes))
