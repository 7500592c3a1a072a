"""Imports a log in memory, as `import` does: what becomes of it, without files."""

import io
from dataclasses import dataclass, field

import orjson

from captures.frame import Frame
from captures.reader import read_frames
from captures.record import Record, decode
from mcpproxy.importers.conversations import Conversations
from mcpproxy.importers.form import fitting_forms, forms
from mcpproxy.importers.log_items import LeftOut, Remark
from mcpproxy.importers.source import Log


@dataclass
class ImportedCapture:
    """A capture of an imported log."""

    name: str
    wall_ns: int | None
    lines: list[bytes] = field(default_factory=list)
    is_complete: bool = False
    is_discarded: bool = False

    def append(self, line: bytes) -> None:
        """Adds a line."""
        assert not self.is_complete
        self.lines.append(line)

    def close(self) -> None:
        """Completes it."""
        self.is_complete = True

    def discard(self) -> None:
        """Deletes it."""
        self.is_discarded = True

    @property
    def records(self) -> list[Record]:
        """Its records, each of which a reader accepts."""
        decoded = [decode(line.removesuffix(b"\n"), 0, orjson.loads) for line in self.lines]
        records = [record for record in decoded if record is not None]
        assert [record.seq for record in records] == list(range(len(self.lines)))
        return records

    @property
    def header(self) -> dict[str, object]:
        """The members of its header."""
        return self.records[0].members

    @property
    def frames(self) -> list[Frame]:
        """Its frames."""
        return [item for item in read_frames(self.records) if isinstance(item, Frame)]

    @property
    def messages(self) -> list[tuple[str, str]]:
        """The direction and text of each frame."""
        return [(frame.dir, frame.raw.decode()) for frame in self.frames]


@dataclass
class ImportedLog:
    """What became of a log."""

    captures: list[ImportedCapture] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def log_of(data: bytes, file_name: str = "", folder_name: str = "") -> Log:
    """A log with this content."""
    return Log(io.BytesIO(data), file_name, folder_name)


def recognised(data: bytes, file_name: str = "") -> list[str]:
    """The names of the forms that fit."""
    return fitting_forms(log_of(data, file_name))


def imported(form_name: str, data: bytes, file_name: str = "", folder_name: str = "") -> ImportedLog:
    """Imports a log.

    Raises:
        InvalidLine: nothing of it can be imported.
    """
    result, form = ImportedLog(), forms()[form_name]

    def create(name: str, wall_ns: int | None) -> ImportedCapture:
        result.captures.append(ImportedCapture(name, wall_ns))
        return result.captures[-1]

    conversations = Conversations(form_name, form, create)
    for item in form.read(log_of(data, file_name, folder_name)):
        if isinstance(item, Remark):
            result.remarks.append(item.text)
        elif isinstance(item, LeftOut):
            result.left_out.append(item)
            conversations.mark_loss(item)
        elif left_out := conversations.add(item):
            result.left_out.append(left_out)
    conversations.close()
    result.remarks += conversations.remarks()
    assert all(capture.is_complete or capture.is_discarded for capture in result.captures)
    result.captures = [capture for capture in result.captures if capture.is_complete]
    return result
