"""Exports with a single file: what each format writes, for `mcpproxy export` and for the screens.

Each writer reads captures one by one (`CaptureInput`), and writes to an open file; the caller creates and publishes it.
"""

import tempfile
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from analysis.filter import Filter
from captures.errors import CaptureError
from mcpproxy.exporters.source import ExportSource
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text


class CaptureInput:
    """The captures of an export, opened one by one."""

    def __init__(self, paths: list[Path], say: Callable[[str], None], on_bytes_read: Callable[[int], None]) -> None:
        """Open nothing yet.

        Args:
            paths: the captures.
            say: called with each sentence about what is missing from the export.
            on_bytes_read: called with the size of each record that was read, in bytes.
        """
        self.paths = paths
        self.say = say
        self.has_losses = False
        """Whether any capture is damaged, or could not be read."""
        self.read_count = 0
        """How many captures could be read."""
        self._on_bytes_read = on_bytes_read

    def sources(self) -> Iterator[ExportSource]:
        """Yield the captures that can be read; report those that are damaged or cannot be read."""
        for path in self.paths:
            try:
                source = ExportSource(path, self._on_bytes_read)
                yield source
            except CaptureError as error:
                self.has_losses = True
                self.say(str(error))
                continue
            self.read_count += 1
            damage = source.reading.damage
            if damage is not None:
                self.has_losses = True
                self.say(
                    f"{sanitise(str(damage))}; the rest was exported; `mcpproxy verify` lists the damage, "
                    "`mcpproxy repair` copies everything intact"
                )

    def first_ns(self) -> int:
        """Return when the earliest capture began, in ns since 1970; 0 if that is unknown."""
        wall_times = []
        for path in self.paths:
            with suppress(CaptureError):
                wall_times.append(ExportSource(path).wall_ns)
        return min((wall_ns for wall_ns in wall_times if wall_ns is not None), default=0)


class WriteOptions(NamedTuple):
    """What is written, and how."""

    folder: Path
    """The folder for files that are needed only while writing."""
    selection: Callable[[Path], Filter | None] | None = None
    """Returns what selects the messages of a capture; None to write all."""
    payloads: bool = False
    """OpenTelemetry: whether arguments and results are written."""

    def selection_for(self, path: Path) -> Filter | None:
        """Return what selects the messages of a capture; None if it is written whole.

        Raises:
            CaptureError: the capture cannot be read.
        """
        return self.selection(path) if self.selection is not None else None


Writer = Callable[[CaptureInput, WriteOptions, IO[bytes]], str]
"""Writes the file; returns a description of its contents, or an empty text if it wrote nothing."""


def filter_of_frames(numbers: Container[int], text: str = "") -> Filter:
    """Return a filter that selects the messages whose first frames have these numbers.

    Args:
        numbers: the numbers.
        text: the expression that selected them, if any.
    """
    return Filter(text, {}, lambda facts: facts.frames is not None and facts.frames[0] in numbers)


def empty_output_error(format_: str, *, is_filtered: bool) -> str:
    """Return the error for a format if there is nothing to write."""
    if format_ == "har" and is_filtered:
        return "no HTTP exchange matches the filter; nothing was written"
    if format_ == "har":
        advice = "export sessions over stdio as otlp, perfetto or markdown"
        return f"there are no HTTP exchanges to write as HAR; {advice}; nothing was written"
    return "no message matches the filter; nothing was written"


def _write_otlp(captures: CaptureInput, options: WriteOptions, file: IO[bytes]) -> str:
    from mcpproxy.exporters.otlp.capture import SpanBuilder
    from mcpproxy.exporters.otlp.conventions import CallSpan
    from mcpproxy.exporters.otlp.histograms import DurationHistograms
    from mcpproxy.exporters.otlp.json_lines import metric_lines, trace_lines

    histograms, count = DurationHistograms(), 0

    def spans() -> Iterator[CallSpan]:
        nonlocal count
        for source in captures.sources():
            selection, fold = options.selection_for(source.path), source.reading.fold
            capture_spans = SpanBuilder(source.id, fold, histograms, selection, payloads=options.payloads)
            for step in source:
                for span in capture_spans.on_step(step):
                    count += 1
                    yield span
            report_missing(fold.wall_ns, fold.forgotten_entries, source.path, captures.say)

    for line in trace_lines(spans()):
        file.write(line)
    for line in metric_lines(histograms):
        file.write(line)
    series = f"{count_text(len(histograms), 'series', 'series')} of histograms"
    return f"{count_text(count, 'span')}, {series}" if count or options.selection is None else ""


