"""Print the conversation in a capture: a line for each message, with the request it answers, the latency, and problems.

--json prints each record with all its members, `at` (wall time) and, if every JSON reader reads the frame alike,
`message`: its unchanged text, so that numbers keep every digit. --format markdown prints versions, findings and the
conversation for an issue report.

The traffic is printed in plain text, including any secrets. To share the output, run `show` on a copy redacted by
`mcpproxy share`, or use `mcpproxy export --format markdown --redact`.
"""

import argparse
import asyncio
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final, Protocol

import orjson

from analysis.conversation.call import ABANDONED_NS, Call, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request
from analysis.filter import Filter, FilterError, facts_of, facts_of_batch, facts_of_call
from analysis.reading import Reading, Step
from captures.damage import Damage
from captures.errors import CaptureError
from captures.file import is_live
from captures.follow import follow
from captures.frame import Frame
from captures.listing import segments
from captures.record import Record
from mcpproxy.cli.arguments import Parser, add_color, add_follow, add_format, report_filter_error
from mcpproxy.cli.check_warnings import say_damage
from mcpproxy.cli.copied_message import FORMS, parse_frames, show_as
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.follow_selection import FollowedCaptures
from mcpproxy.cli.message_filter import filter_for_capture, parse_message_filter
from mcpproxy.cli.messages import filter_from_options, show_messages
from mcpproxy.cli.selection import add_captures, scope_of, select_captures
from mcpproxy.report.conversation import Conversation, ConversationItem
from mcpproxy.report.conversation_rows import MIN_WIDTH
from mcpproxy.report.output import json_line, safe_for_stdout, width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells, fit
from mcpproxy.wording.json_lines import damage_members, row_of, wall_of
from mcpproxy.wording.spans import Span, Style
from mcpproxy.wording.waits import waiting_text


def _parse_count(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `show`."""
    parser = Parser("show", __doc__)
    add_captures(parser)
    add_follow(parser)
    parser.add_argument("--filter", metavar="EXPR", help="only the messages that EXPR selects, such as method:tools/*")
    parser.add_argument(
        "--frame", metavar="N|N..M", help="print these messages in full, with request or response, times and findings"
    )
    parser.add_argument(
        "--as",
        dest="form",
        choices=FORMS,
        help="print only the messages and stderr lines of --frame, or a command that sends message N again",
    )
    parser.add_argument("--id", metavar="ID", help="list the messages with this id, from every session and both sides")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each message in full below its line")
    parser.add_argument("--unfold", action="store_true", help="print each request of a login, even if it succeeded")
    parser.add_argument(
        "--turns", action="store_true", help="name the turn, which is one prompt of the user, above its first call"
    )
    parser.add_argument("--tail", type=_parse_count, metavar="N", help="only the last N lines")
    parser.add_argument("--limit", type=_parse_count, metavar="N", help="only the first N lines")
    parser.add_argument(
        "--time",
        choices=("rel", "delta", "abs"),
        help="time since the start (default), since the previous line, or local wall time (default if several "
        "sessions are followed)",
    )
    add_color(parser)
    add_format(parser, "markdown")
    return parser


_OTHER_ORDER: Final = (
    "one capture was printed after the other; to list the calls of a turn on all servers in order: "
    """mcpproxy query "from calls where turn_id = '…' order by time\""""
)


def run(arguments: list[str]) -> int:
    """Print captures; returns 2 if any is damaged or cannot be read."""
    options = parser().parse_args(arguments)
    problem = _options_error(options)
    if problem is not None:
        return fail(problem)
    if options.form is not None:
        frames = parse_frames(options.frame, options.form)
        with select_captures(options.capture, scope_of(options)) as captures:
            return show_as(captures.paths, frames, options.form)
    try:
        if options.filter is not None:
            options.filter = parse_message_filter(
                options.filter, "show", _REFUSED_WHILE_FOLLOWING if options.follow else {}
            )
        message_selection = None if options.frame is None and options.id is None else filter_from_options(options)
    except FilterError as error:
        report_filter_error(error)
        return int(Exit.USAGE)
    if message_selection is not None:
        with select_captures(options.capture, scope_of(options)) as captures:
            return show_messages(captures.paths, message_selection, options)
    if options.follow and "-" not in options.capture:
        return asyncio.run(_CaptureFollower(options).run())
    code, has_printed, selection = int(Exit.FINE), False, _EmptySelections()
    with select_captures(options.capture, scope_of(options)) as captures:
        for path in captures.paths:
            damage = _DamageReport()
            separator = "\n" if has_printed and options.format == "text" else ""
            try:
                for text in _texts(path, options, damage, selection):
                    sys.stdout.write(f"{separator}{text}")
                    has_printed, separator = True, ""
                code = max(code, damage.exit_code())
            except CaptureError as error:
                code = fail(str(error))
        if options.turns and len(captures.paths) > 1:
            say(_OTHER_ORDER)
    selection.report()
    return code


