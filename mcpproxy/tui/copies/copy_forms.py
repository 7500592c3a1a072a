"""Copy forms: a row as JSON, as raw text, as the line that `show --json` prints, or as a command that sends it again.

`mcpproxy.wording.json_lines` writes the line, and `mcpproxy.wording.resending` the other forms. JSON and raw text are
not quoted for a shell, and have a remark that says so.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from captures.frame import Frame
from captures.record import Record
from mcpproxy.tui.data.reading import Reading
from mcpproxy.wording.json_lines import escape_line, row_of, wall_of
from mcpproxy.wording.resending import PostedMessage, command, posted_message, pretty_json, raw_text
from mcpproxy.wording.units import size

MAX_CLIPBOARD_BYTES: Final = 74_000
"""The maximum size, in bytes, of a text that common terminals accept for the clipboard."""
MAX_COPIED_ROW_BYTES: Final = 2 << 20
"""The maximum size, in bytes, of a row that is copied to a file; a larger row needs an export."""

_UNSAFE_REMARK: Final = "unsafe in a shell"
"""The remark on text that a shell could run."""
_PLAIN_TEXT_REMARK: Final = "plain text"
"""The remark on commands: the recorder's hashes are next to the message, not in it."""


class CopyForm(NamedTuple):
    """One way to copy something."""

    key: str
    """The key that chooses it."""
    word: str
    """The name of the form."""
    text: str
    """The copied text; empty if the row cannot be copied in this form."""
    remark: str = ""
    """A caveat for the user."""
    wants_file: bool = False
    """Whether the user wants a file instead of the clipboard."""

    @property
    def fits_clipboard(self) -> bool:
        """Whether common terminals accept the text for the clipboard."""
        return len(self.text.encode()) <= MAX_CLIPBOARD_BYTES


def forms(reading: Reading, row: int) -> Sequence[CopyForm]:
    """Returns the ways to copy a row. Reads the file, so do not call it in the drawing thread."""
    entry = reading.index.entry(row)
    if entry.size > MAX_COPIED_ROW_BYTES:
        return [CopyForm("", "", "", f"{size(entry.size)}: too large to copy; e exports to a file")]
    item, record = reading.index.read_item(row), reading.index.read_first_part(row)
    if record is None or not isinstance(item, Frame | Record):
        return [CopyForm("", "", "", "cannot be read")]
    line = CopyForm(
        "l",
        "a JSON line, as from show --json",
        escape_line(row_of(record, item, wall_of(reading.index.header))),
        _UNSAFE_REMARK,
    )
    if not isinstance(item, Frame):
        return [line]
    raw = raw_text(item.raw)
    is_same = raw.encode() == item.raw
    candidates = [
        CopyForm("j", "JSON", pretty_json(item.raw), _UNSAFE_REMARK),
        CopyForm("r", "raw text", raw, _UNSAFE_REMARK + ("" if is_same else "; invisible characters as escapes")),
        line,
        *_commands(reading, row, item),
    ]
    return [
        form if form.fits_clipboard else form._replace(remark=f"{form.remark}; to a file")
        for form in candidates
        if form.text
    ]


def _commands(reading: Reading, row: int, frame: Frame) -> list[CopyForm]:
    """Returns how to resend a message in a session of its own; for a response, how to resend its request."""
    partner = reading.partner(row)
    if frame.dir == "s2c" and partner is not None:
        request = (
            reading.index.read_item(partner) if reading.index.entry(partner).size <= MAX_COPIED_ROW_BYTES else None
        )
        if not isinstance(request, Frame) or request.dir != "c2s":
            return []
        row, frame = partner, request
    initialize = _initialize(reading, row)
    initialize_post = None if initialize is None else _posted(reading, initialize)
    resending = command(reading.index.header.members, frame, _posted(reading, frame), initialize, initialize_post)
    if resending is None:
        return []
    ctrl_d_hint = "; Ctrl-D ends it" if resending.keeps_stdin_open else ""
    placeholder_hint = "; replace what is in <…>" if resending.has_placeholders else ""
    return [
        CopyForm("c", resending.description, resending.text, f"{_PLAIN_TEXT_REMARK}{ctrl_d_hint}{placeholder_hint}")
    ]


def _initialize(reading: Reading, row: int) -> Frame | None:
    """Returns the `initialize` request of a row's session; None if it did not come before the row or is too large."""
    calls, session = reading.calls, reading.session
    if row >= reading.interpreted_count:
        return None
    kinds = {
        number for number, call in enumerate(reading.kinds.all) if (call.side, call.method) == ("client", "initialize")
    }
    rows = (calls.request[number] for number, kind in enumerate(calls.kind) if kind in kinds)
    initialize_row = max(
        (candidate for candidate in rows if candidate < row and session(candidate) == session(row)), default=None
    )
    if initialize_row is None or reading.index.entry(initialize_row).size > MAX_CLIPBOARD_BYTES:
        return None
    item = reading.index.read_item(initialize_row)
    return item if isinstance(item, Frame) else None


def _posted(reading: Reading, frame: Frame) -> PostedMessage | None:
    http = reading.conversation.exchange(frame.exchange) if frame.exchange is not None else None
    return None if http is None else posted_message(http, frame.raw)
