"""The text of a row: of a frame, a line of stderr, or another record."""

from typing import Final

from analysis.facts import raw_of
from captures.frame import Frame
from captures.record import Record, raw_bytes
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.stderr_folds import MIN_FOLDED_LINES
from mcpproxy.tui.rows.row_calls import message_at
from mcpproxy.tui.text.content import MessageWriter
from mcpproxy.tui.text.logins import login_text_of, write_leg
from mcpproxy.tui.text.messages import write_frame, write_raw, write_record

MAX_LINES_OF_RUN: Final = 1000
"""How many lines of stderr that follow the first of a run are shown with it."""
MAX_FORMATTED_FRAME_BYTES: Final = 8 << 20
"""The size, in bytes, above which a frame is shown as raw text, page by page."""


def row_text(reading: Reading, row: int, width: int) -> MessageWriter | None:
    """The text of a row, or None if it is too large, deleted or damaged.

    Args:
        reading: the capture.
        row: the entry.
        width: the width of a line, in cells.
    """
    login_text = login_text_of(reading, row, width)
    if login_text is not None:
        return login_text
    item = reading.index.read_item(row) if reading.index.entry(row).size <= MAX_FORMATTED_FRAME_BYTES else None
    writer = MessageWriter(width)
    if isinstance(item, Frame):
        is_whole = reading.last_joined_row(row) is None
        frames = (item,) if is_whole else message_at(reading, row, item).frames
        write_frame(writer, raw_of(frames))
    elif isinstance(item, Record):
        raw = raw_bytes(item.members)
        if item.rec == "stderr" and raw is not None:
            write_raw(writer, raw)
            _write_run(writer, reading, row)
        else:
            write_leg(writer, reading, row)
            write_record(writer, item)
    else:
        return None
    writer.lines.insert_warning()
    return writer


def _write_run(writer: MessageWriter, reading: Reading, first_row: int) -> None:
    """Write the other lines of a run of stderr if the row is the first of one: it may be folded."""
    index = reading.index
    end = min(len(index), first_row + MAX_LINES_OF_RUN + 1)
    row = first_row
    while row < end and index.kind(row) == "stderr":
        row += 1
    if row - first_row < MIN_FOLDED_LINES or (first_row and index.kind(first_row - 1) == "stderr"):
        return
    for later_row in range(first_row + 1, row):
        item = index.read_item(later_row)
        if isinstance(item, Record):
            write_raw(writer, raw_bytes(item.members) or b"")
    if row == end < len(index) and index.kind(row) == "stderr":
        writer.lines.write_line("… the other lines are in E", "dim")
