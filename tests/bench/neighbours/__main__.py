"""What the checks of other tools find in the corpus of conversations, compared with what `check` finds.

    python -m tests.bench.neighbours [--site DIR]... [--schemas DIR] [--inspector COMMAND] [--every N] [--show] [ROW]...

Peers are packages of PyPI and npm, installed by whoever runs this and named by options: `--site` is a directory of
Python packages (`pip install --target DIR mcphawk`), `--schemas` one of the official schemas, each named after its
revision, `--inspector` the command line of the Inspector up to `--cli`. A peer that is not installed is left out.

A validator is shown the messages as mcpproxy's reader cuts them. A peer that is a client talks to a server that answers
from the conversation. A report is anything that a peer says is wrong, regardless of what the peer calls it, so a peer
is credited with more than a reader of its report would get. A report is at its place if the message it names is one
that should be named.
"""

import argparse
import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.analysis.traces import corpus, expected
from tests.bench.neighbours.clients import client_row, inspector_row
from tests.bench.neighbours.hawk import hawk_rows
from tests.bench.neighbours.shown import Row, Unfit, messages_of, ours
from tests.bench.neighbours.validators import schema_row, types_row


class Count(NamedTuple):
    """How much a peer found."""

    wrong: int = 0
    """Conversations that it was shown and in which an error or a warning is due."""
    found: int = 0
    """Conversations among `wrong` in which it reports anything."""
    placed: int = 0
    """Conversations among `wrong` in which a report names a message that has such an error or warning."""
    clean: int = 0
    alarms: int = 0
    """Conversations in which nothing is due, but it reports something."""


def count(row: Row, *, show: bool) -> Count:
    """Show a peer the corpus."""
    sum_ = Count()
    for number, (group, case) in enumerate(corpus()):
        if number % row.every:
            continue
        due = {index for _, index in expected(case)}
        try:
            found = row.find(case, messages_of(case))
        except Unfit:
            continue
        if show and bool(found) != bool(due):
            what = " | ".join(f"{index}: {' '.join(text.split())[:100]}" for index, text in found.items())
            print(f"{row.name}\t{group}\t{'missed' if due else 'alarm'}\t{case.name}\t{what}", file=sys.stderr)
        if due:
            placed = not due.isdisjoint(found)
            sum_ = sum_._replace(wrong=sum_.wrong + 1, found=sum_.found + bool(found), placed=sum_.placed + placed)
        else:
            sum_ = sum_._replace(clean=sum_.clean + 1, alarms=sum_.alarms + bool(found))
    return sum_


def rows(options: argparse.Namespace, place: Path) -> Iterator[Row]:
    """The rows of mcpproxy and of the installed peers."""
    yield Row("mcpproxy check", importlib.metadata.version("mcpproxy"), ours)
    wanted: list[Callable[[], list[Row]]] = [
        lambda: hawk_rows(place),
        lambda: [types_row(gated=False), types_row(gated=True)],
        lambda: [schema_row(options.schemas)] if options.schemas else [],
        lambda: [client_row()],
        lambda: [inspector_row(options.inspector, options.every, place)] if options.inspector else [],
    ]
    for make in wanted:
        try:
            yield from make()
        except (ImportError, OSError, subprocess.SubprocessError) as error:
            print(f"left out: {error}", file=sys.stderr)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.neighbours", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("only", nargs="*", metavar="ROW", help="rows whose name has this in it; default: all")
    parser.add_argument("--site", action="append", default=[], metavar="DIR", help="look for Python packages here, too")
    parser.add_argument("--schemas", type=Path, metavar="DIR", help="the official schemas, such as 2025-11-25.json")
    parser.add_argument("--inspector", metavar="COMMAND", help="how the Inspector is started, up to --cli")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="show the Inspector each Nth conversation")
    parser.add_argument("--show", action="store_true", help="tell on stderr each conversation that is missed or alarms")
    options = parser.parse_args(argv)
    sys.path += options.site
    print("| checks | version | shown | found | at its place | false alarms |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        for row in rows(options, Path(place)):
            if not options.only or any(word in row.name for word in options.only):
                it = count(row, show=options.show)
                shares = f"{_share(it.found, it.wrong)} | {_share(it.placed, it.wrong)} | {_share(it.alarms, it.clean)}"
                print(f"| {row.name} | {row.version} | {it.wrong + it.clean:,} | {shares} |", flush=True)
    return 0


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else "–"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
