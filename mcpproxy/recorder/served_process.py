"""Records the server that `serve` started in the capture of its traffic: its start, output, signals and end."""

from collections.abc import Callable

from captures.loss import PendingRecord
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.recorder.process_events import ProcessEvents
from mcpproxy.recorder.stderr_tap import StderrTap


class ServedProcessEvents(ProcessEvents):
    """Records a server's process alongside its traffic; it is also the observer of the relay that runs the server."""

    def __init__(self, recorder: HttpRecorder, on_running: Callable[[], None]) -> None:
        """Start without a process.

        Args:
            recorder: the recorder of the traffic.
            on_running: called when the server runs and its output is being read; from then on, threads may be started.
        """
        super().__init__(recorder.writer, recorder.faults)
        self._recorder = recorder
        self._on_running = on_running
        self.output = StderrTap(recorder.writer, recorder.faults)
        """The tap that records the server's output."""

    def spawned(self, pid: int, start: str | None) -> None:
        """Record that the server was started."""
        self._recorder.start_threads()
        super().spawned(pid, start)

    def running(self) -> None:
        """Let the traffic begin."""
        self._on_running()

    def stuck(self) -> None:
        """Handle a write that hangs: from now on, records of output are only queued in memory."""
        try:
            self.writer.degrade()
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy may lose records, but never ends the session
            self.faults.on_event_fault(error)

    def rest(self) -> list[PendingRecord]:
        """Returns the record of the last line of the output if it has no line break."""
        try:
            return self.output.rest()
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy must not change how the session ends
            self.output.on_failure(error)
            return []

    @property
    def totals(self) -> dict[str, object]:
        """The totals of the output, for the close record."""
        return {"stderr": {"bytes": self.output.bytes, "recorded": self.output.recorded_bytes}}
