"""Interpreting: the worker fills the columns of a capture from the steps of its reading, and reports changes.

`call_cells.py`, `login_cells.py` and `message_cells.py` write the cells. Facts about the capture as a whole are sent as
JSON when they have changed.
"""

from collections.abc import Iterator
from typing import Any, Final

from analysis.conversation.session import Peer, Session
from analysis.reading import Reading, Step
from captures.damage import Damage
from captures.frame import Frame
from captures.gaps import lost_range, skipped_range
from captures.record import Record
from mcpproxy.tui.data.call_cells import CallCells
from mcpproxy.tui.data.column_filler import ColumnFiller
from mcpproxy.tui.data.columns import BAD, NONE, OTHER_BODY, Batch
from mcpproxy.tui.data.conversation import MAX_SESSIONS_WITH_PEERS, MissingRange
from mcpproxy.tui.data.login_cells import LoginCells
from mcpproxy.tui.data.message_cells import MessageCells

MAX_MISSING_RANGES: Final = 1000
"""How many ranges of missing records are distinguished."""
MAX_PEER_TEXT_CHARS: Final = 1000
"""How many characters of a name or version are sent."""
MAX_KINDS_PER_MESSAGE: Final = 100
"""The maximum number of kinds of requests in a message."""


class Interpreter:
    """Fills the columns of one capture, step by step."""

    def __init__(self, reading: Reading, max_rows: int) -> None:
        """Start without rows.

        Args:
            reading: the reading of the capture, which keeps the state of the conversation.
            max_rows: the maximum number of rows, and of calls, that have columns.
        """
        self._reading, self._max_rows = reading, max_rows
        self._filler = ColumnFiller()
        self._calls, self._messages = CallCells(self._filler, max_rows), MessageCells(self._filler)
        self._logins, self._login_cells = reading.fold.logins, LoginCells(self._filler)
        self._is_cut = False
        """Whether rows above the limit were left out; they may contain responses."""
        self._missing_ranges: list[MissingRange] = []
        self._peers: dict[int, tuple[Peer | None, Peer | None, str | None]] = {}
        self._new_peers: list[dict[str, Any]] = []
        self._read_bytes = -1
        self._sent_state: dict[str, Any] = {}

    def on_step(self, step: Step) -> None:
        """Process the next step of the reading; rows beyond the limit are not interpreted."""
        entry, columns = step.item, self._filler.columns
        row = columns.interpreted_count
        if step.end is not None and not self._is_cut:
            for call in step.changed:
                self._calls.on_call(call, NONE, is_last=True)
            self._login_cells.on_end(self._logins.changed)
        if entry is None:
            return
        if row >= self._max_rows:
            self._is_cut = True
            return
        self._filler.add_row(self._filler.seqs.last if isinstance(entry, Damage) else entry.seq)
        for call in step.changed:
            self._calls.on_call(call, row)
        self._login_cells.on_change(self._logins.changed, row)
        if isinstance(entry, Damage):
            columns.marks[row] |= BAD
            return
        for event in step.messages:
            self._messages.on_message(event, row)
            self._note_peers(event.session)
        if isinstance(entry, Frame):
            if entry.problem is not None and not columns.marks[row] & OTHER_BODY:
                columns.marks[row] |= BAD
        elif entry.rec == "gap":
            columns.marks[row] |= BAD
        if entry.skipped or (isinstance(entry, Record) and entry.rec == "gap"):
            self._note_loss(entry)

    def _note_loss(self, record: Frame | Record) -> None:
        """Record which records are missing, as a gap record or skipped numbers show."""
        first, last = skipped_range(record)
        if isinstance(record, Record) and record.rec == "gap":
            missing_range = lost_range(record)
            if missing_range is None:
                return
            first, last = missing_range
            # Records with later numbers may come first, and have revealed the gap already.
            self._missing_ranges = [
                loss for loss in self._missing_ranges if not first <= loss.first <= loss.last <= last
            ]
        if len(self._missing_ranges) < MAX_MISSING_RANGES:
            self._missing_ranges.append(MissingRange(first, last, last - first + 1))
        else:
            previous = self._missing_ranges[-1]
            self._missing_ranges[-1] = MissingRange(
                previous.first, max(previous.last, last), previous.missing + last - first + 1
            )

    def _note_peers(self, session: Session) -> None:
        peers = session.client, session.server, session.revision
        if self._peers.get(session.number, (None, None, None)) != peers:
            if len(self._peers) >= MAX_SESSIONS_WITH_PEERS:
                self._peers.pop(next(iter(self._peers)))
            self._peers[session.number] = peers
            self._new_peers.append({"session": session.number, "peers": [_cut_texts(value) for value in peers]})

    def take_changes(self, job: int, read_bytes: int, *, has_ended: bool) -> Iterator[dict[str, Any] | Batch]:
        """Yields what has changed since the last call: the facts to send as JSON, and then the cells.

        Args:
            job: the number of the capture.
            read_bytes: how many bytes of it have been read.
            has_ended: whether nothing more will change.
        """
        filler = self._filler
        kinds = filler.kinds.all
        for first in range(filler.first_unsent_kind, len(kinds), MAX_KINDS_PER_MESSAGE):
            yield {"kinds": [[*kind] for kind in kinds[first : first + MAX_KINDS_PER_MESSAGE]], "first": first}
        yield from filler.notes.take_news()
        yield from self._new_peers
        self._new_peers = []
        state = self._state()
        if state != self._sent_state:
            yield {name: value for name, value in state.items() if self._sent_state.get(name) != value}
            self._sent_state = state
        row_count, last_seq = filler.columns.interpreted_count, filler.seqs.last
        batch = Batch(job, row_count, last_seq, read_bytes, has_ended=False)
        pending_parts = b""
        for parts in filler.take_batches():
            if pending_parts:
                yield batch._replace(parts=pending_parts)
            pending_parts = parts
        if pending_parts or has_ended or read_bytes != self._read_bytes:
            yield batch._replace(has_ended=has_ended, parts=pending_parts)
        self._read_bytes = read_bytes

    def _state(self) -> dict[str, Any]:
        """Returns what is known about the conversation as a whole, as JSON."""
        about = self._reading.capture._replace(t_ns=0)
        return {
            "about": [_cut_texts(value) for value in about],
            "lost": [*self._reading.losses],
            "forgotten": [loss.text for loss in self._reading.forgotten],
            "losses": [*self._missing_ranges],
            "unknown": [self._calls.omitted_count, self._filler.notes.omitted_count, self._filler.unjoined_count],
        }


def _cut_texts(value: object) -> object:
    """Returns a value that a peer sent, with its texts cut to the limit."""
    if isinstance(value, tuple):
        return [_cut_texts(item) for item in value]
    return value[:MAX_PEER_TEXT_CHARS] if isinstance(value, str) else value
