"""The matrix of what `share` leaves: secrets of every kind, at every place, in every spelling.

`python -m tests.mcpproxy.sharing.matrix docs/commands/share.md` rewrites the part of the page that is made from it;
without a page, it prints the whole matrix.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from captures.record import members
from mcpproxy.sharing.share import ShareOptions, redacted_copy
from tests.mcpproxy.sharing.leftovers import left, readings
from tests.mcpproxy.sharing.other_places import NAMES, OTHER_PLACES, WORDS, as_numbers, under_names
from tests.mcpproxy.sharing.places import ONE_LINE, PLACES, Place, Tape
from tests.mcpproxy.sharing.secret_forms import FORMS, HARD, PERSONAL, Planted, fresh, planted
from tests.mcpproxy.sharing.spellings import SPELLINGS, UNDECODED, WRAPPED
from tests.mcpproxy.sharing.written import HEADER

SEED: Final = 47
SHARE: Final = 3
"""The suite and the page take each third combination of a kind, a place and a spelling; `make soak` takes all."""
BEGIN: Final = "<!-- What is left: begin (`make share-docs` writes it) -->"
END: Final = "<!-- What is left: end -->"
NEVER: Final = "·"

KNOWN: Final = {
    "password, known from a member": ("{l7}-{l6}{d2}", '{"password": "%s"}'),
    "password, known from a URL": ("{w11}{d1}", "postgres://svc:%s@db.example.com/x"),
    "token, known from a header": ("{w31}{d1}", "Authorization: Bearer %s"),
    "host, known from a URL": ("{l7}.{l9}.io", "https://%s"),
    "user, known from a directory": ("u{l8}", "/home/%s"),
}
"""What nothing but another place of the capture reveals: its form, and what is said there."""

STAYS_IN_WORDS: Final = ("card", "host in", "internal host", "IPv", "UNC")
"""How the kinds begin that stay in ids and other words of the protocol."""

TOO_DEEP: Final = {("blob", "base64 three times")}
"""Four encodings, one inside the other: nobody promises to decode these."""


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


def in_each_spelling(folder: Path, share: int = SHARE) -> Matrix:
    """What is left of every kind at every place in every spelling.

    Args:
        folder: where captures and their copies are written.
        share: 3 plants each third combination, so that each kind still is at each place and in each spelling.
    """
    random = Random(SEED)
    tape = _with_header()
    known = [planted(random, kind, form) for kind, (form, _) in KNOWN.items()]
    told = [reveal % secret.text for secret, (_, reveal) in zip(known, KNOWN.values(), strict=True)]
    # Often: of the many users that are planted, those that occur most often are known.
    PLACES["end of a sentence"](tape, told * 5)
    groups = _everywhere(tape, lambda: [*fresh(random), *known], share)
    # Otherwise all of stderr and of lines that are not JSON would be replaced.
    options = ShareOptions(keeps_unparsed=True, compares=False)
    matrix = _shared(tape, groups, folder / "common", options)
    tape = _with_header()
    groups = _everywhere(tape, lambda: fresh(random, PERSONAL), share)
    personal = _shared(tape, groups, folder / "personal", replace(options, replaces_personal_numbers=True))
    return Matrix(matrix.planted + personal.planted, matrix.left + personal.left)


def _with_header() -> Tape:
    tape = Tape()
    tape.record("header", members(**HEADER))
    return tape


def _everywhere(tape: Tape, secrets: Callable[[], list[Planted]], share: int) -> list[_Group]:
    """Plant new secrets at every place in every spelling."""
    groups = []
    for row, (place, plant) in enumerate(PLACES.items()):
        for column, (spelling, spell) in enumerate(SPELLINGS.items()):
            if (place in ONE_LINE and spelling == WRAPPED) or (place, spelling) in TOO_DEEP:
                continue
            chosen = [secret for number, secret in enumerate(secrets()) if (row + column + number) % share == 0]
            groups.append(_plant(tape, place, plant, chosen, spelling, spell))
    return groups


def hard(folder: Path) -> Matrix:
    """What is left of kinds that `share` does not recognise, and of all others in spellings that it does not decode.

    Args:
        folder: where the capture and its copy are written.
    """
    random = Random(SEED + 2)
    tape = _with_header()
    groups = [_plant(tape, place, plant, fresh(random, HARD)) for place, plant in PLACES.items()]
    place = "text of a resource"
    for spelling, spell in UNDECODED.items():
        groups.append(_plant(tape, place, PLACES[place], fresh(random), spelling, spell))
    return _shared(tape, groups, folder / "hard", ShareOptions(keeps_unparsed=True, compares=False))


def in_other_places(folder: Path) -> Matrix:
    """What is left of every kind at all other places, where it is written as it is.

    Args:
        folder: where the capture and its copy are written.
    """
    tape, groups = with_other_places()
    return _shared(tape, groups, folder / "others", ShareOptions(compares=False))


def with_other_places() -> tuple[Tape, list[_Group]]:
    """A capture with a secret of each kind at each other place, and what was planted."""
    random = Random(SEED + 1)
    tape = Tape()
    groups = [_plant(tape, place, plant, fresh(random)) for place, plant in OTHER_PLACES.items()]
    for place, plant in WORDS.items():
        secrets = [secret for secret in fresh(random) if not secret.kind.startswith(STAYS_IN_WORDS)]
        groups.append(_plant(tape, place, plant, secrets))
    words = [planted(random, f"word as `{name}`", "{l12}") for name in NAMES]
    numbers = [planted(random, "PIN", "{n13}"), planted(random, "card", "{card}")]
    groups.append(_plant(tape, "value of a member", under_names, words))
    groups.append(_plant(tape, "number", as_numbers, numbers))
    tape.record("close", members(ending="client", totals={}))
    return tape, groups


def _plant(
    tape: Tape,
    place: str,
    plant: Place,
    secrets: list[Planted],
    spelling: str = "plain",
    spell: Callable[[str], str] = str,
) -> _Group:
    if place in ONE_LINE:
        secrets = [Planted(*(text.replace("\n", " ") for text in secret)) for secret in secrets]
    first = len(tape.lines)
    plant(tape, [spell(secret.text) for secret in secrets])
    return _Group(place, spelling, secrets, first, len(tape.lines))


def _shared(tape: Tape, groups: list[_Group], folder: Path, options: ShareOptions) -> Matrix:
    """Share a capture, and look for its secrets in the copy."""
    folder.mkdir()
    original, copy = folder / "original.mcpcap", folder / "copy.mcpcap"
    original.write_bytes(b"".join(tape.lines))
    redacted_copy(original, copy, options)
    lines = copy.read_text("utf-8").splitlines()
    assert len(lines) == len(tape.lines)
    matrix = Matrix()
    for group in groups:
        texts: set[str] = set().union(*map(readings, _texts(lines[group.first : group.end])))
        text = "\n\n".join(texts)
        for secret in group.secrets:
            cell = Cell(secret.kind, group.place, group.spelling)
            matrix.planted.append(cell)
            spell = UNDECODED.get(group.spelling)
            if left(secret.secret, text) or (spell is not None and spell(secret.text) in text):
                matrix.left.append(cell)
    return matrix


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
    if not matrix.left:
        return []
    columns = _weakest(getattr(cell, column) for cell in matrix.left)
    rows: dict[str, list[str]] = {}
    for kind in _weakest(cell.kind for cell in matrix.left):
        cells = (f"{left[kind, name]}/{planted[kind, name]}" if left[kind, name] else NEVER for name in columns)
        rows.setdefault(" | ".join(cells), []).append(kind)
    return [
        "",
        f"| kind | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {'; '.join(kinds)} | {cells} |" for cells, kinds in rows.items()),
    ]


def _weakest(names: Iterable[str]) -> list[str]:
    return [name for name, _ in sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))]


def part(folder: Path) -> str:
    """The generated part of the page.

    Args:
        folder: where captures are written: `common/original.mcpcap`, `personal/…`, `others/…`, and their copies.
    """
    common, others, weak = in_each_spelling(folder), in_other_places(folder), hard(folder)
    kinds = (*FORMS, *KNOWN, *PERSONAL)
    other_places = dict.fromkeys(cell.place for cell in others.planted)
    counts = f"{len(kinds)} kinds, at {len(PLACES)} places in {len(SPELLINGS)} spellings (a third of the combinations)"
    second = (
        f"Of {len(others.planted):,} secrets at {len(other_places)} other places, each as it is and without the option"
    )
    return "\n".join(
        [
            "What `share` does not recognise, at each place, and what it does not decode, of each kind:",
            *totals(weak),
            "",
            f"Of {len(common.planted):,} secrets of {counts}, {len(common.left):,} are left.",
            *table(common, "spelling"),
            *table(common, "place"),
            "",
            f"{second}, {len(others.left):,} are left.",
            *table(others, "place"),
            "",
            f"Kinds: {_listed(kinds)}.",
            "",
            f"Places: {_listed(PLACES)}.",
            "",
            f"Other places: {_listed(other_places)}.",
            "",
            f"Spellings: {_listed(SPELLINGS)}.",
        ]
    )


def totals(matrix: Matrix) -> list[str]:
    """The lines of a table of what is left of hard kinds, and in each spelling that is not decoded."""

    def row(cell: Cell) -> str:
        return cell.kind if cell.spelling == "plain" else cell.spelling

    planted, left = (Counter(map(row, cells)) for cells in (matrix.planted, matrix.left))
    rows = sorted(planted, key=lambda name: (-left[name] / planted[name], name))
    return [
        "",
        "| kind or spelling | left |",
        "|---|---|",
        *(f"| {name} | {left[name]}/{planted[name]} |" for name in rows),
    ]


def _listed(names: Iterable[str]) -> str:
    return "; ".join(names)


def rewritten(page: str, part: str) -> str:
    """A page with its generated part made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = part(Path(folder))
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(rewritten(page.read_text("utf-8"), made), "utf-8")
    if not sys.argv[1:]:
        print(made)
