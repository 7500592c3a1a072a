"""Server-sent events: chunks of a stream in, events out, split as the WHATWG HTML standard (§9.2) splits them.

The standard decodes UTF-8 and then splits; this module splits bytes without decoding them, which gives the same events:
everything that has a meaning in a stream is ASCII, and invalid UTF-8 is left for other modules to judge.

However the bytes are chunked, the events are the same (except where the parts of a giant event are split), it takes
linear time, and at most the data and one line of one event are held, each of them bounded.
"""

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mcpproxy.wire.lines import MAX_PENDING_BYTES, character_border

MAX_FIELD_BYTES: Final = 64 << 10
"""How many bytes of a line that is not data are kept; the rest is dropped."""
MAX_RETRY_MS: Final = 2**53 - 1
"""Milliseconds. A larger value counts as this one, which is 285,000 years and longer than any client waits."""

_LINE_END: Final = re.compile(rb"\r\n?|\n").search
_DATA_LINES: Final = re.compile(rb"(?:data:[^\r\n]*+(?:\r\n?|\n)){8,}+").match
"""A run of data lines that is long enough to be worth taking together."""

_BOM: Final = b"\xef\xbb\xbf"
_DATA: Final = b"data:"
_DIGITS: Final = len(str(MAX_RETRY_MS)) + 1
"""A longer number cut to this many digits is still above `MAX_RETRY_MS`; `int` raises on a few thousand digits."""


class Event(NamedTuple):
    """A complete event, ended by a blank line; a part of an event that is too long to hold; or an unfinished event.

    An event is anything with data, a type, an id or a `retry`. Under the standard, those with data are dispatched and
    the others only take effect; a block of comments and unknown fields does neither, and is not an event here.
    """

    data: bytes | None = None
    """The values of its data lines, joined by LF; None if it has no such line, as opposed to an empty one."""
    event: bytes = b""
    """The type; empty means `message`."""
    id: bytes | None = None
    """The last event id after this event, set by it or by an earlier one; None until the stream sets one."""
    has_id: bool = False
    """Whether this event itself sets the id, which reveals a replay or a duplicate id."""
    retry: int | None = None
    """Milliseconds to wait before reconnecting."""
    whole: bool = True
    """False if the stream ended before the blank line: according to the standard, no client sees this event."""
    comments: int = 0
    """The number of comment lines since the previous event; comments keep a stream alive."""
    cut: bool = False
    """Whether it has an `event` or `id` line above `MAX_FIELD_BYTES`, of which only the beginning is kept."""
    last: bool = True
    """False for a part with more parts to follow. Such a part has only data; the last part has the rest."""
    part: int = 0
    """From 1 for the parts of an event in several pieces; 0 for an event in one piece."""


@dataclass(slots=True)
class _Draft:
    """The current event."""

    data: bytearray = field(default_factory=bytearray)
    has_data: bool = False
    event: bytes = b""
    has_id: bool = False
    retry: int | None = None
    cut: bool = False
    parts: int = 0
    """How many parts of its data have been returned."""

    def begin_data(self) -> None:
        """Begin a data line; its value is added to `data` as it arrives."""
        if self.has_data:
            self.data += b"\n"
        self.has_data = True

    @property
    def is_event(self) -> bool:
        """Whether it has anything that makes it an event."""
        return self.has_data or self.event != b"" or self.has_id or self.retry is not None


