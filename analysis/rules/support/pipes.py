"""The end of a stdio session, from the records other than frames: closed pipes, signals, and ended processes.

Each session has one state, which its rules share. Each rule passes on every record; only the first call for a record
counts. Over HTTP there are no such records, so the state stays empty.
"""

from collections import deque
from typing import Final

from analysis.conversation.call import Call
from analysis.conversation.fold import Fold
from analysis.conversation.message import Side
from analysis.conversation.session import Session
from captures.record import Record

ENDING_SIGNALS: Final = frozenset({"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL"})
"""Signals that ask a process to end, or end it."""
GRACE_NS: Final = 50_000_000
"""How long after the server's end the client's end may be recorded and still be its cause: some hosts signal the server
itself, or the whole process group, and only then close the pipe to the recorder."""

_KEY: Final = "pipes"
_NAMED: Final = 8
_LAST_WORDS: Final = 3


class Pipes:
    """The state of the pipes' ends, and of the server's process."""

    def __init__(self) -> None:
        self.client_closed: Record | None = None
        """The client closed the server's stdin."""
        self.server_closed: Record | None = None
        """The server closed its stdout."""
        self.exited: Record | None = None
        """The server's process ended."""
        self.client_gone_ns: int | None = None
        """When the client closed stdin, stopped reading, or sent a signal; None before that."""
        self.server_gone_ns: int | None = None
        """When the server ended; None before that."""
        self.is_server_first = False
        """Whether the server ended before the client did anything to end it."""
        self.open_count = 0
        """How many requests of the client were open when the server ended."""
        self.open: tuple[Call, ...] = ()
        """The first few of these requests."""
        self.signals: set[str] = set()
        """Names of all signals that were passed on or sent to the server."""
        self.ending_ns: list[int] = []
        """When the first and the last signal to end it came."""
        self.stderr: deque[int] = deque(maxlen=_LAST_WORDS)
        """Numbers of the last records of stderr."""
        self.decided: set[str] = set()
        """Rules that have already reported the end of the server."""
        self.has_gap = False
        """Whether records were lost."""
        self._seq = -1

    @property
    def server_end(self) -> Record | None:
        """The first record that shows that the server has ended."""
        return self.server_closed or self.exited

    @property
    def has_died(self) -> bool:
        """Whether the server ended with requests of the client unanswered, and not because of the client."""
        return self.is_server_first and self.open_count > 0 and not self.is_ended_by_client

    @property
    def is_client_behind(self) -> bool:
        """Whether the client's end was recorded so soon after the server's that it may be the cause."""
        gone_ns, left_ns = self.client_gone_ns, self.server_gone_ns
        return gone_ns is not None and left_ns is not None and 0 <= gone_ns - left_ns <= GRACE_NS

    @property
    def is_signalled(self) -> bool:
        """Whether a signal that requests termination ended the server, rather than a crash or a lack of memory."""
        signal = self.exited.members.get("signal") if self.exited is not None else None
        return signal in ENDING_SIGNALS and signal != "SIGKILL"

    @property
    def is_ended_by_client(self) -> bool:
        """Whether the client probably ended the server directly; with open requests, only a signal counts."""
        return self.is_client_behind and (self.is_signalled or self.open_count == 0)

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
            self.stderr.append(record.seq)
        elif record.rec == "gap":
            self.has_gap = True
        elif record.rec == "eof":
            self._close(record)
        elif record.rec == "signal":
            self._signal(record)
        elif record.rec == "process" and members.get("event") == "ended":
            self.exited = self.exited or record
        if record.rec in ("eof", "process") and self.server_end is not None:
            self._end_of_server(record, session, fold)

    def _close(self, record: Record) -> None:
        end = record.members.get("dir"), record.members.get("by")
        if end == ("c2s", "sender"):
            self.client_closed = self.client_closed or record
        elif end == ("s2c", "sender"):
            self.server_closed = self.server_closed or record
        # A client that stops reading is gone as well; for a server, its own end will show it.
        if end in (("c2s", "sender"), ("s2c", "receiver")) and self.client_gone_ns is None:
            self.client_gone_ns = record.t_ns

    def _signal(self, record: Record) -> None:
        name = record.members.get("name")
        if not isinstance(name, str):
            return
        if len(self.signals) < _NAMED:
            self.signals.add(name)
        if name in ENDING_SIGNALS:
            self.ending_ns[1:] = [record.t_ns]
            if self.client_gone_ns is None:
                self.client_gone_ns = record.t_ns

    def _end_of_server(self, record: Record, session: Session, fold: Fold) -> None:
        """Record which requests are open when stdout ends, and again when the process ends."""
        if self.server_gone_ns is None:
            self.server_gone_ns = record.t_ns
            # If records were lost, the client's end may be among them.
            self.is_server_first = self.client_gone_ns is None and session.lost_seq < 0
        if self.is_server_first and not self.open_count:
            waiting = fold.tables["client"].waiting()
            left = [call for call in waiting if call.is_due and call.request.method != "subscriptions/listen"]
            self.open, self.open_count = tuple(left[:_NAMED]), len(left)


def pipes_of(session: Session) -> Pipes:
    """The state of the pipes of a session."""
    kept: Pipes | None = session.lasting.get(_KEY)
    if kept is None:
        kept = session.lasting[_KEY] = Pipes()
    return kept
