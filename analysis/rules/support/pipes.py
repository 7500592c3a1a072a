"""The end of a stdio session, as records other than frames show it: closed pipes, signals, and ended processes.

Each session has one `Pipes` object, which its rules share. Each rule passes every record to it; only the first call for
a record counts. Over HTTP there are no such records, so the object stays empty.
"""

from collections import deque
from typing import Final

from analysis.conversation.call import Call
from analysis.conversation.fold import Fold
from analysis.conversation.message import Side
from analysis.conversation.session import Session
from analysis.protocol.extensions import ENDLESS_METHODS
from captures.record import Record

ENDING_SIGNALS: Final = frozenset({"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL"})
"""Signals that request a process to end, or end it."""
GRACE_NS: Final = 50_000_000
"""How long after the server's end the client's end may be recorded and still have caused it: some hosts signal the
server itself, or the whole process group, and only then close the pipe to the recorder."""

_KEY: Final = "pipes"
_MAX_REMEMBERED: Final = 8
_MAX_STDERR_RECORDS: Final = 3


class Pipes:
    """The state of the two pipes and of the server's process."""

    def __init__(self) -> None:
        self.stdin_close: Record | None = None
        """The record that shows that the client closed the server's stdin."""
        self.stdout_close: Record | None = None
        """The record that shows that the server closed its stdout."""
        self.process_end: Record | None = None
        """The record that shows that the server's process ended."""
        self.client_gone_ns: int | None = None
        """When the client closed stdin, stopped reading, or sent a signal; None before that."""
        self.server_gone_ns: int | None = None
        """When the server ended; None before that."""
        self.is_server_first = False
        """Whether the server ended before the client did anything to end it."""
        self.open_count = 0
        """How many of the client's requests were open when the server ended."""
        self.open_calls: tuple[Call, ...] = ()
        """The first few of the calls that were open then."""
        self.signal_names: set[str] = set()
        """Names of the signals that were passed on or sent to the server."""
        self.ending_signals_ns: list[int] = []
        """When the first and the last signal to end the server came."""
        self.stderr_seqs: deque[int] = deque(maxlen=_MAX_STDERR_RECORDS)
        """Numbers of the last stderr records."""
        self.decided_rules: set[str] = set()
        """Rules that have already reported the end of the server."""
        self.has_gap = False
        """Whether records were lost."""
        self._seq = -1

    @property
    def server_end(self) -> Record | None:
        """The record that shows that the server has ended: the end of its stdout, or else of its process."""
        return self.stdout_close or self.process_end

    @property
    def has_died(self) -> bool:
        """Whether the server ended while requests of the client were open, and the client did not end it."""
        return self.is_server_first and self.open_count > 0 and not self.is_ended_by_client

    @property
    def may_be_ended_by_client(self) -> bool:
        """Whether the client's end was recorded so soon after the server's end that it may have caused it."""
        client_ns, server_ns = self.client_gone_ns, self.server_gone_ns
        return client_ns is not None and server_ns is not None and 0 <= client_ns - server_ns <= GRACE_NS

    @property
    def is_signalled(self) -> bool:
        """Whether a signal that requests termination ended the server, rather than a crash or a lack of memory."""
        signal = self.process_end.members.get("signal") if self.process_end is not None else None
        return signal in ENDING_SIGNALS and signal != "SIGKILL"

    @property
    def is_ended_by_client(self) -> bool:
        """Whether the client probably ended the server directly; with open requests, only a signal counts."""
        return self.may_be_ended_by_client and (self.is_signalled or self.open_count == 0)

    def gone_ns(self, side: Side) -> int | None:
        """Returns when a side ended, or None before that."""
        return self.client_gone_ns if side == "client" else self.server_gone_ns

    def update(self, record: Record, session: Session, fold: Fold) -> None:
        """Update the state from a record, once."""
        if record.seq <= self._seq:
            return
        self._seq = record.seq
        members = record.members
        if record.rec == "stderr":
            self.stderr_seqs.append(record.seq)
        elif record.rec == "gap":
            self.has_gap = True
        elif record.rec == "eof":
            self._record_close(record)
        elif record.rec == "signal":
            self._record_signal(record)
        elif record.rec == "process" and members.get("event") == "ended":
            self.process_end = self.process_end or record
        if record.rec in ("eof", "process") and self.server_end is not None:
            self._record_server_end(record, session, fold)

    def _record_close(self, record: Record) -> None:
        pipe_end = record.members.get("dir"), record.members.get("by")
        if pipe_end == ("c2s", "sender"):
            self.stdin_close = self.stdin_close or record
        elif pipe_end == ("s2c", "sender"):
            self.stdout_close = self.stdout_close or record
        # A client that stops reading is gone as well. The end of a server has records of its own.
        if pipe_end in (("c2s", "sender"), ("s2c", "receiver")) and self.client_gone_ns is None:
            self.client_gone_ns = record.t_ns

    def _record_signal(self, record: Record) -> None:
        name = record.members.get("name")
        if not isinstance(name, str):
            return
        if len(self.signal_names) < _MAX_REMEMBERED:
            self.signal_names.add(name)
        if name in ENDING_SIGNALS:
            self.ending_signals_ns[1:] = [record.t_ns]
            if self.client_gone_ns is None:
                self.client_gone_ns = record.t_ns

    def _record_server_end(self, record: Record, session: Session, fold: Fold) -> None:
        """Record which requests are open when stdout ends, and again when the process ends."""
        if self.server_gone_ns is None:
            self.server_gone_ns = record.t_ns
            # If records were lost, the client's end may be among them.
            self.is_server_first = self.client_gone_ns is None and session.lost_seq < 0
        if self.is_server_first and not self.open_count:
            open_calls = fold.tables["client"].waiting_calls()
            due_calls = [call for call in open_calls if call.is_due and call.request.method not in ENDLESS_METHODS]
            self.open_calls, self.open_count = tuple(due_calls[:_MAX_REMEMBERED]), len(due_calls)


def pipes_of(session: Session) -> Pipes:
    """Returns the pipes of a session, which are created on first use."""
    pipes: Pipes | None = session.lasting.get(_KEY)
    if pipes is None:
        pipes = session.lasting[_KEY] = Pipes()
    return pipes