def _options_error(options: argparse.Namespace) -> str | None:
    """Return the error in the combination of options, if any."""
    if options.form is not None and options.format != "text":
        return "--as cannot be combined with --format or --json: it prints the message alone"
    if options.format == "markdown" and (problem := _markdown_error(options)) is not None:
        return problem
    if options.unfold and options.format == "json":
        return "--unfold needs --format text; --json always prints every record"
    if options.turns and options.format != "text":
        return "--turns needs --format text; with --json, the ids of a call are in its `_meta`"
    if options.frame is None and options.id is None:
        is_redundant = options.verbose and options.format == "json"
        return "--verbose needs --format text; --json always prints whole messages" if is_redundant else None
    if options.frame is not None and options.id is not None:
        return "--frame and --id cannot be combined; give one of them"
    selects_lines = options.follow or options.filter or options.verbose or options.time is not None
    changes_lines = options.turns or options.unfold or options.tail is not None or options.limit is not None
    if selects_lines or changes_lines:
        option = "--id" if options.frame is None else "--frame"
        other_options = "--filter, --follow, --tail, --limit, --time, --turns, --unfold or --verbose"
        return f"{option} cannot be combined with {other_options}"
    return None


def _markdown_error(options: argparse.Namespace) -> str | None:
    if options.follow:
        return "--follow needs --format text or json: Markdown begins with the findings, which are complete at the end"
    if options.verbose:
        return "--verbose needs --format text; Markdown always contains whole messages, collapsed"
    if options.unfold:
        return "--unfold needs --format text; Markdown always contains the requests of a login, collapsed"
    if options.frame is not None or options.id is not None:
        return "--frame and --id need --format text or json; --filter frame:N selects messages for Markdown, too"
    return None


_REFUSED_WHILE_FOLLOWING: Final = {
    "has:answer": "`has:answer` is not known yet when `show --follow` prints a message",
    "has:waiting": "`has:waiting` cannot be used with --follow; `mcpproxy status` lists the requests that are waiting",
}
"""The filter keys that `--follow` does not permit, with the reason."""


def _new_printer(path: Path, fold: Fold, options: argparse.Namespace, label: "_LineLabel | None" = None) -> "_Printer":
    if options.format == "markdown":
        return _MarkdownPrinter(path, fold, options)
    if options.format == "json":
        return _JsonPrinter(fold, options.filter, "" if label is None else str(path))
    return _TextPrinter(path, fold, options, label)


def _texts(
    path: Path, options: argparse.Namespace, damage: "_DamageReport", selection: "_EmptySelections"
) -> Iterator[str]:
    """Yield the text of a capture, in pieces."""
    options = argparse.Namespace(**{**vars(options), "filter": filter_for_capture(path, options.filter)})
    reading = Reading(path, in_records=options.format == "json")
    printer = _new_printer(path, reading.fold, options)
    rows: Iterable[PrintedRow] = (row for step in reading for row in printer.on_step(damage.check(step, reading)))
    if options.tail is not None:
        # Lines that were held back until the client and the server were known come before the end.
        rows = deque(chain(rows, printer.catch_up()), options.tail)
    # --tail does not count the lines about the end of the capture.
    end_rows = (row for step in reading.finish() for row in printer.on_step(step))
    for row in islice(chain(rows, end_rows), options.limit):
        yield printer.text(row)
    selection.count_printed(printer)


