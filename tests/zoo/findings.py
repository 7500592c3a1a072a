"""What `check` finds in the traffic of the zoo, compared with the reviewed list: findings.toml.

A row of the list names a rule, the animals in whose traffic it reports (`*`: any), whether it is right, and why.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.harness import Place
from tests.zoo.rows import HERE

CHECK_S = 120.0


@dataclass(frozen=True)
class Judgement:
    """A reviewer's judgement of the findings of one rule in one animal's traffic."""

    right: bool
    why: str


@dataclass(frozen=True)
class Finding:
    """One finding of `check`."""

    rule: str
    level: str
    blames: str
    method: str | None
    message: str


Reviewed = dict[tuple[str, str], Judgement]
"""Animal and rule → judgement."""


def reviewed(text: str | None = None) -> Reviewed:
    """The reviewed list, read from findings.toml or `text`.

    Raises:
        ValueError: a rule is judged twice for an animal.
    """
    known: Reviewed = {}
    for row in tomllib.loads((HERE / "findings.toml").read_text() if text is None else text).get("finding", []):
        for animal in row["animals"]:
            if (animal, row["rule"]) in known:
                raise ValueError(f"{row['rule']} of {animal} is judged twice")
            known[animal, row["rule"]] = Judgement(row["right"], row["why"])
    return known


def checked(place: Place, *captures: Path) -> list[Finding]:
    """What `check` finds in captures, notes included."""
    done = place.run("check", "--json", "--notes", "--fail-on", "never", *map(str, captures), timeout=CHECK_S)
    assert done.returncode == 0, done.stderr.decode()
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [Finding(*(row.get(name) for name in Finding.__dataclass_fields__)) for row in rows]


def unreviewed(animal: str, findings: Iterable[Finding], known: Reviewed) -> list[str]:
    """The rules with findings that are not judged for this animal."""
    return sorted(
        {finding.rule for finding in findings if not {(animal, finding.rule), ("*", finding.rule)} & known.keys()}
    )


def gone(animal: str, findings: Iterable[Finding], known: Reviewed, *, right: bool = True) -> list[str]:
    """The rules judged right (or wrong) for this animal that no longer report anything."""
    said = {finding.rule for finding in findings}
    return sorted(
        rule for (name, rule), judged in known.items() if name == animal and judged.right is right and rule not in said
    )
