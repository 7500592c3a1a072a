"""Proof: the bytes that a finding is about, as `mcpproxy check` shows them.

It reads the file, so the drawing thread never calls it.
"""

from typing import Final

from analysis.rules.finding import Finding
from captures.frame import Frame
from captures.record import Record, raw_bytes
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.definition_place import definition_place
from mcpproxy.wording.excerpts import excerpt
from mcpproxy.wording.spans import Span
from mcpproxy.wording.units import size

MAX_SEARCHED_FRAME_BYTES: Final = 1 << 20
"""The maximum size, in bytes, of a frame in which a place is searched for."""
MAX_RELATED_FRAMES: Final = 3
"""How many other frames are shown."""
INDENT_CELLS: Final = 2

Lines = list[list[Span]]


def proof_lines(reading: Reading, finding: Finding, width: int) -> Lines:
    """Returns the frame of a finding with carets below the value, and the other frames that prove it.

    Of a list of tools, only the definition of the tool is shown; of any other frame, the beginning.
    """
    lines = _excerpt_lines(reading, finding.frame, finding.pointer, width, item=finding.item)
    for seq in finding.related[:MAX_RELATED_FRAMES]:
        pointer = _pointer_in_list(reading, finding, seq)
        related_lines = _excerpt_lines(reading, seq, pointer, width) if pointer != "" else []
        if related_lines:
            lines += [[Span(f"frame {seq:,}", "dim")], *related_lines]
    return lines


def _pointer_in_list(reading: Reading, finding: Finding, seq: int) -> str | None:
    """Returns where a list of tools defines the tool of a finding, as `definition_place` does."""
    raw = _small_frame(reading, seq)
    if b'"tools"' not in raw:
        return None
    other_frames = (
        _small_frame(reading, other_seq)
        for other_seq in (finding.frame, *finding.related[:MAX_RELATED_FRAMES])
        if other_seq != seq
    )
    return definition_place(raw, finding.pointer or "", other_frames)


def _small_frame(reading: Reading, seq: int) -> bytes:
    """Returns the bytes of a frame, or no bytes if the frame is large or gone."""
    row = reading.index.entry_of_seq(seq)
    if row is None or reading.index.entry(row).size > MAX_SEARCHED_FRAME_BYTES:
        return b""
    try:
        return _raw(reading, row)
    except OSError:
        return b""


def _excerpt_lines(reading: Reading, seq: int, pointer: str | None, width: int, item: int | None = None) -> Lines:
    """Returns an excerpt of a frame on one line; without a pointer, nothing in it is marked."""
    row = reading.index.entry_of_seq(seq)
    if row is None:
        return []
    length = reading.index.entry(row).size
    if length > MAX_SEARCHED_FRAME_BYTES:
        return [[Span(f"{' ' * INDENT_CELLS}a frame of {size(length)}: open it in the traffic", "dim")]]
    try:
        raw = _raw(reading, row)
    except OSError as error:
        return [[Span(f"{' ' * INDENT_CELLS}{error.strerror or error}", "bad")]]
    if not raw:
        return []
    is_batched = item is not None and raw.lstrip()[:1] == b"["
    full_pointer = f"/{item}{pointer or ''}" if is_batched else pointer or ""
    frame_excerpt = excerpt(raw, full_pointer, max(20, width - INDENT_CELLS))
    lines = [[Span(" " * INDENT_CELLS + frame_excerpt.text, "dim" if pointer is None else "plain")]]
    if frame_excerpt.carets and pointer is not None:
        lines.append([Span(" " * (INDENT_CELLS + frame_excerpt.indent)), Span("^" * frame_excerpt.carets, "bad")])
    return lines


def _raw(reading: Reading, row: int) -> bytes:
    """Returns the bytes that crossed the proxy in a row; no bytes if nothing crossed or the record is gone."""
    item = reading.index.read_item(row)
    if isinstance(item, Frame):
        return item.raw
    return raw_bytes(item.members) or b"" if isinstance(item, Record) else b""