class _CaptureFollower:
    """Follows captures: a single session to its end, or several sessions in one stream of lines."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._captures = FollowedCaptures(options.capture, scope_of(options))
        self._column = _LabelColumn()
        self._remaining_lines: int | None = options.limit
        """The number of lines that may still be printed; None if it is not limited."""
        self._code = int(Exit.FINE)
        self._selection = _EmptySelections()

    async def run(self) -> int:
        """Print lines until there is nothing more to follow; returns the exit code."""
        try:
            async with asyncio.TaskGroup() as group:
                async for path in self._captures.paths():
                    if self._captures.is_single_session:
                        await self._follow(path, None)
                    else:
                        group.create_task(self._follow(path, _LineLabel(path, self._column)))
        except* _LimitReached:
            pass
        except* BrokenPipeError:
            raise BrokenPipeError from None  # callers do not handle exception groups
        self._selection.report()
        return self._code

    async def _follow(self, path: Path, label: "_LineLabel | None") -> None:
        options = self._options
        reading = Reading()
        printer = _new_printer(path, reading.fold, options, label)
        damage = _DamageReport()
        # --tail limits only the rows that exist at the start.
        pending_rows: deque[PrintedRow] = deque(maxlen=options.tail)
        has_caught_up = False
        try:
            async for item in follow(path):
                if item is not None:
                    pending_rows.extend(printer.on_step(damage.check(reading.feed(item), reading)))
                    if options.tail is not None and not has_caught_up:
                        continue
                if item is None and not has_caught_up:
                    pending_rows.extend(printer.catch_up())
                    has_caught_up, pending_rows = True, deque(pending_rows)
                while pending_rows:
                    self._write(printer, pending_rows.popleft())
                if item is None:
                    sys.stdout.flush()
                    if is_live(segments(path)[-1]):
                        for line in printer.waiting():
                            say(line if label is None else f"{label.text}{line}")
            for step in reading.finish():
                for row in printer.on_step(step):
                    self._write(printer, row)
            sys.stdout.flush()
        except CaptureError as error:
            self._code = fail(str(error))
            return
        self._selection.count_printed(printer)
        self._code = max(self._code, damage.exit_code())

    def _write(self, printer: "_Printer", row: "PrintedRow") -> None:
        if self._remaining_lines is None or self._remaining_lines > 0:
            sys.stdout.write(printer.text(row))
        if self._remaining_lines is not None:
            self._remaining_lines -= 1
            if self._remaining_lines <= 0:
                raise _LimitReached


class _LimitReached(Exception):
    """Raised when as many lines have been printed as --limit permits."""


class _LabelColumn:
    """The column of labels. It is as wide as the longest label so far."""

    MAX_LABEL_CELLS: Final = 24
    """The maximum width of a label, in cells."""
    MIN_LABEL_CELLS: Final = 8
    """The width that a label may always have: the end of a capture's name, and the beginning of a server's name."""

    def __init__(self) -> None:
        # Long names give way to messages.
        self.max_label_cells = max(
            self.MIN_LABEL_CELLS, min(self.MAX_LABEL_CELLS, width_of_stdout() - MIN_WIDTH - _LineLabel.GAP_CELLS)
        )
        self.width = 0


class _LineLabel:
    """The label of each line if several captures are followed: the server, and the end of the capture's name."""

    GAP_CELLS: Final = 2
    """The number of cells between a label and its line."""

    def __init__(self, path: Path, column: _LabelColumn) -> None:
        end = sanitise(path.stem[-4:])
        self._text = f"{fit(sanitise(path.parent.name), column.max_label_cells - cells(end) - 1)} {end}"
        self._column = column
        column.width = max(column.width, cells(self._text))

    @property
    def cells(self) -> int:
        """The current width of the column, including the gap."""
        return self._column.width + self.GAP_CELLS

    @property
    def text(self) -> str:
        """The label, padded to the width of the column."""
        return self._text + " " * (self.cells - cells(self._text))


class _EmptySelections:
    """Counts the captures in which the filter selected nothing, and reports them on stderr."""

    def __init__(self) -> None:
        self._capture_count = self._empty_count = 0

    def count_printed(self, printer: "_Printer") -> None:
        """Count a capture that was printed to its end."""
        self._capture_count += 1
        self._empty_count += not printer.has_selected

    def report(self) -> None:
        """Report the count, after everything has been printed."""
        if self._empty_count:
            captures_text = f" in {self._empty_count:,} of {self._capture_count:,} captures"
            say(f"no message matches the filter{captures_text if self._empty_count < self._capture_count else ''}")


