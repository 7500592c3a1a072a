"""What happens to a server's process, as records: its start, its end, and the signals to it and to us."""

from __future__ import annotations

from captures.loss import PendingRecord
from captures.record import members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from captures.writer import Writer
    from mcpproxy.recorder.faults import Faults


class ProcessEvents:
    """Records the events of one server process."""

    def __init__(self, writer: Writer, faults: Faults) -> None:
        """Start without events.

        Args:
            writer: the writer of the capture.
            faults: counts what a bug costs.
        """
        self.writer = writer
        self.faults = faults

    def spawned(self, pid: int, start: str | None) -> None:
        """Record that the server was started."""
        started = int(start) if start and start.isdigit() else start
        self._post("process", members(event="spawned", pid=pid, start=started))

    def received(self, signum: int, *, from_terminal: bool) -> None:
        """Record a signal that arrived."""
        origin = "terminal" if from_terminal else "process"
        self._post("signal", members(event="received", name=signal_name(signum), origin=origin))

    def sent(self, signum: int, reason: str, pids: list[int]) -> None:
        """Record a signal that was sent."""
        self._post("signal", members(event="sent", name=signal_name(signum), reason=reason, pids=pids))

    def _post(self, rec: str, middle: bytes) -> None:
        """Record an event. Posted, not appended: the thread that receives the signals must never wait for a disk."""
        try:
            self.writer.post(PendingRecord(rec, middle))
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy costs a record, never the session
            self.faults.in_event(error)


def launch_failure(code: int) -> PendingRecord:
    """The record of a command that could not be run, for this errno."""
    return PendingRecord("process", members(event="failed", errno=error_name(code)))


def process_end(status: int | None, signum: int | None) -> PendingRecord:
    """The record of the server's end, by itself or by a signal."""
    return PendingRecord("process", members(event="ended", status=status, signal=signal_name(signum)))


def error_name(code: int | None) -> str | None:
    """The name of an errno, such as `EPIPE`; None for None."""
    import errno

    return None if code is None else errno.errorcode.get(code, str(code))


def signal_name(signum: int | None) -> str | None:
    """The name of a signal, such as `SIGTERM`; None for None."""
    import signal

    if signum is None:
        return None
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIG{signum}"
