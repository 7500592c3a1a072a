"""Print the conversation of a capture: who said what, what it answers, how long it took, and what is wrong with it.

--json prints each record with its own members, `at` (wall time) and, where a frame is flawless JSON, `message`: its
text unchanged, so that numbers keep every digit.
"""

import argparse
import asyncio
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

from analysis.filter import OF_FINDINGS, Filter, FilterError, facts_of, facts_of_batch, parse
from analysis.fold import Fold
from analysis.session import Seen
from captures.errors import CaptureError
from captures.file import is_live
from captures.follow import follow
from captures.frame import Frame
from captures.reader import Capture, Damage, FrameAssembler
from captures.record import Record
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.output import add_format, for_stdout, json_line, say_of_filter, width_of_stdout
from mcpproxy.cli.selection import selected
from mcpproxy.report.conversation import Conversation, Thing
from mcpproxy.report.json_lines import damage_of, row_of, wall_of
from mcpproxy.report.text import Style
from mcpproxy.sanitise import sanitise


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no number")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The arguments of `show`."""
    made = Parser("show", __doc__)
    made.add_argument(
        "capture", nargs="*", help="captures, folders, server names, or - for stdin (default: the newest capture)"
    )
    made.add_argument("-f", "--follow", action="store_true", help="go on with what is being recorded, until it ends")
    made.add_argument("--filter", metavar="EXPR", help="only the messages that EXPR selects, such as method:tools/*")
    made.add_argument("--tail", type=_positive, metavar="N", help="only the last N lines")
    made.add_argument("--limit", type=_positive, metavar="N", help="only the first N lines")
    made.add_argument(
        "--time",
        choices=("rel", "delta", "abs"),
        default="rel",
        help="since the start (default), since the line before, or local wall time",
    )
    made.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="default: auto, which respects NO_COLOR"
    )
    add_format(made)
    return made


def run(arguments: list[str]) -> int:
    """Print captures; 2 where one is damaged or cannot be read."""
    options = parser().parse_args(arguments)
    try:
        options.filter = None if options.filter is None else _filter(options.filter)
    except FilterError as error:
        say_of_filter(error)
        return int(Exit.USAGE)
    code = int(Exit.FINE)
    with selected(options.capture) as paths:
        for number, path in enumerate(paths):
            try:
                if number and options.format == "text":
                    sys.stdout.write("\n")
                code = max(code, _follow(path, options) if options.follow else _print(path, options))
            except CaptureError as error:
                code = fail(str(error))
    return code


_UNTOLD: Final = OF_FINDINGS | {"has:answer", "has:mark"}
"""What of a message is not known when it is printed: no rules run, answers come later, marks are of the screens."""


def _filter(text: str) -> Filter:
    """The filter that is asked for.

    Raises:
        FilterError: it is none, or asks what would select everything or nothing.
    """
    only = parse(text)
    for key, at in only.keys.items():
        if key in _UNTOLD:
            raise FilterError(f"`show` cannot tell `{key}` of a message when it prints it", text, at)
    return only


def _printer(path: Path, options: argparse.Namespace) -> "_Json | _Text":
    return _Json(options.filter) if options.format == "json" else _Text(path, options)


def _print(path: Path, options: argparse.Namespace) -> int:
    capture = Capture(path)
    printer = _printer(path, options)
    spoiled = _Spoiled()

    fed = (row for item in capture for row in printer.feed(spoiled.look(item)))
    rows: Iterable[Row] = fed if options.tail is None else deque(fed, options.tail)
    # What only the end shows comes after the last lines and is none of them.
    end = printer.finish(still_open=is_live(capture.segments[-1]))
    for row in islice(chain(rows, end), options.limit):
        sys.stdout.write(printer.text(row))
    _tell_of_nothing(printer)
    return spoiled.exit_code()


def _follow(path: Path, options: argparse.Namespace) -> int:
    printer = _printer(path, options)
    spoiled = _Spoiled()

    async def go() -> None:
        # So many of what is there already, then all that comes.
        waiting: deque[Row] = deque(maxlen=options.tail)
        left = options.limit
        async for item in follow(path):
            if item is not None:
                waiting.extend(printer.feed(spoiled.look(item)))
                if options.tail is not None and not printer.caught_up:
                    continue
            if item is None and not printer.caught_up:
                printer.caught_up, waiting = True, deque(waiting)
            while waiting and left != 0:
                sys.stdout.write(printer.text(waiting.popleft()))
                left = None if left is None else left - 1
            if item is None:
                sys.stdout.flush()
            if left == 0:
                return
        for row in islice(printer.finish(still_open=False), left):
            sys.stdout.write(printer.text(row))

    asyncio.run(go())
    _tell_of_nothing(printer)
    return spoiled.exit_code()


