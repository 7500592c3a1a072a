"""The row of a capture in the table `captures`, with its origin, its ending and its losses."""

import shlex

from analysis import clock
from analysis.conversation.fold import Fold
from analysis.store.tables import Row, build_row
from analysis.store.values import integer, text
from captures.frame import Frame
from captures.gaps import MAX_LOST_RECORDS
from captures.reader import Capture
from captures.record import Record


class CaptureCounts:
    """Counts that a load keeps in addition to those of the fold."""

    def __init__(self) -> None:
        """Create counts of 0."""
        self.frames = self.bytes = self.damage = 0
        self.lost = 0
        """Records known to be lost, except for numbers without a record."""
        self.records = 0
        self.last_seq = -1
        """The number of the last record."""
        self.last_ns = 0
        self._first = 0
        self._spawned_ns: int | None = None
        self._ended: Record | None = None
        self._close: Record | None = None

    def catch_up(self, expected: int, last_ns: int) -> None:
        """Count the frames that came in order since the last counted record.

        Args:
            expected: the number that the next record should have.
            last_ns: the stamp of the last one.
        """
        self.records += expected - 1 - self.last_seq
        self.last_seq, self.last_ns = expected - 1, last_ns

    def count(self, record: Frame | Record) -> None:
        """Count a record."""
        if self.last_seq < 0:
            segment = record.members.get("segment") if isinstance(record, Record) and record.rec == "header" else None
            # The ring has dropped earlier records.
            self._first = record.seq if type(segment) is int and segment > 1 else 0
        if record.seq > self.last_seq:
            self.records += 1
            self.last_seq = record.seq
        self.last_ns = max(self.last_ns, record.t_ns)
        if isinstance(record, Record):
            self._note_record(record)

    def _note_record(self, record: Record) -> None:
        members = record.members
        if record.rec == "process":
            if members.get("event") == "spawned" and self._spawned_ns is None:
                self._spawned_ns = record.t_ns
            elif members.get("event") == "ended":
                self._ended = record
        elif record.rec == "close" and members.get("ending") != "segment":
            self._close = record
        elif record.rec == "gap" and members.get("reason") == "damage":
            self.lost += 1  # it replaces a lost record
        elif record.rec == "header" and members.get("substitute") is True:
            self.lost += 1

    def row(self, capture: Capture, fold: Fold, *, is_growing: bool) -> Row:
        """The row of the capture."""
        header = capture.header.members
        end_members = self._ended.members if self._ended is not None else {}
        close_members = self._close.members if self._close is not None else {}
        host_pid, client_program = _client(header.get("parents"))
        last_ns = clock.duration_ns(self.last_ns, fold.wall_ns, is_live=is_growing)
        status = integer(end_members.get("status", close_members.get("status")))
        return build_row(
            "captures",
            {
                "server": text(header.get("name")),
                "path": text(str(capture.path.resolve()), None),
                "transport": text(header.get("transport")),
                "command": _command(header.get("argv")),
                "upstream": text(header.get("upstream"), 4096),
                "format": integer(header.get("format")),
                "tool_version": text(header.get("tool")),
                "duration_ns": integer(last_ns),
                "observed_start": header.get("observed_start") is True,
                "host_pid": host_pid,
                "client_program": client_program,
                "machine": text(header.get("machine")),
                "spawned_ns": integer(self._spawned_ns),
                "ended_ns": None if self._ended is None else integer(self._ended.t_ns),
                "ending": text(fold.ending),
                "exit_status": status if status is not None and abs(status) < 2**31 else None,
                "exit_signal": text(end_members.get("signal", close_members.get("signal"))),
                "is_live": is_growing,
                "frames": self.frames,
                "bytes": self.bytes,
                "sessions": fold.routing.count,
                "lost": min(MAX_LOST_RECORDS, self.lost + max(0, self.last_seq + 1 - self._first - self.records)),
                "unjudged": fold.unjudged_count,
                "damage": self.damage,
                "forgotten": sum(table.times for table in fold.forgotten_entries),
                "begins_at": integer(fold.first_seq),
                "unrecorded": fold.unrecorded_count,
            },
        )


def _client(parents: object) -> tuple[int | None, str | None]:
    """The process id and the name of the program that started the recorder."""
    parent = parents[0] if isinstance(parents, list) and parents else None
    return (integer(parent.get("pid")), text(parent.get("exe"))) if isinstance(parent, dict) else (None, None)


def _command(argv: object) -> str | None:
    """The command line, quoted for a shell."""
    if not isinstance(argv, list):
        return None
    return text(shlex.join([word for word in argv if isinstance(word, str)]), 4096)
