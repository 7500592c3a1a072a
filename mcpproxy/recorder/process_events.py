"""Records the events of a server's process: its start, its end, and the signals that it and mcpproxy receive."""

from __future__ import annotations

from captures.loss import PendingRecord
from captures.record import members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from captures.writer import Writer
    from mcpproxy.recorder.faults import FaultReporter


class ProcessEvents:
    """Records the events of one server process."""

    def __init__(self, writer: Writer, faults: FaultReporter) -> None:
        """Start without events.

        Args:
            writer: the writer of the capture.
            faults: reports records that are lost to a bug.
        """
        self.writer = writer
        self.faults = faults

    def spawned(self, pid: int, start: str | None) -> None:
        """Record that the server was started."""
        start_value = int(start) if start and start.isdigit() else start
        self._post_record("process", members(event="spawned", pid=pid, start=start_value))

    def received(self, signum: int, *, from_terminal: bool) -> None:
        """Record a signal that mcpproxy received."""
        origin = "terminal" if from_terminal else "process"
        self._post_record("signal", members(event="received", name=signal_name(signum), origin=origin))

    def sent(self, signum: int, reason: str, pids: list[int]) -> None:
        """Record a signal that mcpproxy sent."""
        self._post_record("signal", members(event="sent", name=signal_name(signum), reason=reason, pids=pids))

    def _post_record(self, kind: str, middle: bytes) -> None:
        """Queue the record of an event, because the thread that receives signals must never wait for the disk."""
        try:
            self.writer.post(PendingRecord(kind, middle))
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy may lose a record, but never ends the session
            self.faults.on_event_fault(error)


def launch_failure_record(code: int) -> PendingRecord:
    """Returns the record of a command that could not be run because of this errno."""
    return PendingRecord("process", members(event="failed", errno=error_name(code)))


def process_end_record(status: int | None, signum: int | None) -> PendingRecord:
    """Returns the record of the server's end, with its exit status or the signal that ended it."""
    return PendingRecord("process", members(event="ended", status=status, signal=signal_name(signum)))


def error_name(code: int | None) -> str | None:
    """Returns the name of an errno, such as `EPIPE`, or None for None."""
    import errno

    return None if code is None else errno.errorcode.get(code, str(code))


def signal_name(signum: int | None) -> str | None:
    """Returns the name of a signal, such as `SIGTERM`, or None for None."""
    import signal

    if signum is None:
        return None
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIG{signum}"
