"""The pages of the kinds of changes: for `compare --explain`, and the generated page of the documentation."""

import re
from pathlib import Path

from analysis.comparison.change import Change
from analysis.comparison.kind import Kind, Severity
from analysis.comparison.kinds.table import KINDS
from mcpproxy.report.change_page import page
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.change_kinds import (
    SEVERITY_MEANINGS,
    fail_on_words,
    kind_row,
    page_lines,
    page_of,
    table_lines,
    unknown_kind_error,
)
from mcpproxy.wording.spans import Style

ROOT = Path(__file__).parents[3]
BREAKING, *_ = (kind for kind in KINDS.values() if kind.severity is Severity.BREAKING)


def test_the_page_of_changes_is_up_to_date() -> None:
    assert (ROOT / "docs/changes.md").read_text("utf-8") == page(), "make changes-docs"


def test_every_kind_has_the_texts_of_a_page() -> None:
    for id_, kind in KINDS.items():
        assert id_ == kind.id
        assert re.fullmatch(r"[a-z-]+/[a-z-]+", id_), id_
        assert not kind.title.endswith("."), id_
        assert kind.title[:1] == kind.title[:1].lower(), id_
        assert kind.why.endswith("."), id_
        assert kind.why[:1] == kind.why[:1].upper(), id_
        assert kind.example.strip(), id_
        for text in (kind.title, kind.why, kind.example.replace("\n", "")):
            assert sanitise(text, None) == text, id_
        assert page_of(kind).startswith(f"{kind.title[:1].upper()}{kind.title[1:]}.\n\n**Why it matters.** ")


def test_a_page_says_which_words_a_change_of_its_kind_fails() -> None:
    for kind in KINDS.values():
        change = Change(kind, "tool", "it changed")
        assert kind_row(kind)["fail_on"] == fail_on_words(kind)
        for word in ("breaking", "may-break", "outcome", "finding", "value", "slower"):
            assert change.fails(frozenset({word})) is (word in fail_on_words(kind)), (kind.id, word)


def test_pages_and_the_table_fit_the_terminal() -> None:
    for width in (40, 80, 100):
        for lines in (table_lines(Style(), width), *(page_lines(kind, Style(), width) for kind in KINDS.values())):
            for line in lines:
                assert cells(line) <= width, line
                assert line == line.rstrip()
    table = "\n".join(table_lines(Style(), 100))
    assert all(kind.id in table for kind in KINDS.values())
    assert set(SEVERITY_MEANINGS) == set(Severity)


def test_a_page_reads_like_that_of_a_rule() -> None:
    kind = Kind("tool/removed", Severity.BREAKING, "a tool was removed", "Calls fail.", "search, fetch → fetch")
    assert list(page_lines(kind, Style(), 60)) == [
        "tool/removed",
        "",
        "A tool was removed.",
        "",
        "Why it matters",
        "  Calls fail.",
        "",
        "Example",
        "  search, fetch → fetch",
        "",
        "severity    breaking: something that worked before does not",
        "            work now: a value proves it, or what was used is",
        "            gone",
        "--fail-on   breaking, may-break",
    ]


def test_a_wrong_id_gets_the_nearest_one() -> None:
    assert unknown_kind_error(f"{BREAKING.id}x") == f"there is no kind of change {BREAKING.id}x; perhaps {BREAKING.id}"
    assert unknown_kind_error("newly-required") == (
        "there is no kind of change newly-required; perhaps arguments/newly-required or result/newly-required"
    )
    assert unknown_kind_error("\x1b[31m") == (
        "there is no kind of change \\x1b[31m; `mcpproxy compare --explain` lists all kinds"
    )
