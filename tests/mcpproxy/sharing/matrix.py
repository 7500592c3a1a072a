"""The matrix of what `share` leaves: secrets of every kind, at every place, in every spelling.

`python -m tests.mcpproxy.sharing.matrix docs/commands/share.md` rewrites the part of the page that is made from it;
without a page, it prints the whole matrix.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from captures.record import members
from mcpproxy.sharing.share import ShareOptions, redacted_copy
from tests.mcpproxy.sharing.leftovers import left, readings
from tests.mcpproxy.sharing.places import ONE_LINE, PLACES, Tape
from tests.mcpproxy.sharing.secret_forms import FORMS, Planted, fresh, planted
from tests.mcpproxy.sharing.spellings import SPELLINGS, WRAPPED
from tests.mcpproxy.sharing.written import HEADER

SEED: Final = 47
BEGIN: Final = "<!-- What is left: begin (`make share-docs` writes it) -->"
END: Final = "<!-- What is left: end -->"
NEVER: Final = "·"

KNOWN: Final = {
    "password, known from a member": ("{l7}-{l6}{d2}", '{"password": "%s"}'),
    "password, known from a URL": ("{w11}{d1}", "postgres://svc:%s@db.example.com/x"),
    "token, known from a header": ("{w31}{d1}", "Authorization: Bearer %s"),
    "host, known from a URL": ("{l7}.{l9}.io", "https://%s/status"),
    "user, known from a directory": ("u{l8}", "/home/%s/projects"),
}
"""What nothing but another place of the capture reveals: its form, and what is said there."""


class Cell(NamedTuple):
    """Where a secret was planted."""

    kind: str
    place: str
    spelling: str


@dataclass
class Matrix:
    """How many secrets were planted, and which are left."""

    planted: list[Cell] = field(default_factory=list)
    left: list[Cell] = field(default_factory=list)


class _Group(NamedTuple):
    """Secrets of all kinds at one place in one spelling, and the lines that hold them."""

    place: str
    spelling: str
    secrets: list[Planted]
    first: int
    end: int


def measured(folder: Path) -> Matrix:
    """Plant everything, share it, and look at what is left.

    Args:
        folder: where the capture and its copy are written.
    """
    random = Random(SEED)
    tape = Tape()
    tape.record("header", members(**HEADER))
    known = [planted(random, kind, form) for kind, (form, _) in KNOWN.items()]
    told = [reveal % secret.text for secret, (_, reveal) in zip(known, KNOWN.values(), strict=True)]
    PLACES["JSON in a string"](tape, told)
    PLACES["text of a resource"](tape, told)
    groups = list(_planted_in(tape, random, known))
    original, copy = folder / "original.mcpcap", folder / "copy.mcpcap"
    original.write_bytes(b"".join(tape.lines))
    # Otherwise all of stderr and of lines that are not JSON would be replaced.
    redacted_copy(original, copy, ShareOptions(keep_unparsed=True, compares=False))
    lines = copy.read_text("utf-8").splitlines()
    assert len(lines) == len(tape.lines)
    matrix = Matrix()
    for group in groups:
        texts = set().union(*map(readings, _texts(lines[group.first : group.end])))
        text = "\n\n".join(texts)
        for secret in group.secrets:
            cell = Cell(secret.kind, group.place, group.spelling)
            matrix.planted.append(cell)
            if left(secret.secret, text):
                matrix.left.append(cell)
    return matrix


def _planted_in(tape: Tape, random: Random, known: list[Planted]) -> Iterator[_Group]:
    for place, plant in PLACES.items():
        for spelling, spell in SPELLINGS.items():
            if place in ONE_LINE and spelling == WRAPPED:
                continue
            secrets = [*fresh(random, FORMS), *known]
            if place in ONE_LINE:
                secrets = [Planted(*(text.replace("\n", " ") for text in secret)) for secret in secrets]
            first = len(tape.lines)
            plant(tape, [spell(secret.text) for secret in secrets])
            yield _Group(place, spelling, secrets, first, len(tape.lines))


def _texts(lines: Iterable[str]) -> Iterator[str]:
    """The texts of records, names included."""
    waiting = [json.loads(line) for line in lines]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            yield value


def table(matrix: Matrix, column: str) -> list[str]:
    """The lines of a table of kinds by `place` or `spelling`: how many are left of how many.

    The weakest come first; kinds with the same figures share a row; those of which nothing is left have none.
    """
    planted, left = (
        Counter((cell.kind, getattr(cell, column)) for cell in cells) for cells in (matrix.planted, matrix.left)
    )
    columns = _weakest(getattr(cell, column) for cell in matrix.left)
    rows: dict[str, list[str]] = {}
    for kind in _weakest(cell.kind for cell in matrix.left):
        cells = (f"{left[kind, name]}/{planted[kind, name]}" if left[kind, name] else NEVER for name in columns)
        rows.setdefault(" | ".join(cells), []).append(kind)
    return [
        f"| kind | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {'; '.join(kinds)} | {cells} |" for cells, kinds in rows.items()),
    ]


def _weakest(names: Iterable[str]) -> list[str]:
    return [name for name, _ in sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))]


def part(matrix: Matrix) -> str:
    """The generated part of the page."""
    kinds, places, spellings = (len({cell[index] for cell in matrix.planted}) for index in range(3))
    whole = (
        f"Of {len(matrix.planted):,} secrets of {kinds} kinds, planted at {places} places in {spellings} spellings, "
        f"{len(matrix.left):,} are left."
    )
    return "\n".join([whole, "", *table(matrix, "spelling"), "", *table(matrix, "place")])


def rewritten(page: str, matrix: Matrix) -> str:
    """A page with its generated part made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{part(matrix)}\n\n{END}{after}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = measured(Path(folder))
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(rewritten(page.read_text("utf-8"), made), "utf-8")
    if not sys.argv[1:]:
        print(part(made))