class _DamageReport:
    """Reports the first damage of a capture on stderr."""

    def __init__(self) -> None:
        self._is_damaged = False

    def check(self, step: Step, reading: Reading) -> Step:
        damage = reading.damage_in(step)
        if damage is not None:
            self._is_damaged = True
            say_damage(damage, damage.path)
        return step

    def exit_code(self) -> int:
        return int(Exit.USAGE if self._is_damaged else Exit.FINE)


PrintedRow = ConversationItem | str


class _Printer(Protocol):
    """Formats a capture for output."""

    @property
    def has_selected(self) -> bool:
        """Whether the filter has selected anything so far."""

    def on_step(self, step: Step) -> Iterator[PrintedRow]:
        """Yield the rows that a step adds; for the last step, yield the rows about the end of the capture."""

    def catch_up(self) -> Iterator[PrintedRow]:
        """Yield the rows that were held back; call this after the last step that the capture contains so far."""

    def text(self, row: PrintedRow) -> str:
        """Return a row as it is printed."""

    def waiting(self) -> Iterator[str]:
        """Yield lines about waiting requests, once for each request."""


class _TextPrinter:
    """Formats the conversation as text."""

    def __init__(self, path: Path, fold: Fold, options: argparse.Namespace, label: _LineLabel | None = None) -> None:
        style = Style.for_choice(options.color, sys.stdout, os.environ)
        self._style, self._label, self._width = style, label, width_of_stdout()
        self._limits_lines = options.tail is not None or options.limit is not None
        self._conversation = Conversation(
            fold,
            style,
            self._width,
            # Each session has its own clock, so only wall times of different sessions can be compared.
            times=options.time or ("rel" if label is None else "abs"),
            file=path.name,
            live=options.follow,
            only=options.filter,
            whole=options.verbose,
            unfold=options.unfold,
            turns=options.turns,
        )
        self._has_heading = False
        self._reported_requests: set[int] = set()
        """The numbers of the requests that have been reported as waiting."""

    @property
    def has_selected(self) -> bool:
        return self._conversation.has_selected

    def on_step(self, step: Step) -> Iterator[PrintedRow]:
        self._fit_to_label()
        yield from self._conversation.due_items(step) if self._limits_lines else self._conversation.feed(step)

    def catch_up(self) -> Iterator[PrintedRow]:
        self._fit_to_label()
        yield from self._conversation.release_held() if self._limits_lines else self._conversation.catch_up()

    def _fit_to_label(self) -> None:
        """Leave room for the label, which may have become wider; in a pipe, the length of lines is not limited."""
        if self._label is not None and self._width < UNLIMITED_WIDTH:
            self._conversation.fit(self._width - self._label.cells)

    def text(self, row: PrintedRow) -> str:
        label = "" if self._label is None else self._style.paint([Span(self._label.text, "dim")])
        if isinstance(row, str):
            return f"{label}{row}\n"
        self._fit_to_label()
        lines = [] if self._has_heading else list(self._conversation.heading())
        self._has_heading = True
        return "".join(f"{label}{line}\n" for line in [*lines, *self._conversation.lines(row)])

    def waiting(self) -> Iterator[str]:
        """Yield lines about late requests each time another one is late: their number, and how long they waited."""
        waits = self._conversation.waits
        if not self._conversation.session.tables["client"].oldest_calls(1):
            return
        late_waits = [wait for wait in waits.oldest_first if waits.waited_ns(wait) >= ABANDONED_NS]
        new_waits = [wait for wait in late_waits if wait.request.seq not in self._reported_requests]
        self._reported_requests |= {wait.request.seq for wait in new_waits}
        if new_waits and len(late_waits) > 1:
            yield waiting_text(len(late_waits), waits.waited_ns(late_waits[0]))
        yield from (waits.text(wait) for wait in new_waits)