class EventSplitter:
    """Splits one event stream into events.

    Attributes:
        comments: comment lines since the last event, not yet counted in any event.
    """

    def __init__(self, max_pending: int = MAX_PENDING_BYTES, max_field: int = MAX_FIELD_BYTES) -> None:
        self.comments = 0
        self._max = max_pending
        self._max_field = max_field
        self._start: bytes | None = b""
        """The first bytes of the stream, while they may be part of a byte order mark; None once that is decided."""
        self._after_cr = False
        """Whether an LF that follows belongs to the CR before it, which already ended its line."""
        self._draft = _Draft()
        self._id: bytes | None = None
        self._next_id: bytes | None = None
        """The id that takes effect at the next blank line."""

        # The current line, if a chunk ended within it.
        self._line = bytearray()
        """Its bytes; for a data line, only until it is recognised as one; its value then goes to the draft."""
        self._in_data = False
        self._dropped = False
        self._dropped_nul = False

    def feed(self, data: bytes) -> list[Event]:
        """Returns the events, and parts of a giant event, that `data` completes."""
        data = self._stripped(data)
        if not data:
            return []
        self._after_cr = data.endswith(b"\r")
        at = 0
        if self._begun:
            end = _LINE_END(data)
            at = end.end() if end else len(data)
        run = _DATA_LINES(data, at)
        if run is None:
            return self._take_lines(data)
        events = self._take_lines(data[:at])
        self._take_data_lines(run[0])
        return events + self._spill() + self._take_lines(data[run.end() :])

    def _take_data_lines(self, lines: bytes) -> None:
        """Process whole data lines together, with the same result as taking them one by one."""
        if b"\r" in lines:
            lines = lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._draft.begin_data()
        self._draft.data += (b"\n" + lines[:-1]).replace(b"\ndata:", b"\n").replace(b"\n ", b"\n")[1:]

    def _take_lines(self, data: bytes) -> list[Event]:
        """Process lines of any kind; the last one may be incomplete."""
        if not data:
            return []
        # On bytes, unlike on text, `splitlines` recognises only the three line ends of the standard.
        lines = data.splitlines()
        rest = b"" if data.endswith((b"\r", b"\n")) else lines.pop()
        events = []
        for line in lines:
            if self._begun or len(line) > self._max_field:
                self._grow(line)
                self._finish()
            elif line:
                self._take(line)
            else:
                events += self._dispatch()
                continue
            events += self._spill()
        if rest:
            self._grow(rest)
            events += self._spill()
        return events

    def finish(self) -> list[Event]:
        """Returns the unfinished event when the stream ends, if any."""
        if self._start:
            self._grow(self._start)
        if self._line == _DATA:
            self._draft.begin_data()
        # Any other field in the unfinished line is left out: half an id or half a number is invalid.
        begun = self._draft.is_event or (self._line != b"" and not self._line.startswith(b":"))
        events = [*self._spill(), self._event(whole=False)] if begun else []
        self._draft = _Draft()
        self._line.clear()
        self._in_data = False
        self._start = None
        return events

    def _stripped(self, data: bytes) -> bytes:
        """The bytes without a leading byte order mark, and without the LF of a CR LF split by a chunk boundary."""
        if self._start is not None:
            data = self._start + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._start = data
                return b""
            self._start = None
            return data.removeprefix(_BOM)
        if self._after_cr and data:
            self._after_cr = False
            return data.removeprefix(b"\n")
        return data

    @property
    def _begun(self) -> bool:
        """Whether a chunk ended within a line."""
        return self._in_data or len(self._line) > 0

    def _grow(self, piece: bytes) -> None:
        """Add to a line that is not known to end in this chunk, or that is long."""
        if not self._in_data and len(self._line) <= len(_DATA):
            # The optional space after the colon must have arrived before the value can be passed on.
            piece = bytes(self._line) + piece
            self._line.clear()
            if len(piece) > len(_DATA) and piece.startswith(_DATA):
                self._in_data = True
                self._draft.begin_data()
                piece = _value(piece[len(_DATA) :])
        if self._in_data:
            self._draft.data += piece
            return
        room = self._max_field - len(self._line)
        self._line += piece[:room]
        if len(piece) > room:
            self._dropped = True
            self._dropped_nul = self._dropped_nul or b"\0" in piece[room:]

    def _finish(self) -> None:
        """Finish the current line."""
        if not self._in_data:
            self._take(bytes(self._line), dropped=self._dropped, dropped_nul=self._dropped_nul)
        self._line.clear()
        self._in_data = self._dropped = self._dropped_nul = False

    def _take(self, line: bytes, *, dropped: bool = False, dropped_nul: bool = False) -> None:
        """Apply a nonblank line as the standard requires; its end may have been dropped."""
        name, _, value = line.partition(b":")
        value = _value(value)
        draft = self._draft
        if name == b"data":
            draft.begin_data()
            draft.data += value
        elif name == b"":
            self.comments += 1
        elif name == b"event":
            draft.event = value
            draft.cut = draft.cut or dropped
        elif name == b"id":
            if not (dropped_nul or b"\0" in value):
                self._next_id = value
                draft.has_id = True
                draft.cut = draft.cut or dropped
        elif name == b"retry" and value.isdigit() and not dropped:
            digits = value.lstrip(b"0") or b"0"
            draft.retry = min(int(digits[:_DIGITS]), MAX_RETRY_MS)

    def _dispatch(self) -> list[Event]:
        """The event that the lines before a blank line form, if any."""
        self._id = self._next_id
        events = [self._event()] if self._draft.is_event else []
        self._draft = _Draft()
        return events

    def _event(self, *, whole: bool = True) -> Event:
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
            draft.cut,
            part=draft.parts + 1 if draft.parts else 0,
        )

    def _spill(self) -> list[Event]:
        """Parts of the current event, if it is too long to hold; at least one byte is kept back for the last part."""
        draft = self._draft
        if len(draft.data) <= self._max:
            return []
        data, start, parts = bytes(draft.data), 0, []
        while len(data) - start > self._max:
            stop = character_border(data, start + self._max)
            draft.parts += 1
            parts.append(Event(data[start:stop], last=False, part=draft.parts))
            start = stop
        draft.data = bytearray(data[start:])
        return parts


def _value(after_colon: bytes) -> bytes:
    """The value of a field: one space after the colon is not part of it, a second one is."""
    return after_colon.removeprefix(b" ")
