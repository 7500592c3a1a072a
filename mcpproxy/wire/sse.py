"""Splits a stream of server-sent events as the WHATWG HTML standard (§9.2) requires.

The standard decodes UTF-8 before it splits the stream. This module splits the bytes without decoding them, which gives
the same events: all syntax of a stream is ASCII, and other modules judge invalid UTF-8.

The events do not depend on how the bytes are chunked, except for the parts of a giant event. The time is linear. At
most the data and one line of one event are held, and the size of each is limited.
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from mcpproxy.wire.lines import MAX_PENDING_BYTES, character_border

MAX_FIELD_BYTES: Final = 64 << 10
"""The maximum number of bytes that are kept of a line that is not data; the rest is dropped."""
MAX_RETRY_MS: Final = 2**53 - 1
"""The maximum of `retry`, 285,000 years, which is longer than any client waits; larger values count as this one."""

_LINE_END: Final = re.compile(rb"\r\n?|\n").search
_DATA_LINES: Final = re.compile(rb"(?:data:[^\r\n]*+(?:\r\n?|\n)){8,}+").match
"""Matches a run of data lines that is long enough to make processing it as a whole worthwhile."""

_BOM: Final = b"\xef\xbb\xbf"
_DATA: Final = b"data:"
_MAX_RETRY_DIGITS: Final = len(str(MAX_RETRY_MS)) + 1
"""The maximum number of digits that are read. A longer number, cut to these, still exceeds `MAX_RETRY_MS`, and `int`
raises on a few thousand digits.
"""


class Event(NamedTuple):
    """A complete event, ended by a blank line; part of an event that is too long to hold; or an unfinished event.

    An event is a block with data, a type, an id or a `retry`. Under the standard, events with data are dispatched, and
    others only change the state of the client. A block of comments and unknown fields does neither, and is not an
    event.
    """

    data: bytes | None = None
    """The values of its data lines, joined by LF; None if it has no data line, as opposed to an empty one."""
    event: bytes = b""
    """The type; empty means `message`."""
    id: bytes | None = None
    """The last event id after this event, set by it or by an earlier one; None until the stream sets one."""
    has_id: bool = False
    """Whether this event itself sets the id, which is needed to detect replays and duplicate ids."""
    retry: int | None = None
    """How long to wait before reconnecting, in milliseconds."""
    is_whole: bool = True
    """Whether a blank line ended the event; otherwise, according to the standard, no client sees it."""
    comments: int = 0
    """The number of comment lines since the previous event; comments keep a stream alive."""
    is_cut: bool = False
    """Whether it has an `event` or `id` line longer than `MAX_FIELD_BYTES`, of which only the beginning is kept."""
    is_last: bool = True
    """Whether this is the last part of the event; earlier parts contain only data, and the last one everything else."""
    part_number: int = 0
    """The number of the part, from 1, if the event is split; 0 for a whole event."""


@dataclass(slots=True)
class _EventDraft:
    """The current event."""

    data: bytearray | bytes = b""
    has_data: bool = False
    event: bytes = b""
    has_id: bool = False
    retry: int | None = None
    is_cut: bool = False
    part_count: int = 0
    """The number of parts of its data that have been returned."""

    def begin_data(self) -> None:
        """Begin a data line, whose value is added to `data` as it arrives."""
        if self.has_data:
            self.data += b"\n"
        else:
            self.data = bytearray()
        self.has_data = True

    @property
    def is_event(self) -> bool:
        """Whether it has any of the fields that make it an event."""
        return self.has_data or self.event != b"" or self.has_id or self.retry is not None


class EventSplitter:
    """Splits one event stream into events.

    Attributes:
        comments: the number of comment lines since the last event, which the next event will report.
    """

    __slots__ = (
        "_draft",
        "_first_bytes",
        "_has_dropped_nul",
        "_id",
        "_is_after_cr",
        "_is_cut",
        "_is_in_data",
        "_line",
        "_max_field",
        "_max_pending",
        "_next_id",
        "comments",
    )

    def __init__(self, max_pending: int = MAX_PENDING_BYTES, max_field: int = MAX_FIELD_BYTES) -> None:
        self.comments = 0
        self._max_pending = max_pending
        self._max_field = max_field
        self._first_bytes: bytes | None = b""
        """The first bytes of the stream while they may be part of a byte order mark; None after that is decided."""
        self._is_after_cr = False
        """Whether the next LF belongs to the CR before it, which has already ended the line."""
        self._draft = _EventDraft()
        self._id: bytes | None = None
        self._next_id: bytes | None = None
        """The id that takes effect at the next blank line."""

        self._line = bytearray()
        """The bytes of the current line if a chunk ended within it; the value of a data line goes to the draft instead.
        """
        self._is_in_data = False
        self._is_cut = False
        self._has_dropped_nul = False

    def feed(self, data: bytes) -> list[Event]:
        """Returns the events, and parts of a giant event, that `data` completes."""
        data = self._stripped_data(data)
        if not data:
            return []
        self._is_after_cr = data.endswith(b"\r")
        position = 0
        if self._is_in_line:
            line_end = _LINE_END(data)
            position = line_end.end() if line_end else len(data)
        data_lines = _DATA_LINES(data, position)
        if data_lines is None:
            return self._process_lines(data)
        events = self._process_lines(data[:position])
        self._process_data_lines(data_lines[0])
        return events + self._spill_parts() + self._process_lines(data[data_lines.end() :])

    def _process_data_lines(self, lines: bytes) -> None:
        """Process whole data lines together, with the same result as one by one."""
        if b"\r" in lines:
            lines = lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._draft.begin_data()
        self._draft.data += (b"\n" + lines[:-1]).replace(b"\ndata:", b"\n").replace(b"\n ", b"\n")[1:]

    def _process_lines(self, data: bytes) -> list[Event]:
        """Process lines of any kind, of which the last may be incomplete; returns the events that they complete."""
        if not data:
            return []
        # On bytes, unlike on text, `splitlines` recognises only the three line ends of the standard.
        lines = data.splitlines()
        unfinished_line = b"" if data.endswith((b"\r", b"\n")) else lines.pop()
        events = []
        for line in lines:
            if self._is_in_line or len(line) > self._max_field:
                self._extend_line(line)
                self._finish_line()
            elif line:
                self._process_line(line)
            else:
                events += self._dispatch_event()
                continue
            events += self._spill_parts()
        if unfinished_line:
            self._extend_line(unfinished_line)
            events += self._spill_parts()
        return events

    def finish(self) -> list[Event]:
        """Returns the unfinished event when the stream ends, if any."""
        if self._first_bytes:
            self._extend_line(self._first_bytes)
        if self._line == _DATA:
            self._draft.begin_data()
        # Any other field in the unfinished line is dropped, because part of an id or of a number is invalid.
        has_event = self._draft.is_event or (self._line != b"" and not self._line.startswith(b":"))
        events = [*self._spill_parts(), self._build_event(whole=False)] if has_event else []
        self._draft = _EventDraft()
        self._line.clear()
        self._is_in_data = False
        self._first_bytes = None
        return events

    def _stripped_data(self, data: bytes) -> bytes:
        """Returns the bytes without a byte order mark, and without the LF of a CR LF that a chunk boundary splits."""
        if self._first_bytes is not None:
            data = self._first_bytes + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._first_bytes = data
                return b""
            self._first_bytes = None
            return data.removeprefix(_BOM)
        if self._is_after_cr and data:
            self._is_after_cr = False
            return data.removeprefix(b"\n")
        return data

    @property
    def _is_in_line(self) -> bool:
        """Whether the last chunk ended within a line."""
        return self._is_in_data or len(self._line) > 0

    def _extend_line(self, piece: bytes) -> None:
        """Add bytes to the current line, which may be incomplete or long."""
        if not self._is_in_data and len(self._line) <= len(_DATA):
            # The optional space after the colon must have arrived before the value can be processed.
            piece = bytes(self._line) + piece
            self._line.clear()
            if len(piece) > len(_DATA) and piece.startswith(_DATA):
                self._is_in_data = True
                self._draft.begin_data()
                piece = _field_value(piece[len(_DATA) :])
        if self._is_in_data:
            self._draft.data += piece
            return
        room = self._max_field - len(self._line)
        self._line += piece[:room]
        if len(piece) > room:
            self._is_cut = True
            self._has_dropped_nul = self._has_dropped_nul or b"\0" in piece[room:]

    def _finish_line(self) -> None:
        """Process the current line, which is complete."""
        if not self._is_in_data:
            self._process_line(bytes(self._line), dropped=self._is_cut, dropped_nul=self._has_dropped_nul)
        self._line.clear()
        self._is_in_data = self._is_cut = self._has_dropped_nul = False

    def _process_line(self, line: bytes, *, dropped: bool = False, dropped_nul: bool = False) -> None:
        """Process a nonblank line as the standard requires; its end may have been dropped."""
        name, _, value = line.partition(b":")
        value = _field_value(value)
        draft = self._draft
        if name == b"data":
            draft.begin_data()
            draft.data += value
        elif name == b"":
            self.comments += 1
        elif name == b"event":
            draft.event = value
            draft.is_cut = draft.is_cut or dropped
        elif name == b"id":
            if not (dropped_nul or b"\0" in value):
                self._next_id = value
                draft.has_id = True
                draft.is_cut = draft.is_cut or dropped
        elif name == b"retry" and value.isdigit() and not dropped:
            digits = value.lstrip(b"0") or b"0"
            draft.retry = min(int(digits[:_MAX_RETRY_DIGITS]), MAX_RETRY_MS)

    def _dispatch_event(self) -> list[Event]:
        """Returns the event that ends at a blank line, if the lines before it form one."""
        self._id = self._next_id
        events = [self._build_event()] if self._draft.is_event else []
        self._draft = _EventDraft()
        return events

    def _build_event(self, *, whole: bool = True) -> Event:
        draft, comments = self._draft, self.comments
        self.comments = 0
        return Event(
            bytes(draft.data) if draft.has_data else None,
            draft.event,
            self._id,
            draft.has_id,
            draft.retry,
            whole,
            comments,
            draft.is_cut,
            part_number=draft.part_count + 1 if draft.part_count else 0,
        )

    def _spill_parts(self) -> list[Event]:
        """Returns parts of the current event if it is too long to hold; at least one byte stays for the last part."""
        draft = self._draft
        if len(draft.data) <= self._max_pending:
            return []
        data, start, parts = bytes(draft.data), 0, []
        while len(data) - start > self._max_pending:
            stop = character_border(data, start + self._max_pending)
            draft.part_count += 1
            parts.append(Event(data[start:stop], is_last=False, part_number=draft.part_count))
            start = stop
        draft.data = bytearray(data[start:])
        return parts


def _field_value(after_colon: bytes) -> bytes:
    """Returns the value of a field, of which one space after the colon is not a part."""
    return after_colon.removeprefix(b" ")
