"""The summary of what to fix first."""

import re
from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from analysis.rules.discovery import impact_of, rules
from analysis.rules.finding import Impact, Level
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding, Totals
from mcpproxy.report.findings import TextReporter
from mcpproxy.report.ranking import MAX_LISTED_RULES, RuleRanking
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells
from mcpproxy.wording.spans import Style
from tests.mcpproxy.report.findings import FOREIGN, anything, found, written

LOST, LEAK, HINT = "framing/stdout-not-json", "logging/secret", "cache/missing-hints"


def ranked(*captures: list[LocatedFinding], width: int = 80, colour: bool = False, **ended: object) -> list[str]:
    """Returns the lines for some captures."""
    ranking = RuleRanking()
    for founds in captures:
        ranking.begin()
        for one in founds:
            ranking.count_finding(one)
        ranking.finish(CheckOutcome(Path("some.mcpcap"), {}, {}, is_damaged=False)._replace(**ended))  # type: ignore[arg-type]
    return list(ranking.lines(Style(colour=colour), width))


def order(lines: list[str]) -> list[str]:
    return [re.findall(r"\S+/\S+", line)[0] for line in lines]


def test_the_section_stands_before_the_sums() -> None:
    text = written(TextReporter(Style()), [found(HINT, seq=9), found(LOST, seq=17), found(LOST, seq=18)])
    assert text.splitlines()[-4:] == [
        "First 1  no connection  framing/stdout-not-json             server  ×2  frame 17",
        "      2  no effect yet  cache/missing-hints                 server      frame 9",
        "",
        "3 errors in 0 frames of 0 sessions. Server: 3 errors. Client: none.",
    ]


def test_columns_are_aligned_in_a_pipe_too() -> None:
    for width in (100, UNLIMITED_WIDTH):
        lines = ranked(
            [found(HINT, seq=9), *[found(LOST, seq=17, capture=Path("a.mcpcap"))] * 12],
            [found(LEAK, seq=123_456, capture=Path("with-a-longer-name.mcpcap"))],
            width=width,
        )
        assert len(lines) == 3
        for column in ("  server", "  frame"):
            assert len({line.index(column) for line in lines}) == 1, (width, column)
        assert len({re.search(r"frame [\d]+ +", line).end() for line in lines}) == 1, width  # type: ignore[union-attr]


def test_there_is_none_where_there_is_nothing_to_choose_from() -> None:
    assert ranked([]) == []
    assert ranked([found(LOST)] * 7) == []
    assert len(ranked([found(LOST), found(LEAK)])) == 2


def test_what_is_broken_comes_before_the_level_and_that_before_the_count() -> None:
    founds = [
        *[found(HINT)] * 50,
        found(LEAK, Level.WARNING),
        found("framing/lsp-header", Level.WARNING),
        found(LOST),
        *[found("shutdown/server-died")] * 2,
    ]
    assert order(ranked(founds)) == ["shutdown/server-died", LOST, "framing/lsp-header", LEAK, HINT]


def test_a_note_never_comes_before_an_error() -> None:
    assert impact_of("ext-events/webhook-secret", Level.NOTE) > impact_of(HINT, Level.ERROR)
    note = found("ext-events/webhook-secret", Level.NOTE)
    assert order(ranked([note, found(HINT)])) == [HINT, "ext-events/webhook-secret"]


def test_only_the_first_are_told() -> None:
    assert len(ranked([found(rule, seq=number) for number, rule in enumerate(rules())])) == MAX_LISTED_RULES == 5


def test_what_is_told_the_first_time_only_counts_as_often_as_it_was() -> None:
    counts = {(HINT, 1, "server"): 1204, (HINT, 2, "server"): 5, (LEAK, 1, "server"): 9}
    leak = found(LEAK, blames="client")
    told = ranked([found(HINT), leak], counts=counts)
    # No finding of the other session and side was reported, because a filter or a baseline has left it out.
    assert "×1,204" in told[1]
    assert "×" not in told[0]
    assert "×2,408" in ranked([found(HINT), leak], [found(HINT)], counts=counts)[1]


def test_the_side_is_named_where_it_is_one() -> None:
    told = ranked([found(LOST), found(LOST, blames="client"), found(LEAK, blames="client")])
    assert "  several  ×2  " in told[0]
    assert "  client  " in told[1]


