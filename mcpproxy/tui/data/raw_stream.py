"""Raw stream: the bytes that the two sides sent, in order, of a session or of one HTTP exchange.

A thread looks for the rows, and divides the stream into pages; their bytes are read from the file when a page is shown.
So a stream of a gigabyte takes some bytes for each row, and one page. Over HTTP, the heads of requests and responses
are part of the stream, as the recorder keeps them.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from captures.frame import Frame
from captures.record import Record, raw_bytes
from captures.verdict import Direction
from mcpproxy.tui.data.reading import Reading
from mcpproxy.wording.http_head import recorded_head

PAGE_BYTES: Final = 64 << 10
"""How many bytes a page contains, at most."""
MAX_ROWS_PER_STEP: Final = 500
"""How many rows are looked at in a step if each must be read from the file."""
MAX_ROWS_PER_QUICK_STEP: Final = 20_000
"""How many rows are looked at in a step if the index knows enough."""
_ENTRY_BYTES: Final = 200
"""What each piece adds to the size of its page, so that a page of a million tiny messages is still quick."""


class StreamPiece(NamedTuple):
    """Bytes of one message or head, as much of it as is on a page."""

    row: int
    side: Direction
    raw: bytes | None
    """The bytes; None if the ring has deleted them."""
    is_start: bool
    """Whether they begin the message."""
    is_bad: bool = False
    """Whether they are no message, although they should be, such as text for people."""


class RawStream:
    """The stream. One thread calls `step`; others read the pages."""

    def __init__(
        self,
        reading: Reading,
        *,
        exchange: int | None = None,
        session: int | None = None,
        side: Direction | None = None,
    ) -> None:
        """Start without pages.

        Args:
            reading: the capture.
            exchange: the number of the HTTP exchange whose stream it is; None for all.
            session: the number of the session, over HTTP; None for all.
            side: the only direction to show; None for both.
        """
        self.exchange, self.session, self.side = exchange, session, side
        self.size = 0
        """The number of bytes found so far."""
        self.gone_count = 0
        """How many pieces `whole_pieces` could not read."""
        self._reading = reading
        stages = reading.http.rows(exchange) if exchange is not None else []
        self._next_row = min(stages, default=0)
        self._has_response_head = self._is_over = False
        self._rows, self._sizes = array("I"), array("Q")
        # A page begins at an offset in a piece; the first begins the stream.
        self._page_pieces, self._page_offsets = array("I", [0]), array("Q", [0])
        self._page_room = PAGE_BYTES

    def __len__(self) -> int:
        """Returns the number of pieces found so far."""
        return len(self._sizes)

    @property
    def page_count(self) -> int:
        """The number of pages so far, at least 1."""
        return len(self._page_offsets)

    @property
    def searched_share(self) -> float:
        """How much of the capture has been searched, from 0 to 1."""
        return 1.0 if self._is_over else self._next_row / max(1, len(self._reading.index))

    def page_of_row(self, row: int) -> int:
        """Returns the page on which a row begins, or would begin if it belonged to the stream."""
        piece = max(0, bisect_right(self._rows, row, 0, len(self._sizes)) - 1)
        page = bisect_left(self._page_pieces, piece)
        begins_there = page < self.page_count and (self._page_pieces[page], self._page_offsets[page]) == (piece, 0)
        return page if begins_there else max(0, page - 1)

    def step(self) -> bool:
        """Look at some more rows; returns False if there is nothing to do yet."""
        index, first = self._reading.index, self._next_row
        # The session of a row is known once it has been interpreted.
        known_count = len(index) if self.session is None else min(len(index), self._reading.interpreted_count)
        is_quick = self.exchange is None and self._reading.conversation.capture.transport != "http"
        last = min(known_count, first + (MAX_ROWS_PER_QUICK_STEP if is_quick else MAX_ROWS_PER_STEP))
        if self._is_over or first >= last:
            return False
        for row in range(first, last):
            self._next_row = row + 1
            if self._ends_with(row, is_quick=is_quick):
                self._is_over = True
                break
        return True

    def _ends_with(self, row: int, *, is_quick: bool) -> bool:
        """Add a row if it belongs to the stream; returns whether it is the end of the exchange."""
        entry = self._reading.index.entry(row)
        if entry.dir is None and (is_quick or self.exchange is None or entry.kind != "exchange"):
            return False
        if self.session is not None and self._reading.session(row) != self.session:
            return False
        if self.exchange is not None:
            record = self._reading.index.read_first_part(row)
            if record is None or record.members.get("exchange") != self.exchange:
                return False
            if entry.dir is None:
                self._add_head(row, record)
                return record.members.get("stage") == "end"
        if self.side in (None, entry.dir):
            self._add(row, entry.size)
        return False

    def _add_head(self, row: int, record: Record) -> None:
        side, head = self._head_in(record.members)
        if side is not None and self.side in (None, side):
            self._add(row, len(head))
        self._has_response_head = self._has_response_head or side == "s2c"

    def _head_in(self, members: Mapping[str, Any]) -> tuple[Direction | None, bytes]:
        """Returns the head that a record of an exchange adds to the stream, and who sent it."""
        stage, response = members.get("stage"), members.get("response")
        if stage == "request" and isinstance(members.get("request"), dict):
            return "c2s", _head_bytes(members["request"])
        if isinstance(response, dict) and "status" in response and not self._has_response_head:
            return "s2c", _head_bytes(response)
        return None, b""

    def _add(self, row: int, size: int) -> None:
        """Add a piece, and begin pages where the last one is full."""
        number, offset = len(self._sizes), 0
        if self._page_room < min(size, PAGE_BYTES) + _ENTRY_BYTES and self._page_room < PAGE_BYTES:
            self._begin_page(number, 0)
        while size - offset > self._page_room:
            offset += self._page_room
            self._begin_page(number, offset)
        self._page_room -= size - offset + _ENTRY_BYTES
        self._rows.append(row)
        self.size += size
        # This column is filled last, so every counted piece is complete.
        self._sizes.append(size)

    def _begin_page(self, piece: int, offset: int) -> None:
        self._page_offsets.append(offset)
        self._page_pieces.append(piece)
        self._page_room = PAGE_BYTES

    # ---- reading

    def pieces_on(self, page: int) -> Iterator[StreamPiece]:
        """Yields the pieces on a page. Reads the file."""
        first, start, end_piece, end_offset = self._bounds(page)
        for number in range(first, min(len(self._sizes), end_piece + (end_offset > 0))):
            piece_end = end_offset if number == end_piece and end_offset else self._sizes[number]
            yield self._piece(number, start if number == first else 0, piece_end)

    def _bounds(self, page: int) -> tuple[int, int, int, int]:
        """Returns the first piece on a page, its offset there, and the same of the next page."""
        first, start = self._page_pieces[page], self._page_offsets[page]
        if page + 1 < len(self._page_pieces):
            return first, start, self._page_pieces[page + 1], self._page_offsets[page + 1]
        return first, start, len(self._sizes), 0

    def _piece(self, number: int, start: int, end: int) -> StreamPiece:
        row = self._rows[number]
        index = self._reading.index
        parts = index.giant_frame_parts(row)
        side = index.entry(row).dir
        if parts is not None:
            return StreamPiece(row, side or "s2c", _slice_of(parts, start, end), start == 0)
        item = index.read_item(row)
        if isinstance(item, Frame):
            return StreamPiece(row, item.dir, item.raw[start:end], start == 0, item.problem is not None)
        if not isinstance(item, Record):
            return StreamPiece(row, side or "s2c", None, start == 0)
        if item.rec == "exchange":
            is_request = item.members.get("stage") == "request"
            head = item.members.get("request" if is_request else "response")
            raw = _head_bytes(head) if isinstance(head, dict) else b""
            return StreamPiece(row, "c2s" if is_request else "s2c", raw[start:end], start == 0)
        return StreamPiece(row, side or "s2c", (raw_bytes(item.members) or b"")[start:end], start == 0)

    def whole_pieces(self) -> Iterator[bytes]:
        """Yields the bytes of all pieces found so far, each ended by a line feed. Reads the capture."""
        self.gone_count = 0
        for number in range(len(self._sizes)):
            parts = self._reading.index.giant_frame_parts(self._rows[number])
            if parts is not None:
                yield from parts
                yield b"\n"
            else:
                raw = self._piece(number, 0, self._sizes[number]).raw
                self.gone_count += raw is None
                if raw is not None:
                    yield raw if raw.endswith(b"\n") else raw + b"\n"


def _head_bytes(head: Mapping[str, Any]) -> bytes:
    """Returns a head as text: its first line, its fields, and an empty line."""
    lines = ["".join(span.text for span in line).rstrip() for line in recorded_head(head)]
    return "\n".join([*lines, ""]).encode("utf-8", "replace")


def _slice_of(parts: Iterator[bytes], start: int, end: int) -> bytes:
    """Returns the bytes from one offset to another of a sequence of parts, without keeping the others."""
    pieces, offset = [], 0
    for part in parts:
        if offset + len(part) > start:
            pieces.append(part[max(0, start - offset) : end - offset])
        offset += len(part)
        if offset >= end:
            break
    return b"".join(pieces)
