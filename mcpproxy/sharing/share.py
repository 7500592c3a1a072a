"""Writes the redacted copy of a capture.

The copy gets its name when it is complete, and only its owner can read it. On request, it replaces an earlier copy, but
never any other file.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from analysis.checking.checker import RuleSelection
from analysis.filter import Filter
from analysis.reading import Reading
from captures.errors import CannotCreate
from captures.file import CaptureFile, choose_path, sync, unlock_and_close
from captures.integrity import inspect
from captures.listing import first_segment
from captures.paths import SUFFIX, file_name
from captures.private_folder import private_folder
from captures.publication import new_capture
from captures.reader import Capture
from captures.record import Record, use_orjson
from captures.repair import WholeRecords
from mcpproxy.sharing.account import RedactionAccount
from mcpproxy.sharing.cassette import CassetteLines, SteadyWriter, finish_cassette, is_same_file
from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.comparison import compare
from mcpproxy.sharing.copying import Copier
from mcpproxy.sharing.excerpt import Excerpt, excerpt
from mcpproxy.sharing.first_pass import FirstPass
from mcpproxy.sharing.frames import FrameRedactor
from mcpproxy.sharing.kingfisher import catalogue
from mcpproxy.sharing.numbered_pseudonyms import NumberedPseudonyms
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from mcpproxy.sharing.records import RecordRedactor
from mcpproxy.sharing.redaction import RedactionChoices, Redactor
from mcpproxy.sharing.spool import unchanging_capture

BATCH_BYTES: Final = 1 << 20
_MAX_SEGMENT_NUMBER: Final = 100_000_000
"""Readers accept no greater number in the name of a file."""


@dataclass
class ShareOptions:
    """How to redact. The defaults are those of the command `share`."""

    choices: RedactionChoices = field(default_factory=ShareChoices)
    keeps_bodies: bool = True
    """Whether the values in bodies stay if they are not secret."""
    keeps_unparsed: bool = False
    """Whether text that cannot be parsed is searched as plain text instead of being replaced whole."""
    replaces_personal_numbers: bool = False
    """Whether telephone numbers, bank accounts and MAC addresses are replaced."""
    message_filter: Filter | None = None
    """Selects the messages of the copy; None for all."""
    last_ns: int | None = None
    """How long before the end of the capture the copy begins; None for the whole capture."""
    renames: bool = False
    """Whether the destination is a folder, in which the copy gets the redacted name of the original."""
    machine: tuple[str, bool] | None = None
    """The machine name in the copy, and whether a user chose it. None keeps a chosen name and replaces a host name."""
    replaces: bool = False
    """Whether the copy may replace an earlier redacted copy with the same name."""
    is_cassette: bool = False
    """Whether the copy is a cassette: see `mcpproxy.sharing.cassette`."""
    keeps_times: bool = False
    """Whether a cassette has the recorded times."""
    compares: bool = True
    """Whether the findings of the copy are compared with those of the original."""
    progress: Callable[[int, int], None] = lambda _done, _all: None
    """Called with the number of bytes read so far, and their total."""


def redacted_copy(source: Path, destination: Path, options: ShareOptions | None = None) -> RedactionAccount:
    """Write a redacted copy of a capture.

    Args:
        source: one of the files of the capture.
        destination: a new file that ends in `.mcpcap`, or a folder.
        options: how to redact; by default as `share` does without options.

    Returns:
        The account of what was replaced, where and why.

    Raises:
        CannotCreate: the copy cannot be created or written, or its name already exists.
        CaptureError: the original cannot be read.
    """
    options = options or ShareOptions()
    use_orjson()
    with unchanging_capture(Capture(source)) as capture:
        if not options.is_cassette:
            return _write_copy(capture, source, destination, options)
        with private_folder() as folder:
            steady_account = RedactionAccount(destination)
            steady = _write_steady(capture, folder, options, steady_account)
            whole = replace(options, message_filter=None, last_ns=None)
            account = _write_copy(steady, source, destination, whole)
    account.is_damaged = steady_account.is_damaged
    account.out_of_order_records = steady_account.out_of_order_records
    account.left_out_records = steady_account.left_out_records
    account.left_out_unknown_records = steady_account.left_out_unknown_records
    return account


def _write_steady(capture: Capture, folder: Path, options: ShareOptions, account: RedactionAccount) -> Capture:
    """Write a capture, or the selected part of it, to a private folder as a steady one."""
    try:
        path = folder / capture.path.name
        with open(folder / "lines", "x+b") as lines, path.open("xb") as file:
            writer = SteadyWriter(lines, keeps_times=options.keeps_times, keeps_stderr=options.keeps_unparsed)
            writer.add_all(_records(capture, options, account))
            file.writelines(writer.lines())
    except OSError as error:
        raise CannotCreate(
            f"cannot write to {folder.parent}: {error.strerror}; set TMPDIR to another folder"
        ) from error
    account.left_out_records += writer.left_out_unknown_count
    account.left_out_unknown_records += writer.left_out_unknown_count
    return Capture(path)


class _Unchanged(Exception):
    """The copy would have the content of the file that it replaces."""


def _write_copy(capture: Capture, source: Path, destination: Path, options: ShareOptions) -> RedactionAccount:
    first_pass = FirstPass()
    pseudonyms, size = NumberedPseudonyms() if options.is_cassette else PseudonymGenerator(), capture.size
    collector = Redactor(
        PseudonymGenerator(),
        catalogue(),
        options.choices.unreviewed(),
        bodies=options.keeps_bodies,
        unparsed=options.keeps_unparsed,
        personal=options.replaces_personal_numbers,
        on_secret=first_pass.values.add,
    )
    first_pass.read(capture, collector, lambda done: options.progress(done, 2 * size))
    redactor = Redactor(
        pseudonyms,
        catalogue(),
        options.choices,
        bodies=options.keeps_bodies,
        unparsed=options.keeps_unparsed,
        personal=options.replaces_personal_numbers,
        known=first_pass.known_value_search,
    )
    if options.renames:
        stem = first_segment(source).name.removesuffix(SUFFIX)
        destination /= file_name(redactor.redact_label(stem, []))
    target = Path(choose_path(os.fspath(destination), "", time.time_ns(), replaces=options.replaces))
    account = RedactionAccount(
        path=target,
        renamed_members=redactor.renamed_members,
        left_out_values=first_pass.values.left_out,
        keeps_unparsed=options.keeps_unparsed,
    )
    copier = Copier(
        FrameRedactor(redactor, keep_unparsed=options.keeps_unparsed),
        RecordRedactor(redactor, options.machine),
        account,
        Reading(rules=RuleSelection() if options.compares else None),
        staying=None if options.replaces_personal_numbers else account.personal_numbers,
        is_unchanged=first_pass.is_unchanged,
    )
    lines = copier.lines(_records(capture, options, account))
    with suppress(_Unchanged), new_capture(target, replace=options.replaces) as file:
        _write(file, _completed(lines) if options.is_cassette else lines)
        if options.compares:
            compare(copier.findings, Path(file.path), account)
        if options.is_cassette:
            finish_cassette(file)
            account.is_unchanged = is_same_file(Path(file.path), target)
            if account.is_unchanged:
                raise _Unchanged
    account.unmatched_patterns = options.choices.unmatched
    return account


def _completed(lines: Iterable[tuple[Record, bytes]]) -> Iterator[tuple[Record, bytes]]:
    """Yields the lines of a cassette, complete."""
    cassette = CassetteLines()
    for record, line in lines:
        yield record, cassette.complete(line)


def _records(capture: Capture, options: ShareOptions, account: RedactionAccount) -> Iterator[Record]:
    """Yields the records to redact, and reports progress. The first pass counts as the first half."""
    size = done_bytes = capture.size
    selection: Excerpt | None = None
    inspection = inspect(capture)
    account.is_damaged = inspection.state == "damaged"
    whole_records = WholeRecords(capture, inspection)
    records: Iterable[Record] = whole_records
    if options.message_filter is not None or options.last_ns is not None:
        selection = excerpt(capture, options.message_filter, options.last_ns)
        records = selection(records)
    for record in records:
        done_bytes += len(record.line) + 1
        options.progress(done_bytes, 2 * size)
        yield record
    account.out_of_order_records = whole_records.dropped_count
    if selection is not None:
        account.left_out_records, account.left_out_unknown_records = (
            selection.left_out_count,
            selection.left_out_unknown_count,
        )


def _write(file: CaptureFile, lines: Iterable[tuple[Record, bytes]]) -> None:
    batch: list[bytes] = []
    size = 0
    for record, line in lines:
        if record.rec == "header" and record.offset == 0:
            segment = record.members.get("segment")
            number = segment if type(segment) is int and 0 < segment < _MAX_SEGMENT_NUMBER else 1
            if file.size or batch:
                file.segment = max(file.segment, number - 1)
                sync(file.fd)
                unlock_and_close(file.begin_next_segment(b"".join(batch)))
                batch, size = [], 0
            else:
                # Even if the ring deleted earlier segments, the first file of the copy has the name of the capture.
                file.segment = number
        batch.append(line)
        size += len(line)
        if size >= BATCH_BYTES:
            file.append(b"".join(batch))
            batch, size = [], 0
    file.append(b"".join(batch))
