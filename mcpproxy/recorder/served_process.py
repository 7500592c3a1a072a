"""The server that `serve` started, in the capture of its traffic: its start, its output, signals, and its end."""

from collections.abc import Callable

from captures.loss import PendingRecord
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.recorder.process_events import ProcessEvents
from mcpproxy.recorder.stderr_tap import StderrTap


class ServedProcess(ProcessEvents):
    """Records a server's process next to its traffic. Also the observer of the relay that runs it."""

    def __init__(self, recorder: HttpRecorder, on_running: Callable[[], None]) -> None:
        """Start without a process.

        Args:
            recorder: records the traffic.
            on_running: called once the server runs and its output is read; from then on, threads may be started.
        """
        super().__init__(recorder.writer, recorder.faults)
        self._recorder = recorder
        self._on_running = on_running
        self.output = StderrTap(recorder.writer, recorder.faults)
        """Records what the server prints."""

    def spawned(self, pid: int, start: str | None) -> None:
        """Record that the server was started."""
        self._recorder.start_threads()
        super().spawned(pid, start)

    def running(self) -> None:
        """Let the traffic begin."""
        self._on_running()

    def stuck(self) -> None:
        """A write hangs: from now on, records of output only wait in memory."""
        try:
            self.writer.degrade()
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy costs records, never the session
            self.faults.in_event(error)

    def rest(self) -> list[PendingRecord]:
        """The last line of the output, if no line end followed it."""
        try:
            return self.output.rest()
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy must not change how the session ends
            self.output.failed(error)
            return []

    @property
    def totals(self) -> dict[str, object]:
        """The size of the output, for the close record."""
        return {"stderr": {"bytes": self.output.bytes, "recorded": self.output.recorded}}