class _JsonPrinter:
    """Formats the records as lines of JSON; with a filter, only the records of frames with a selected message."""

    def __init__(self, fold: Fold, filter_: Filter | None = None, capture: str = "") -> None:
        self._capture = f'{{"path":{orjson.dumps(sanitise(capture, None)).decode()},' if capture else "{"
        """The beginning of each line, with the path of its capture if there are several."""
        self.has_selected = filter_ is None
        """Whether the filter has selected anything so far."""
        self._filter = filter_
        self._fold = fold
        self._pending_frames: dict[int, tuple[Record, Frame]] = {}
        """The frames that may be lines of an unfinished message; `assembly.py` bounds their number."""
        self._open_requests: dict[int, tuple[Record, Frame]] = {}
        """The unselected requests without a response, which may fail and then match; the fold bounds their number."""
        self._wall_ns: int | None = None

    def on_step(self, step: Step) -> Iterator[PrintedRow]:
        """Yield the row of the record or, with a filter, the rows that are now known to be selected."""
        record, entry = step.record, step.item
        assert not isinstance(record, Frame)
        if isinstance(record, Damage):
            if self._filter is None:
                yield json_line(damage_members(record))
            return
        if record is not None and record.rec == "header":
            self._wall_ns = wall_of(record)
        if self._filter is None:
            if record is not None:
                yield row_of(record, entry, self._wall_ns)
            return
        if record is not None and isinstance(entry, Frame):
            self._pending_frames[entry.seq] = record, entry
        yield from self._selected_rows(step.messages, self._filter)
        if isinstance(entry, Record) and entry.rec == "exchange":
            yield from self._failed_rows(step.unanswered, self._filter)
        if step.end is not None and step.end != "open":
            yield from self._failed_rows(self._fold.open_calls(), self._filter)

    def _selected_rows(self, contexts: tuple[MessageContext, ...], filter_: Filter) -> Iterator[str]:
        """Yield the row of each frame whose messages are complete, if the filter selects any of them."""
        frames = {frame.seq: frame for context in contexts for frame in context.message.frames}
        selected_frames = {
            frame.seq for context in contexts if filter_.matches(facts_of(context)) for frame in context.message.frames
        }
        for seq in sorted(frames):
            if seq not in self._pending_frames:
                continue
            record, frame = self._pending_frames.pop(seq)
            if seq in selected_frames or (frame.verdict.kind == "batch" and filter_.matches(facts_of_batch(frame))):
                self.has_selected = True
                yield row_of(record, frame, self._wall_ns)
            else:
                self._open_requests[seq] = record, frame
        for context in contexts:
            if not isinstance(context.message, Request):
                for frame in context.message.frames:
                    self._open_requests.pop(frame.seq, None)
            if context.answered is not None:
                self._open_requests.pop(context.answered.request.seq, None)
            elif context.cancelled is not None:
                yield from self._failed_rows([context.cancelled], filter_)

    def _failed_rows(self, calls: Iterable[Call], filter_: Filter) -> Iterator[str]:
        """Yield the row of each request that the filter selects now that it has ended without a response."""
        for call in calls:
            request_row = self._open_requests.pop(call.request.seq, None)
            if request_row is None or call.session is None:
                continue
            if filter_.matches(facts_of_call(call)):
                self.has_selected = True
                yield row_of(*request_row, self._wall_ns)

    def catch_up(self) -> Iterator[PrintedRow]:
        yield from ()

    def text(self, row: PrintedRow) -> str:
        return safe_for_stdout(self._capture + str(row).removesuffix("\n").removeprefix("{")) + "\n"

    def waiting(self) -> Iterator[str]:
        """Yield no lines, because the output is for programs."""
        yield from ()


class _MarkdownPrinter:
    """Formats the conversation as Markdown for an issue report."""

    def __init__(self, path: Path, fold: Fold, options: argparse.Namespace) -> None:
        from mcpproxy.exporters.markdown import MarkdownExport, collect_facts

        self._page = MarkdownExport(path, fold, collect_facts(path), options.filter, times=options.time or "rel")
        self._has_heading = False

    @property
    def has_selected(self) -> bool:
        return self._page.has_selected

    def on_step(self, step: Step) -> Iterator[PrintedRow]:
        yield from self._page.feed(step)

    def catch_up(self) -> Iterator[PrintedRow]:
        yield from ()

    def text(self, row: PrintedRow) -> str:
        head = "" if self._has_heading else self._page.heading()
        self._has_heading = True
        return f"{head}{row}"

    def waiting(self) -> Iterator[str]:
        yield from ()