def test_what_is_accepted_and_notes_that_are_not_told_have_no_place() -> None:
    founds = [found(LOST), found(HINT), found(LEAK, is_accepted=True), found("http/redirected", Level.NOTE)]
    text = written(TextReporter(Style()), founds)
    assert order([line for line in text.splitlines() if re.match(r"(First|     ) \d", line)]) == [LOST, HINT]
    assert "wasted effort  http/redirected" in written(TextReporter(Style(), notes=True), founds)


def test_the_capture_is_named_where_there_are_several() -> None:
    first, second = Path("one/20261121T192824Z-fa9e.mcpcap"), Path("b.mcpcap")
    told = ranked([found(LOST, capture=first)], [found(LEAK, capture=second)])
    assert told[0].endswith("  frame 1  …824Z-fa9e")
    assert told[1].endswith("  frame 1  b")
    assert "Z-fa9e" not in "".join(ranked([found(LOST, capture=first), found(LEAK, capture=first)]))


def test_a_name_is_shortened_before_a_frame_is_left_out() -> None:
    path = Path("one/20261121T192824Z-fa9e.mcpcap")
    long = found("lifecycle/request-before-initialize", seq=123_456, capture=path)
    told = ranked([found(LOST, capture=path)], [long])
    assert told[1].endswith("lifecycle/request-before-initialize  frame 123456  …fa9e")
    assert told[0].endswith("  server  frame 1       …fa9e")


def test_a_capture_of_which_nothing_is_told_is_none_the_less_one_of_several() -> None:
    assert ranked([], [found(LOST, capture=Path("b.mcpcap")), found(LEAK)])[0].endswith("  b")


def test_with_too_little_room_the_side_goes_first_and_a_rule_never() -> None:
    long = "lifecycle/continued-after-failed-initialize"
    founds = [found(long, seq=12345)] * 3 + [found(LOST)]
    assert ranked(founds)[1] == f"      2  message lost   {long}  frame 12345"
    assert ranked(founds, width=79)[1] == f"      2  message lost   {long}"
    assert f"{long}  ×3  frame 12345" in ranked(founds, width=84)[1]
    assert f"{long}  server  ×3  frame 12345" in ranked(founds, width=92)[1]


def test_every_rule_has_its_place_and_frame_in_eighty_columns() -> None:
    for rule, level in product(rules(), Level):
        # These two rules have the longest texts.
        other = found(LOST if rule != LOST else "shutdown/server-died")
        for line in ranked([found(rule, level, seq=99_999), other]):
            assert cells(line) <= 80
            assert "  frame " in line
        assert impact_of(rule, level) in Impact


@given(st.lists(st.lists(anything, max_size=4), max_size=4), st.integers(40, 130))
def test_lines_are_safe_and_fit_whatever_was_found(captures: list[list[LocatedFinding]], width: int) -> None:
    for line in ranked(*captures, width=width):
        assert sanitise(line, None) == line
        assert cells(line) <= width


def test_colour_is_never_the_only_carrier() -> None:
    founds = [found(LOST), found(LEAK, Level.WARNING)]
    painted = ranked(founds, colour=True)
    assert "\x1b[1;31mno connection" in painted[0]
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in painted]
    assert [line.rstrip() for line in plain] == ranked(founds)


def test_a_hostile_name_of_a_capture_is_shown_harmlessly() -> None:
    name = Path(FOREIGN.replace("\x00", "").replace("\ud800", "\udcff"))
    told = ranked([found(LOST, capture=name)], [found(LEAK, capture=Path("名" * 40 + "\u0301.mcpcap"))])
    assert all(sanitise(line, None) == line and cells(line) <= 80 for line in told)


def test_live_it_stands_at_the_end_as_well() -> None:
    report, totals = TextReporter(Style(), live=True), Totals()
    pieces = [*report.begin(Path("a.mcpcap")), *report.report(found(LOST)), *report.report(found(LEAK))]
    assert "First" not in "".join(pieces)
    pieces = [*report.finish(CheckOutcome(Path("a.mcpcap"), {}, {}, is_damaged=False)), *report.close(totals)]
    assert "".join(pieces).startswith("First 1  no connection  framing/stdout-not-json ")
