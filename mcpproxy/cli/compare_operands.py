"""Finds and reads the sides that the operands of `compare` name: captures, folders, servers, stdin, an expectation."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from analysis.comparison import expectation
from analysis.comparison.observe import observe
from analysis.comparison.observe_sides import SideSource, observe_sides
from analysis.comparison.options import ObserveOptions
from analysis.comparison.side import Side
from captures.errors import CaptureError
from mcpproxy.check_run.result import STDIN
from mcpproxy.cli.compare_ignored import ignored_places
from mcpproxy.cli.diagnostics import Progress, say
from mcpproxy.cli.selection import NamedCaptures, named_captures, select_captures, without_duplicates
from mcpproxy.sanitise import sanitise

_USAGE = "mcpproxy compare OLD NEW, or mcpproxy compare SERVER"


@contextmanager
def compared_sides(operands: Sequence[str]) -> Iterator[tuple[SideSource | Side, SideSource]]:
    """Yield the old and the new side; a copy of stdin is deleted at the end.

    Raises:
        CaptureError: the operands do not name two sides.
    """
    if len(operands) == 1:
        yield _newest_two(operands[0])
        return
    if len(operands) != 2:
        advice = "put several captures of a side into a folder" if operands else f"type {_USAGE}"
        raise CaptureError(f"compare needs an old and a new side, not {len(operands):,} operands; {advice}")
    if operands[0] == operands[1] == "-":
        raise CaptureError("stdin can only be one of the sides; name a file for the other")
    with ExitStack() as stack:
        old = _expectation(operands[0]) or stack.enter_context(one_side(operands[:1]))
        if _expectation(operands[1]) is not None:
            raise CaptureError(
                f"{sanitise(operands[1])} was written by --save, so it can only be the old side: "
                "mcpproxy compare EXPECTATION CAPTURE"
            )
        yield old, stack.enter_context(one_side(operands[1:]))


@contextmanager
def one_side(operands: Sequence[str]) -> Iterator[SideSource]:
    """Yield all captures that the operands name, as one side; a copy of stdin is deleted at the end.

    Raises:
        CaptureError: an operand names no capture, or there is none.
    """
    if not operands:
        raise CaptureError("--save needs the captures to save: mcpproxy compare --save F CAPTURE")
    with select_captures(operands) as selection:
        paths = without_duplicates(selection.paths)
        name = ", ".join(str(STDIN) if operand == "-" else operand for operand in operands)
        yield SideSource(name, [(str(selection.name_of(path)), path) for path in reversed(paths)])


def _newest_two(operand: str) -> tuple[SideSource, SideSource]:
    """Returns the last capture but one of a server, and its newest one.

    Raises:
        CaptureError: the operand is not a server with two captures.
    """
    name = sanitise(operand)
    if operand == "-" or _expectation(operand) is not None:
        raise CaptureError(f"{name} is only one side; type {_USAGE}")
    meaning: NamedCaptures = named_captures(operand)
    if meaning.kind != "server":
        kind = "a folder" if meaning.kind == "folder" else "a capture"
        raise CaptureError(f"{name} is {kind}, which is only one side; type {_USAGE}")
    if len(meaning.paths) == 1:
        raise CaptureError(
            f"{meaning.paths[0]} is the only capture of {name}, so there is nothing to compare it with; record "
            "another one, or name the other side"
        )
    new, old = meaning.paths[:2]
    say(f"comparing {new}, the newest capture of {name}, with {old}, the one before")
    return (SideSource(str(old), [(str(old), old)]), SideSource(str(new), [(str(new), new)]))


def _expectation(operand: str) -> Side | None:
    """Returns the side in a file that `--save` wrote, or None if the operand is not such a file.

    Raises:
        CaptureError: the file is damaged, or a later version wrote it.
    """
    path = Path(operand)
    return expectation.load(operand, path) if operand != "-" and path.is_file() else None


def observe_options_of(options: argparse.Namespace) -> ObserveOptions:
    """Returns how to read the sides.

    Raises:
        CaptureError: a place to ignore is not valid, or a file with places cannot be read.
    """
    places = ignored_places(options.ignore, options.ignore_from)
    return ObserveOptions(options.filter or "", places, not options.no_findings)


def options_for_both(old: SideSource | Side, options: ObserveOptions) -> ObserveOptions:
    """Returns how to read the new side, so that it can be compared with an expectation.

    Raises:
        CaptureError: the expectation was saved with another filter.
    """
    if isinstance(old, SideSource):
        return options
    summary = old.summary
    if options.only and options.only != summary.only:
        how = f"with --filter {shlex.quote(summary.only)}" if summary.only else "without --filter"
        raise CaptureError(f"{sanitise(summary.name)} was saved {how}, and both sides need the same filter")
    return ObserveOptions(
        summary.only,
        tuple(dict.fromkeys((*summary.ignored_pointers, *options.ignored_pointers))),
        options.with_findings and "findings" in old.records,
    )


def read_sides(
    old: SideSource | Side, new: SideSource, options: ObserveOptions, progress: Progress
) -> tuple[Side, Side]:
    """Return both sides with what was observed in their captures; an expectation has been read already.

    Raises:
        CaptureError: a capture cannot be read.
        FilterError: the filter is invalid.
    """
    if isinstance(old, Side):
        return old, read_side(new, options, progress)
    progress.show(f"reading {old.name} and {new.name}")
    try:
        return observe_sides(old, new, options)
    finally:
        progress.clear()


def read_side(source: SideSource, options: ObserveOptions, progress: Progress) -> Side:
    """Return a side with what was observed in its captures.

    Raises:
        CaptureError: a capture cannot be read.
        FilterError: the filter is invalid.
    """
    progress.show(f"reading {source.name}")
    try:
        return observe(*source, options)
    finally:
        progress.clear()