def _tell_of_nothing(printer: "_Json | _Text") -> None:
    if not printer.has_selected:
        say("no message fits the filter")


class _Spoiled:
    """Remembers damage that passes by, and tells of it on stderr."""

    def __init__(self) -> None:
        self._count = 0

    def look(self, item: Record | Damage) -> Record | Damage:
        if isinstance(item, Damage) and item.cause != "torn":
            self._count += 1
            if self._count == 1:
                say(f"{sanitise(str(item))}; `mcpproxy verify` tells all, `mcpproxy repair` copies what is whole")
        return item

    def exit_code(self) -> int:
        return int(Exit.USAGE if self._count else Exit.FINE)


Row = Thing | str


class _Text:
    """Writes the conversation."""

    def __init__(self, path: Path, options: argparse.Namespace) -> None:
        style = (
            Style(colour=True)
            if options.color == "always"
            else Style()
            if options.color == "never"
            else Style.of(sys.stdout, os.environ)
        )
        self.caught_up = False
        self._picks = options.tail is not None or options.limit is not None
        self._conversation = Conversation(
            style, width_of_stdout(), times=options.time, file=path.name, live=options.follow, only=options.filter
        )
        self._assembler = FrameAssembler()
        self._headed = False

    @property
    def has_selected(self) -> bool:
        """Whether there was anything to print."""
        return self._conversation.has_selected

    def feed(self, item: Record | Damage) -> Iterator[Row]:
        found = self._assembler.feed(item)
        if found is None:
            return
        if self._picks:
            yield from self._conversation.fold(found)
        else:
            yield from self._conversation.feed(found)

    def text(self, row: Row) -> str:
        if isinstance(row, str):
            return row + "\n"
        lines = [] if self._headed else list(self._conversation.heading())
        self._headed = True
        return "".join(f"{line}\n" for line in [*lines, *self._conversation.lines(row)])

    def finish(self, *, still_open: bool) -> Iterator[Row]:
        """What only the end shows."""
        for frame in self._assembler.end():
            yield from self._conversation.fold(frame) if self._picks else self._conversation.feed(frame)
        conversation = self._conversation
        yield from (
            conversation.closing(still_open=still_open) if self._picks else conversation.finish(still_open=still_open)
        )


class _Json:
    """Writes the records, a line each; with a filter, those of frames in which it selects something."""

    def __init__(self, only: Filter | None = None) -> None:
        self.has_selected = only is None
        """Whether there was anything to print."""
        self._only = only
        self._fold = Fold()
        self._unsaid: dict[int, tuple[Record, Frame]] = {}
        """Frames of which nothing is known yet, as they may be lines of a message; analysis.assembly bounds them."""
        self.caught_up = False
        self._wall_ns: int | None = None
        self._assembler = FrameAssembler()

    def feed(self, item: Record | Damage) -> Iterator[Row]:
        if isinstance(item, Damage):
            if self._only is None:
                yield json_line(damage_of(item))
            return
        if item.rec == "header":
            self._wall_ns = wall_of(item)
        found = self._assembler.feed(item)
        if self._only is None:
            yield row_of(item, found, self._wall_ns)
        elif found is not None:
            if isinstance(found, Frame):
                self._unsaid[found.seq] = item, found
            yield from self._selected(self._fold.feed(found), self._only)

    def _selected(self, seen: tuple[Seen, ...], only: Filter) -> Iterator[str]:
        """The rows of frames whose messages have come: of those in which something is selected, once each."""
        frames = {frame.seq: frame for one in seen for frame in one.message.frames}
        chosen = {frame.seq for one in seen if only.matches(facts_of(one)) for frame in one.message.frames}
        for seq in sorted(frames):
            if seq not in self._unsaid:
                continue
            item, frame = self._unsaid.pop(seq)
            if seq in chosen or (frame.verdict.kind == "batch" and only.matches(facts_of_batch(frame))):
                self.has_selected = True
                yield row_of(item, frame, self._wall_ns)

    def text(self, row: Row) -> str:
        return for_stdout(str(row).removesuffix("\n")) + "\n"

    def finish(self, *, still_open: bool) -> Iterator[Row]:  # noqa: ARG002 - records say all that there is to say
        """What was held back, with a filter. A giant frame that never ended has been printed as its parts, without."""
        if self._only is not None:
            yield from self._selected(self._fold.rest(), self._only)
