"""Findings printed as text."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from analysis.rules.finding import Level
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding, RecordLocation, Totals
from mcpproxy.report.findings import MAX_SHOWN_PER_RULE, MAX_SHOWN_PER_SESSION, TextReporter, summary
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells
from mcpproxy.wording.spans import Style
from tests.captures.samples import frame, header, lines
from tests.mcpproxy.report.findings import anything, found, written


def text(founds: list[LocatedFinding], *, notes: bool = False, live: bool = False, **ended: object) -> str:
    return written(TextReporter(Style(), notes=notes, live=live), founds, **ended)


def stands(path: Path, raw: bytes) -> RecordLocation:
    """Write a record with these bytes to a file."""
    head, line = lines([("header", header()), ("frame", frame("s2c", raw))])
    path.write_bytes(head + line)
    return RecordLocation(path, len(head), len(line) - 1, 2)


def test_a_finding_says_what_whose_where_and_shows_the_place(tmp_path: Path) -> None:
    one = found("id/type-changed", seq=17, message='request 7 is answered as "7"')
    one = one._replace(
        finding=one.finding._replace(pointer="/id"),
        place=stands(tmp_path / "a.mcpcap", b'{"jsonrpc":"2.0","id":"7","result":{}}'),
    )
    assert text([one]).splitlines() == [
        "some.mcpcap",
        "",
        "  error    id/type-changed                              server  frame 17  +0.001",
        '    request 7 is answered as "7"',
        '      {"jsonrpc":"2.0","id":"7","result":{}}',
        "                            ^^^",
        "    2024-11-05 basic/messages · mcpproxy rule id/type-changed",
        "",
        "1 error in 0 frames of 0 sessions. Server: 1 error. Client: none.",
    ]


def test_the_place_of_a_message_in_a_batch_is_counted_from_the_batch(tmp_path: Path) -> None:
    one = found()
    place = stands(tmp_path / "a.mcpcap", b'[{"id":1},{"id":null}]')
    one = one._replace(finding=one.finding._replace(pointer="/id", item=1), place=place)
    assert '      [{"id":1},{"id":null}]\n                      ^^^^\n' in text([one])


def test_a_place_that_the_excerpt_does_not_show_is_named(tmp_path: Path) -> None:
    tool = b'{"name":"' + b"a" * 60 + b'"}'
    place = stands(tmp_path / "a.mcpcap", b'{"result":{"tools":[%b]}}' % b",".join([tool] * 20))
    one = found("schema/invalid-result", message="inputSchema is missing", place=place)
    pointers = [f"/result/tools/{index}/inputSchema" for index in (16, 17)]
    shown = text([one._replace(finding=one.finding._replace(pointer=pointer)) for pointer in pointers]).splitlines()
    for pointer in pointers:
        at = shown.index(f"    inputSchema is missing, at {pointer}")
        assert '{"name":"aaa' in shown[at + 1]
        assert shown[at + 2].strip(" ^") == ""
        assert "^" in shown[at + 2]


def test_the_place_is_named_where_nothing_can_be_shown() -> None:
    one = found()
    assert "    it is wrong, at /id\n" in text([one._replace(finding=one.finding._replace(pointer="/id"))])


def test_columns_of_findings_are_aligned_in_all_captures() -> None:
    for width in (100, UNLIMITED_WIDTH):
        report = TextReporter(Style(), notes=True, width=width)
        pieces = []
        for name, founds in (
            ("a", [found(seq=7), found("framing/stdout-not-json", seq=1234, session=12), found(seq=8, session=2)]),
            ("b", [found("id/type-changed", blames="client", seq=9)]),
        ):
            pieces += [*report.begin(Path(name))]
            for one in founds:
                pieces += [*report.report(one)]
            pieces += [*report.finish(CheckOutcome(Path(name), {}, {}, is_damaged=False))]
        lines = [line for line in "".join(pieces).splitlines() if line.startswith("  error ")]
        assert len(lines) == 4
        for column in ("  (?:server|client)", "  frame ", r"  \+"):
            assert len({re.search(column, line).start() for line in lines}) == 1, (width, column, lines)  # type: ignore[union-attr]


def test_messages_of_a_batch_are_told_apart() -> None:
    one = found()
    assert "  frame 1 item 3  " in text([one._replace(finding=one.finding._replace(item=3))])


def test_a_record_that_is_another_by_now_is_not_shown(tmp_path: Path) -> None:
    place = stands(tmp_path / "a.mcpcap", b"hello")
    for moved in (place._replace(offset=3), place._replace(size=1 << 40), place._replace(path=tmp_path / "gone")):
        assert "hello" not in text([found(place=moved)])
    assert "hello" in text([found(place=place)])


def test_the_worst_comes_first_and_findings_of_a_rule_stand_together() -> None:
    founds = [
        found("a/note", Level.NOTE),
        found("b/first", Level.WARNING),
        found("c/bad"),
        found("b/first", Level.WARNING),
        found("d/bad"),
    ]
    assert re.findall(r"^  (?:error|warning|note) +(\S+)", text(founds, notes=True), re.MULTILINE) == [
        "c/bad",
        "d/bad",
        "b/first",
        "b/first",
        "a/note",
    ]


def test_notes_are_only_counted_unless_they_are_wanted() -> None:
    shown = text([found(level=Level.NOTE)])
    assert shown == "1 note in 0 frames of 0 sessions. Show it with --notes.\n"
    assert "  note     id/null" in text([found(level=Level.NOTE)], notes=True)


def test_of_one_rule_and_session_so_many_are_told_and_the_rest_is_counted() -> None:
    founds = [found(session=session) for session in (1, 2) for _ in range(MAX_SHOWN_PER_SESSION + 7)]
    shown = text(founds)
    assert shown.count("  error    id/null") == 2 * MAX_SHOWN_PER_SESSION
    assert "    and 14 more\n" in shown
    many = text([found(session=session) for session in range(1, 1001)])
    assert many.count("  error    id/null") == MAX_SHOWN_PER_RULE
    assert "and 800 more" in many


def test_the_session_is_named_where_there_are_several() -> None:
    assert "session" not in text([found()]).partition("\n\n1 error")[0]
    assert "server  session 1  frame 1" in text([found(), found(session=2)])


def test_how_often_a_rule_was_broken_that_tells_of_the_first_time_only() -> None:
    assert "id/null  ×1,204 " in text([found()], counts={("id/null", 1, "server"): 1204})
    assert "×" not in text([found()], counts={("id/null", 1, "client"): 1204})


def test_what_is_accepted_is_only_counted() -> None:
    assert text([found(is_accepted=True)]) == "No findings in 0 frames of 0 sessions. 1 accepted by the baseline.\n"


def test_live_each_finding_comes_at_once_and_the_rest_is_counted_at_the_end() -> None:
    report = TextReporter(Style(), live=True)
    assert list(report.begin(Path("some.mcpcap"))) == []
    assert "".join(report.report(found())).startswith("some.mcpcap\n\n  error    id/null ")
    assert "".join(report.report(found())).startswith("  error    id/null ")
    assert "  and 3 more of id/null\n" in text([found()] * (MAX_SHOWN_PER_SESSION + 3), live=True)


@given(st.lists(anything, max_size=6), st.booleans(), st.booleans())
def test_lines_are_safe_and_fit_whatever_was_found(founds: list[LocatedFinding], notes: bool, live: bool) -> None:
    *shown, sums = text(founds, notes=notes, live=live).splitlines()
    for number, line in enumerate([*shown, sums]):
        assert sanitise(line, None) == line
        assert number == 0 or line is sums or cells(line) <= 80


def test_colour_is_never_the_only_carrier() -> None:
    painted = written(TextReporter(Style(colour=True)), [found()])
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == text([found()])


def test_the_summary_names_every_side_that_did_something() -> None:
    totals = Totals()
    totals.frames, totals.sessions = 1820, 1
    for level, blames in ((Level.ERROR, "server"), (Level.ERROR, "server"), (Level.WARNING, "transport")):
        totals.count_finding(found(level=level, blames=blames))  # type: ignore[arg-type]
    for _ in range(4):
        totals.count_finding(found(level=Level.NOTE, blames="client"))
    assert summary(totals) == (
        "2 errors, 1 warning, 4 notes in 1,820 frames of 1 session. "
        "Server: 2 errors. Client: none. Transport: 1 warning."
    )