def _write_har(captures: CaptureInput, options: WriteOptions, file: IO[bytes]) -> str:
    from mcpproxy.exporters.har import HarEntryBuilder, HarFile

    with tempfile.TemporaryFile(prefix=".mcpproxy-", dir=options.folder) as spool:
        har = HarFile(spool)
        for source in captures.sources():
            entries = HarEntryBuilder(source.id, source.reading.fold, options.selection_for(source.path))
            for step in source:
                for entry in entries.on_step(step):
                    har.add(entry)
            if not entries.is_http and len(captures.paths) > 1:
                captures.say(f"{sanitise(str(source.path))} was recorded over stdio, which HAR cannot hold")
            if entries.lost_request_count:
                count = count_text(entries.lost_request_count, "exchange")
                captures.say(
                    f"{sanitise(str(source.path))}: {count} left out, because the record of the request is lost"
                )
            if entries.truncated_body_count:
                count = count_text(entries.truncated_body_count, "body", "bodies")
                captures.say(f"{sanitise(str(source.path))}: {count} cut at 16 MiB")
        for piece in har.pieces():
            file.write(piece)
        return count_text(len(har), "entry", "entries") if len(har) else ""


def _write_perfetto(captures: CaptureInput, options: WriteOptions, file: IO[bytes]) -> str:
    from mcpproxy.exporters.trace_events import Event, ProcessNumbers, TraceEventBuilder, file_pieces

    processes, ids, count = ProcessNumbers(), [], 0
    first_ns = captures.first_ns()

    def events() -> Iterator[list[Event]]:
        nonlocal count
        for number, source in enumerate(captures.sources()):
            name = source.name or source.path.stem
            offset_ns = 0 if source.wall_ns is None else source.wall_ns - first_ns
            selection = options.selection_for(source.path)
            capture_events = TraceEventBuilder(
                source.id, source.reading.fold, name, processes, number, offset_ns, selection
            )
            ids.append(source.id)
            for step in source:
                yield capture_events.on_step(step)
            count += capture_events.call_count
            if source.wall_ns is None and len(captures.paths) > 1:
                captures.say(f"{sanitise(str(source.path))} does not record its start time, so it begins at 0")

    for piece in file_pieces(events(), ids):
        file.write(piece)
    return count_text(count, "call") if count or options.selection is None else ""


def _write_markdown(captures: CaptureInput, options: WriteOptions, file: IO[bytes]) -> str:
    from mcpproxy.exporters.markdown import MarkdownExport, collect_facts
    from mcpproxy.wording.markdown import MAX_ISSUE_CHARS

    characters = message_count = 0
    has_selected = False
    for source in captures.sources():
        selection = options.selection_for(source.path)
        page = MarkdownExport(source.path, source.reading.fold, collect_facts(source.path), selection)
        pieces = [page.heading()]
        for step in source:
            pieces += page.feed(step)
            if len(pieces) > 1000:
                characters += _write(file, pieces)
                pieces = []
        characters += _write(file, pieces)
        has_selected = has_selected or page.has_selected
        message_count += page.message_count
    if characters > MAX_ISSUE_CHARS:
        captures.say(
            f"GitHub accepts {MAX_ISSUE_CHARS:,} characters in an issue, and this has {characters:,}; "
            "shorten it with --filter"
        )
    contents = f"{count_text(message_count, 'message')}, {count_text(characters, 'character')}"
    return contents if has_selected else ""


def _write(file: IO[bytes], pieces: list[str]) -> int:
    text = "".join(pieces)
    file.write(text.encode("utf-8", "replace"))
    return len(text)


def report_missing(wall_ns: int | None, forgotten: object, path: Path, say_: Callable[[str], None]) -> None:
    """Report what spans lack: the real times, or requests that were dropped to limit memory."""
    if wall_ns is None:
        say_(f"{sanitise(str(path))} does not record its start time, so its times count from 1970")
    for loss in forgotten if isinstance(forgotten, list) else []:
        say_(f"{sanitise(str(path))}: {loss.text}")


WRITERS: Final[Mapping[str, Writer]] = {
    "otlp": _write_otlp,
    "har": _write_har,
    "perfetto": _write_perfetto,
    "markdown": _write_markdown,
}
"""The writer of each format."""
