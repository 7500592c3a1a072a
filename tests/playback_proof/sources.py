"""Where the captures of the proof come from: the corpus, edited conversations, and folders that the user names."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from captures.listing import find_captures
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.comparison.planted import TRANSPORTS, edited, rows, write
from tests.harness import ROOT


class Source(NamedTuple):
    """A capture to play."""

    group: str
    """The file or folder that it comes from."""
    name: str
    path: Path


def traces(folder: Path, every: int = 1) -> Iterator[Source]:
    """Write one in `every` conversations of tests/corpus/traces as captures; yields them."""
    for trace in sorted((ROOT / "tests/corpus/traces").glob("*.ndjson")):
        with trace.open("rb") as lines:
            for number, case in enumerate(cases(lines)):
                if isinstance(case, Case) and number % every == 0:
                    path = folder / f"{trace.stem}-{number}.mcpcap"
                    path.write_bytes(b"".join(line for _, line in case.records()))
                    yield Source(f"traces/{case.transport}", f"{trace.stem}:{case.name}", path)


def comparisons(folder: Path, every: int = 1) -> Iterator[Source]:
    """Write both conversations of tests/corpus/comparisons, and each as edited by a row there; yields them."""
    conversations = {transport: rows(transport) for transport in TRANSPORTS}
    for transport, conversation in conversations.items():
        yield Source("comparisons", transport, write(folder / f"{transport}.mcpcap", conversation, transport))
    for row in rows("changes")[::every]:
        base, name = row["base"], row["name"]
        lines = edited(conversations[base], row["edits"])
        yield Source("comparisons", name, write(folder / f"{name}.mcpcap", lines, base))


def captures_of_corpus() -> Iterator[Source]:
    """Yields the captures of tests/corpus/captures; several have damage, or nothing to play."""
    for path in find_captures(ROOT / "tests/corpus/captures"):
        yield Source("captures", path.name, path)


def captures_below(folder: Path) -> Iterator[Source]:
    """Yields the captures below a folder."""
    for path in find_captures(folder):
        yield Source(folder.name, str(path.relative_to(folder)), path)
