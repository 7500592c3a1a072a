"""Columns: what is known about the rows and calls of a capture, in arrays: about 30 bytes for each row or call.

They contain a row's call, its session, the response to a request, how long it took and how it ended: enough to draw,
sort and filter a million rows without pairing their messages again. The worker fills columns (`interpreting.py`), and
sends the cells that have changed as binary batches; the screen's process puts these into columns of its own, and
nothing else writes there. A batch says where its cells belong, so a repeated batch changes nothing.

The worker reads untrusted input, so a batch is trusted only as far as it can be checked: cells are accepted only if
they leave no gap, and every row, call and kind that they refer to exists.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from analysis.child_process import as_json, from_json
from analysis.conversation.call import IdState, Outcome
from mcpproxy.tui.data.login_columns import MAX_OUTCOME_CODE, LoginColumns
from mcpproxy.tui.data.sorted_rows import insert_row

MAX_ROWS: Final = 1_250_000
"""The maximum number of rows, and of calls: all columns take some 75 bytes per pair. Rows and calls beyond it are only
counted.
"""
MAX_SPANNING_MESSAGES: Final = 100_000
"""The maximum number of messages that span lines and are remembered."""
NONE: Final = (1 << 32) - 1
"""The value that means no row, or no call."""
OUTCOMES: Final = (*Outcome,)
OPEN: Final = len(OUTCOMES)
"""The code of a call whose end is not known."""
MISFITS: Final = (IdState.ANSWERED, IdState.FAILED, IdState.OPEN, IdState.CANCELLED)
"""States of the ids of responses and cancellations that belong to no call, although a request has that id."""

OTHER_BODY: Final = 1
"""The mark of an HTTP body that need not be a message, and is not one."""
CONTINUED: Final = 2
"""The mark of a line of a message that began in an earlier row."""
UNUSUAL: Final = 4
"""The mark of a row with messages that its frame alone does not show."""
MISFIT: Final = 8
"""The mark of a misfit is this, multiplied by one more than the position of its state in `MISFITS`."""
REDIRECTED: Final = 64
"""The mark of a message that repeats one whose HTTP exchange was redirected."""
BAD: Final = 128
"""The mark of an error, or of a frame that is not a message. It is the highest mark, so a search for it is a search for
large bytes.
"""
MISFIT_MASK: Final = 7 * MISFIT

AS_IT_IS: Final = 0
"""The worker interpreted an unusual message as what it is."""
AS_RESPONSE: Final = 1
"""The worker interpreted an unusual message as a response, although it has a method."""
UNJUDGED: Final = 2
"""The worker could not judge an unusual message, because lines before it are lost."""

MAX_CELLS_PER_PART: Final = 1000
"""The maximum number of cells of one column in one part of a batch."""
MAX_BATCH_BYTES: Final = 60 << 10
"""The maximum size of a batch in bytes, unless one part is larger."""
MAX_COLUMN_WORDS: Final = 1_100_000
"""The maximum number of words of messages that are unusual, or that span lines; more than the worker remembers."""
MAX_MESSAGES_PER_ROW: Final = 1 << 20
"""The maximum number of messages that are distinguished within a row."""
_NUMBER_BITS: Final = 21
"""How many bits the number of a row or of a call has; all bits are set for no call."""
_NUMBER_MASK: Final = (1 << _NUMBER_BITS) - 1
_BITS_BELOW_ROW: Final = 43
"""In the word of an unusual message, the number of bits below its row: for its position there, how it was interpreted,
and its call.
"""
_HEAD: Final = struct.Struct("=BBHIIQQ")
_PART: Final = struct.Struct("=HHI")
_BATCH_SIGN: Final = 0xB7
"""The first byte of a batch; JSON never begins with it."""


class Calls:
    """The calls of a capture as columns, by their numbers."""

    def __init__(self) -> None:
        self.request = array("I")
        """Row of the request."""
        self.response = array("I")
        """Row of the response, or NONE."""
        self.latency_ns = array("q")
        """How long the response took; -1 if there is none."""
        self.abandoned_ns = array("q")
        """How long it had waited when its sender abandoned it, even if it was answered later; -1 if never abandoned."""
        self.kind = array("H")
        """Number of its kind among `Reading.kinds`."""
        self.is_cancelled = array("B")
        """Whether it was cancelled, even if it was answered later."""
        self.is_inexact = array("B")
        """Whether the time of its request or its response is not exact, as in some imported logs."""
        self.end = array("I")
        """Row with which it ended: that of the response, of the cancellation or of the failure of its HTTP exchange,
        whichever came first; NONE if it has not ended.
        """
        self.outcome = array("B")
        """Index into OUTCOMES, or OPEN."""
        self.settled = array("I")
        """Numbers of calls in the order in which their outcomes became known; calls without a response come last. The
        number of a call whose response came after its cancellation is in it twice.
        """

    def __len__(self) -> int:
        # Written last, so that every counted call is complete.
        return len(self.outcome)


class UnusualMessage(NamedTuple):
    """A message that its row alone does not show."""

    call: int
    """Its call, or NONE."""
    interpretation: int
    """How it was interpreted: `AS_IT_IS`, `AS_RESPONSE` or `UNJUDGED`."""


class Columns:
    """The columns of one capture. In each process, one thread fills them; others only read."""

    def __init__(self) -> None:
        """Start without rows."""
        self.calls = Calls()
        self.logins = LoginColumns()
        self.sessions = array("I")
        """By row: the number of its session, from 1; 0 if it has no message."""
        self.marks = bytearray()
        """By row: its marks, such as `BAD`."""
        self.call_of = array("I")
        """By row: its call, or NONE."""
        self.session_start_rows = array("I")
        """Over HTTP: the rows with which sessions begin, ascending."""
        self.session_start_numbers = array("I")
        """The numbers of those sessions."""
        self.changed_rows = array("I")
        """Rows about which more became known after later rows had been added, in the order in which it became known."""
        self.usual_ns = array("q")
        """By kind of request: the time within which 95 of 100 of its responses came; -1 while there are few."""
        self._joined_words = array("Q")
        """Messages that span lines, ascending: each word contains the first row and the last."""
        self._unusual_words = array("Q")
        """Unusual messages, ascending by row, and by position within a row."""
        calls, logins = self.calls, self.logins
        self._groups: tuple[tuple[array[int] | bytearray, ...], ...] = (
            (self.usual_ns,),
            (
                *(calls.request, calls.response, calls.latency_ns, calls.abandoned_ns),
                *(calls.kind, calls.is_cancelled, calls.is_inexact, calls.end, calls.outcome),
            ),
            (calls.settled,),
            (self.session_start_rows, self.session_start_numbers),
            (self._unusual_words,),
            (self._joined_words,),
            (self.sessions, self.marks, self.call_of),
            (self.changed_rows,),
            (logins.head, logins.failed, logins.accepted, logins.guessed, logins.outcome),
            (logins.leg_start, logins.leg_end, logins.leg_response, logins.leg_message, logins.leg_login),
        )
        """Columns that belong together, in the order in which they must be written: cells refer only to cells already
        written. In each group, the length of the last column counts.
        """

    @property
    def interpreted_count(self) -> int:
        """How many rows the worker has interpreted."""
        return len(self.call_of)

    def last_joined_row(self, row: int) -> int | None:
        """Returns the last row of the message that spans lines from this row on, or None if there is none."""
        index = bisect_left(self._joined_words, row << _NUMBER_BITS)
        word = self._joined_words[index] if index < len(self._joined_words) else 0
        return word & _NUMBER_MASK if word and word >> _NUMBER_BITS == row else None

    def unusual_messages(self, row: int) -> list[UnusualMessage]:
        """The unusual messages of a row, in their order; most rows have none."""
        if row >= self.interpreted_count or not self.marks[row] & UNUSUAL:
            return []
        words = self._unusual_words
        row_words = words[bisect_left(words, row << _BITS_BELOW_ROW) : bisect_left(words, (row + 1) << _BITS_BELOW_ROW)]
        pairs = [(word & _NUMBER_MASK, word >> _NUMBER_BITS & 3) for word in row_words]
        return [
            UnusualMessage(NONE if call == _NUMBER_MASK else call, interpretation) for call, interpretation in pairs
        ]

    # ---- in the worker

    def add_joined(self, first: int, last: int) -> int:
        """Record that a message spans lines; returns the word to send."""
        word = first << _NUMBER_BITS | last
        insert_row(self._joined_words, word)
        return word

    def add_unusual(self, row: int, position: int, unusual: UnusualMessage) -> int:
        """Record an unusual message at its position in its row; returns the word to send."""
        call = _NUMBER_MASK if unusual.call == NONE else unusual.call
        word = (
            row << _BITS_BELOW_ROW
            | min(position, MAX_MESSAGES_PER_ROW - 1) << _NUMBER_BITS + 2
            | unusual.interpretation << _NUMBER_BITS
            | call
        )
        insert_row(self._unusual_words, word)
        return word

    def part(self, group: int, first: int, last: int) -> bytes:
        """Returns some cells of a group, as a part of a batch."""
        cells = [bytes(column[first:last]) for column in self._groups[group]]
        return b"".join([_PART.pack(group, last - first, first), *cells])

    # ---- in the process of the screens

    def write(self, batch: "Batch", kind_count: int) -> None:
        """Write the cells of a batch.

        Args:
            batch: a batch from the worker; all its rows must exist.
            kind_count: how many kinds of requests are known.

        Raises: ValueError: it is invalid; nothing is written, or only part of it.
        """
        offset = 0
        while offset < len(batch.parts):
            head = batch.parts[offset : offset + _PART.size]
            group, count, first = _PART.unpack(head) if len(head) == _PART.size else (len(self._groups), 0, 0)
            if group >= len(self._groups):
                raise ValueError("cells of a column that does not exist")
            offset = self._write(group, first, count, batch, offset + _PART.size, kind_count)

    def _write(self, group: int, first: int, count: int, batch: "Batch", offset: int, kind_count: int) -> int:
        columns = self._groups[group]
        is_merged, end = group in (UNUSUAL_WORDS, JOINED_WORDS), offset + count * _WIDTHS[group]
        max_count = 4 * MAX_ROWS if is_merged or group == SETTLED_CALLS else MAX_ROWS
        if end > len(batch.parts) or first + count > max_count or (first > len(columns[-1]) and not is_merged):
            raise ValueError("cells at a place that does not exist")
        raw_columns = []
        for column in columns:
            size = count * (column.itemsize if isinstance(column, array) else 1)
            raw_columns.append(batch.parts[offset : offset + size])
            offset += size
        for column, raw, check in zip(columns, raw_columns, _CHECKS[group], strict=True):
            if isinstance(column, bytearray):
                column[first : first + count] = raw
                continue
            cells = array(column.typecode, raw)
            if not self._has_valid_references(cells, check, batch.rows, kind_count):
                raise ValueError("a cell that refers to nothing")
            if not is_merged:
                column[first : first + count] = cells
                continue
            if len(column) + count > MAX_COLUMN_WORDS:
                raise ValueError("more words than the worker may report")
            for word in cells:
                insert_row(column, word)
        return end

    def _has_valid_references(self, cells: "array[int]", check: str, row_count: int, kind_count: int) -> bool:
        """Whether everything that the cells refer to exists."""
        if check == "any" or not cells:
            return True
        if check == "time":
            return min(cells) >= -1
        if check == "unusual":
            call_count = len(self.calls)
            return max(cells) >> _BITS_BELOW_ROW < row_count and all(
                call < call_count or call == _NUMBER_MASK for call in {word & _NUMBER_MASK for word in cells}
            )
        if check == "joined":
            return all(word >> _NUMBER_BITS < word & _NUMBER_MASK < row_count for word in cells)
        values = set(cells)
        if check.endswith("?"):
            values.discard(NONE)
        limits = {"row": row_count, "call": len(self.calls), "kind": kind_count, "outcome": OPEN + 1}
        limits |= {"login": len(self.logins), "login outcome": MAX_OUTCOME_CODE + 1}
        return not values or max(values) < limits[check.rstrip("?")]


class Batch(NamedTuple):
    """The cells that have changed, as the worker sends them."""

    job: int
    """The number of the capture."""
    rows: int
    """How many rows must exist: the cells refer to no later row."""
    last_seq: int
    """Number of the record in the last of these rows."""
    read_bytes: int
    """How many bytes of the capture the worker has read."""
    has_ended: bool
    """Whether it is the last batch of the capture."""
    parts: bytes = b""

    @property
    def message(self) -> bytes:
        """The batch as a message to send."""
        return (
            _HEAD.pack(_BATCH_SIGN, self.has_ended, 0, self.job, self.rows, self.last_seq, self.read_bytes) + self.parts
        )


def batch_in(message: bytes) -> Batch | None:
    """The batch in a message, or None if it is JSON.

    Raises:
        ValueError: it is neither.
    """
    if message[:1] != bytes([_BATCH_SIGN]):
        return None
    if len(message) < _HEAD.size:
        raise ValueError("a batch without a head")
    _, has_ended, _, job, rows, last_seq, read_bytes = _HEAD.unpack_from(message)
    if rows > MAX_ROWS:
        raise ValueError("a batch of rows that are not shown")
    return Batch(job, rows, last_seq, read_bytes, bool(has_ended), message[_HEAD.size :])


def renumbered(message: bytes, job: int) -> bytes:
    """Returns a message from the worker about a capture, with another number for the capture.

    Raises:
        ValueError: it is invalid.
    """
    batch = batch_in(message)
    return as_json({**from_json(message), "n": job}) if batch is None else batch._replace(job=job).message


def runs(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields runs of ascending positions: the first one of each, and the one after its last.

    A run has at most `MAX_CELLS_PER_PART` positions.
    """
    first = last = -1
    for position in positions:
        if position != last or last - first == MAX_CELLS_PER_PART:
            if last > first:
                yield first, last
            first = position
        last = position + 1
    if last > first:
        yield first, last


def word_part(group: int, words: list[int]) -> bytes:
    """Returns some words of messages that are unusual, or that span lines, as a part of a batch."""
    return _PART.pack(group, len(words), 0) + array("Q", words).tobytes()


USUAL_TIMES: Final = 0
CALLS: Final = 1
SETTLED_CALLS: Final = 2
SESSION_STARTS: Final = 3
UNUSUAL_WORDS: Final = 4
JOINED_WORDS: Final = 5
ROW_CELLS: Final = 6
CHANGED_ROWS: Final = 7
LOGINS: Final = 8
LEGS: Final = 9
"""The number of the last group of columns."""
_CHECKS: Final = (
    ("time",),
    ("row", "row?", "time", "time", "kind", "any", "any", "row?", "outcome"),
    ("call",),
    ("row", "any"),
    ("unusual",),
    ("joined",),
    ("any", "any", "call?"),
    ("row",),
    ("row", "row?", "row?", "any", "login outcome"),
    ("row?", "row", "row?", "row?", "login"),
)
"""What the cells of each column refer to."""
_WIDTHS: Final = tuple(
    sum(column.itemsize if isinstance(column, array) else 1 for column in group) for group in Columns()._groups
)
