"""Conversations as data, for the tests of rules: the corpus, and the checker's findings in its cases.

A case is a line of `tests/corpus/traces/<group>.ndjson`, in the form that docs/commands/import.md shows. Members for
the tests: `expect`, the errors and warnings that are due, each `{"rule": …, "frame": index}`; `notes`, notes that must
be among the findings; `silent`, rules that must report nothing. A case passes if its errors and warnings are exactly
those of `expect`.
"""

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from orjson import loads

from analysis.rules.base import Rule
from analysis.rules.finding import Finding, Level
from captures.frame import Frame
from captures.frames import FrameAssembler
from captures.reader import Capture, assembled_items
from captures.record import decode
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.judged import Judged

CORPUS = Path(__file__).parents[1] / "corpus" / "traces"
SHARED = Path(__file__).parents[3] / "shared" / "protocol" / "traces.ndjson"

TOLD_BY_RECORDS = {"shutdown/killed-first", "http/unreachable", "http/redirect-scheme"}
"""Rules about events that no frame of a trace can show, such as a signal or a failed connection; tested elsewhere."""


class Found(NamedTuple):
    """A finding, and the frame of the trace at which it is reported."""

    rule: str
    frame: int
    level: Level
    finding: Finding


def read(path: Path) -> list[Case]:
    """The cases of a file; a line that is not a case is a mistake in the corpus."""
    found = []
    with path.open("rb") as lines:
        for case in cases(lines):
            assert isinstance(case, Case), case
            found.append(case)
    return found


def check(case: Case, picked: Iterable[type[Rule]] | None = None) -> list[Found]:
    """The findings in a case, with all rules or some."""
    return checked(case, picked)[1]


def checked_once(case: Case) -> list[Found]:
    """The findings of all rules in a case of the corpus; cached, as many tests compare them with something else."""
    if id(case) not in _KEPT:
        _KEPT[id(case)] = case, check(case)
    return _KEPT[id(case)][1]


_KEPT: Final[dict[int, tuple[Case, list[Found]]]] = {}
"""The value includes the case, so that no other case can get its `id()`."""


def checked(case: Case, picked: Iterable[type[Rule]] | None = None) -> tuple[Judged, list[Found]]:
    """The checker at the end of a case, and its findings."""
    checker, assembler = Judged(picked), FrameAssembler()
    frames: dict[int, int] = {}
    findings: list[Finding] = []
    for index, line in case.records():
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        if index is not None:
            frames[record.seq] = index
        item = assembler.feed(record)
        if item is not None:
            findings += checker.feed(item)
    for frame in assembler.finish():
        findings += checker.feed(frame)
    findings += checker.finish("closed")
    assert checker.faults == {}
    return checker, [Found(one.rule, frames[one.frame], one.level, one) for one in findings]


def findings_of(capture: Path) -> list[Finding]:
    """The findings in a capture."""
    checker = Judged()
    findings = [finding for item in assembled_items(Capture(capture)) for finding in checker.feed(item)]
    findings += checker.finish("closed")
    assert checker.faults == {}
    return findings


def alarms(capture: Path) -> list[tuple[str, str, str]]:
    """The errors and warnings in a capture, each with the message that it cites."""
    raws = {
        item.seq: item.raw.decode("utf-8", "replace")
        for item in assembled_items(Capture(capture))
        if isinstance(item, Frame)
    }
    return [
        (one.rule, one.message, raws.get(one.frame, "")[:300]) for one in findings_of(capture) if one.level > Level.NOTE
    ]


def expected(case: Case) -> Counter[tuple[str, int]]:
    """The errors and warnings that are due."""
    return Counter((one["rule"], one["frame"]) for one in case.members.get("expect", []))


def due_notes(case: Case) -> set[tuple[str, int]]:
    """The notes that must be among the findings."""
    return {(one["rule"], one["frame"]) for one in case.members.get("notes", [])}


def silent(case: Case) -> set[str]:
    """The rules that must find nothing."""
    return set(case.members.get("silent", []))


def grave(found: list[Found]) -> Counter[tuple[str, int]]:
    """The errors and warnings among findings."""
    return Counter((one.rule, one.frame) for one in found if one.level > Level.NOTE)


def stdio(name: str, *frames: Any, start_observed: bool = True, **more: Any) -> Case:
    """A stdio case from tuples of direction and message; `"eof"` in place of a message closes that side."""
    told: list[dict[str, Any]] = []
    for direction, message in frames:
        if message == "eof":
            told.append({"dir": direction, "raw": "", "k": "eof"})
        else:
            raw = message if isinstance(message, str) else json.dumps(message, separators=(",", ":"))
            told.append({"dir": direction, "raw": raw})
    case = {"name": name, "transport": "stdio", "start_observed": start_observed, "frames": told, **more}
    (made,) = cases([json.dumps(case).encode()])
    assert isinstance(made, Case), made
    return made


def names() -> list[str]:
    """The names of the files of the corpus: one test for each, as thousands of tests would cost more than their cases.

    Tests are collected by name, because each process of a run collects all tests, and need not read all cases for that.
    """
    return [path.stem for path in sorted(CORPUS.glob("*.ndjson")) if path.stem != "import"]


@cache
def by_name() -> dict[str, list[Case]]:
    """The cases of the corpus, by the name of their file."""
    return {name: read(CORPUS / f"{name}.ndjson") for name in names()}


def corpus() -> tuple[tuple[str, Case], ...]:
    """Every case of the corpus, with the name of its file."""
    return tuple((name, case) for name, cases in by_name().items() for case in cases)
