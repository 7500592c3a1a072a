"""The text of a comparison: goldens, widths, hostile text, and verdicts that cannot be misread.

After an intended change, regenerate the goldens and review the diff:

    REGENERATE=1 .venv/bin/pytest tests/mcpproxy/report/test_comparison_text.py
"""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from unicodedata import normalize

import pyte
import pytest

from analysis.comparison.change import Change, Comparison, Gap
from analysis.comparison.kind import FailOn
from analysis.comparison.kinds.findings import FINDING_GONE, FINDING_NEW_NOTE
from analysis.conversation.message import Number
from mcpproxy import __version__
from mcpproxy.report.comparison import FORMATS, write_comparison
from mcpproxy.report.comparison_text import MAX_SHOWN_NOTES, MAX_SHOWN_PER_KIND
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells
from mcpproxy.wording.changes import value_texts, verdict_text
from mcpproxy.wording.json_text import MAX_DEPTH, compact_json
from mcpproxy.wording.spans import Style
from tests.mcpproxy.report.comparisons import (
    ARGUMENT_REQUIRED,
    CALL_MISSING,
    DEEP,
    FAILED,
    FINDING_NEW,
    HARD,
    NEW,
    NOTHING,
    NOW_FAILS,
    OLD,
    ORDINARY,
    SLOWER,
    VALUE_CHANGED,
    latency,
)

GOLDEN = Path(__file__).parent / "golden"
COLOURS = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


BREAKING: frozenset[FailOn] = frozenset({"breaking"})


def text_of(
    comparison: Comparison,
    width: int = 80,
    *,
    colour: bool = False,
    format_name: str = "text",
    fail_on: frozenset[FailOn] = BREAKING,
) -> str:
    return "".join(write_comparison(comparison, format_name, Style(colour=colour), width, fail_on=fail_on))


def assert_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("REGENERATE"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


# ---- goldens


@pytest.mark.parametrize(("name", "comparison"), [("ordinary", ORDINARY), ("hard", HARD), ("failed", FAILED)])
def test_each_format_is_like_its_golden(name: str, comparison: Comparison) -> None:
    if name == "hard":  # what repeats in it is in the other tests
        comparison = comparison._replace(
            changes=comparison.changes[:10], gaps=comparison.gaps[:2], latencies=comparison.latencies[:2]
        )
    for format_name in FORMATS:
        text = text_of(comparison, format_name=format_name)
        if format_name == "sarif":
            text = text.replace(f'"version":"{__version__}"', '"version":"VERSION"')
        assert_golden(f"comparison-{name}.{format_name}", text)


def test_the_text_is_like_its_goldens() -> None:
    assert_golden("comparison-ordinary.120.text", text_of(ORDINARY, 120))
    coloured = text_of(ORDINARY, colour=True)
    assert_golden("comparison-ordinary.colour.text", coloured)
    assert COLOURS.sub("", coloured) == text_of(ORDINARY)
    assert_golden("comparison-nothing.text", text_of(NOTHING))


# ---- widths, and what could act on a terminal


def test_no_line_is_wider_than_the_terminal() -> None:
    for comparison in (ORDINARY, HARD, NOTHING, FAILED):
        for width in (40, 41, 57, 79, 80, 120, 200):
            for line in text_of(comparison, width).splitlines():
                assert cells(line) <= width, (width, line)
                assert line == line.rstrip()


def test_the_longest_id_is_cut_to_the_width() -> None:
    kind = ARGUMENT_REQUIRED._replace(id="tool/annotation-strengthened")
    text = text_of(NOTHING._replace(changes=(Change(kind, "tool", "it changed"),)), 40)
    assert "  breaking   tool/annotation-strengthen…\n" in text


def test_a_terminal_shows_the_text_and_does_nothing_else() -> None:
    for comparison in (ORDINARY, HARD):
        text = text_of(comparison, 100)
        lines = text.split("\n")
        screen = pyte.Screen(100, len(lines))
        pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
        shown = [normalize("NFC", line.rstrip()) for line in screen.display]
        assert shown == [normalize("NFC", line) for line in lines]
        assert (screen.title, screen.icon_name) == ("", "")
        assert {char.fg for row in screen.buffer.values() for char in row.values()} == {"default"}
        assert sanitise(text.replace("\n", ""), None) == text.replace("\n", "")


def test_an_output_without_a_width_is_not_padded() -> None:
    assert max(map(len, text_of(ORDINARY, UNLIMITED_WIDTH).splitlines())) < 150


# ---- the verdict


def test_a_failed_comparison_never_reads_as_a_clean_one() -> None:
    failure = Gap("tools", "the list is cut in the middle", is_failure=True)
    for comparison in (FAILED, NOTHING._replace(gaps=(failure,)), ORDINARY._replace(gaps=(failure,))):
        text = text_of(comparison)
        assert text.startswith("Could not be compared: tools, because the")
        assert "othing changed" not in text
    unexamined = NOTHING._replace(new=NEW._replace(has_failed=True))
    assert verdict_text(unexamined) == (
        "could not be compared: all of the new side, because a part of it could not be examined"
    )
    for format_name, sign in (("junit", 'errors="1"'), ("sarif", '"executionSuccessful":false'), ("github", "::error")):
        assert sign in text_of(unexamined, format_name=format_name)
    assert verdict_text(NOTHING._replace(gaps=(failure, failure, failure))) == (
        "could not be compared: tools, because the list is cut in the middle; and 2 other things"
    )
    assert verdict_text(NOTHING._replace(compared=())) == "nothing to compare"


def test_the_verdict_counts_changes_and_what_was_compared() -> None:
    assert verdict_text(ORDINARY) == "2 breaking, 2 worse, 2 may break, 2 notes; 2 accepted changes"
    assert verdict_text(NOTHING) == "nothing changed in 14 tools, 120 calls"
    assert verdict_text(NOTHING._replace(accepted_changes=ORDINARY.changes[:1])) == (
        "nothing else changed in 14 tools, 120 calls; 1 accepted change"
    )
    one_of_each = NOTHING._replace(compared=(("results of equal requests", 1, 1), ("capabilities", 1, 1), ("x", 0, 0)))
    assert verdict_text(one_of_each) == "nothing changed in 1 result of equal requests, 1 capability"
    one_note = NOTHING._replace(changes=ORDINARY.changes[-1:])
    assert verdict_text(one_note) == "1 note"


# ---- bounds


def test_of_very_many_changes_the_first_are_shown_and_the_others_are_counted() -> None:
    broken = [Change(ARGUMENT_REQUIRED, f"tool {number}", f"a{number} is required now") for number in range(50_000)]
    notes = [Change(VALUE_CHANGED, f"tool {number}", f"a{number} changed") for number in range(50_000)]
    text = text_of(NOTHING._replace(changes=(*broken, *notes)))
    assert text.count("arguments/newly-required") == MAX_SHOWN_PER_KIND + 1
    assert f"and {50_000 - MAX_SHOWN_PER_KIND:,} more of arguments/newly-required\n" in text
    assert text.count("  · tool ") == MAX_SHOWN_NOTES
    assert f"  and {50_000 - MAX_SHOWN_NOTES:,} more notes\n" in text


def test_values_are_the_first_notes_and_the_sequence_is_the_last() -> None:
    findings = [Change(FINDING_GONE, f"rule/{number}", f"finding {number}") for number in range(MAX_SHOWN_NOTES)]
    value = Change(VALUE_CHANGED, "tool answer", "it changed")
    call = Change(CALL_MISSING, "tool call", "it is not called")
    text = text_of(NOTHING._replace(changes=(call, *findings, value)))
    assert "\nnotes\n  · tool answer: it changed\n  · rule rule/0:" in text
    assert "tool call" not in text
    assert "  and 2 more notes\n" in text


def test_a_note_that_fails_is_listed_and_marked() -> None:
    others = [Change(CALL_MISSING, f"tool {number}", "it is not called") for number in range(50)]
    value = Change(VALUE_CHANGED, "tool answer", "it changed")
    comparison = NOTHING._replace(changes=(*others, value))
    assert "fails" not in text_of(comparison)
    fail_on: frozenset[FailOn] = frozenset({"value", "outcome"})
    text = text_of(comparison, fail_on=fail_on)
    assert "\ntool answer\n  note       value/changed  fails --fail-on value\n    it changed\n" in text
    assert "· tool answer" not in text
    assert "note (fails --fail-on value)" in text_of(comparison, format_name="markdown", fail_on=fail_on)
    first_command, *_ = text_of(comparison, format_name="github", fail_on=fail_on).splitlines()
    assert first_command == (
        "::notice title=value/changed,file=new.mcpcap::tool answer: it changed [fails --fail-on value]"
    )


def test_each_change_that_fails_has_the_word_that_says_why() -> None:
    assert "fails --fail-on" not in text_of(ORDINARY, fail_on=frozenset())
    text = text_of(ORDINARY, fail_on=frozenset({"breaking", "outcome"}))
    assert text.count("fails --fail-on outcome") == 1
    assert text.count("  fails --fail-on breaking") == 2
    strict = text_of(ORDINARY, fail_on=frozenset({"breaking", "may-break"}))
    assert strict.count("  fails --fail-on breaking") == strict.count("  fails --fail-on may-break") == 2


def test_the_verdict_says_that_it_fails() -> None:
    note = NOTHING._replace(changes=(Change(VALUE_CHANGED, "tool answer", "it changed"),))
    fail_on: frozenset[FailOn] = frozenset({"value", "breaking"})
    for format_name in ("text", "github", "markdown"):
        text = text_of(note, format_name=format_name, fail_on=fail_on)
        assert "Failed: 1 note that --fail-on value names" in text, format_name
        assert "ailed" not in text_of(note, format_name=format_name, fail_on=frozenset())
    assert '"verdict":"failed: 1 note that' in text_of(note, format_name="json", fail_on=fail_on)
    assert verdict_text(ORDINARY, frozenset({"breaking", "outcome"})) == (
        "failed: 2 breaking, 1 worse that --fail-on breaking,outcome names; in all 2 breaking, 2 worse, 2 may break, "
        "2 notes; 2 accepted changes"
    )


def test_a_value_is_written_only_as_far_as_it_is_shown() -> None:
    assert compact_json({"a": [1, None, True, "é\n", {}, [], (2,)], "b": -1.5}, 100) == (
        '{"a":[1,null,true,"é\\n",{},[],[2]],"b":-1.5}',
        True,
    )
    assert compact_json(Number("1.0e999"), 100) == ("1.0e999", True)
    assert compact_json([1, 2, 3], 5) == ("[1,2…", False)
    text, is_whole = compact_json(DEEP, 1_000)
    assert (text, is_whole) == ("[" * MAX_DEPTH + "…", False)
    assert compact_json(10**6_000, 50).is_whole is False
    assert len(compact_json({"a" * 10_000_000: "b" * 10_000_000}, 50).text) == 50


def test_long_values_are_shown_from_their_first_difference_on() -> None:
    start = "a" * 500
    change = Change(VALUE_CHANGED, "tool", "it changed", "", f"{start} old {start}", f"{start} new {start}")
    before, after = value_texts(change, 60)
    assert before == f"…{'a' * 15} old {'a' * 38}…"
    assert after == f"…{'a' * 15} new {'a' * 38}…"
    assert value_texts(change._replace(after=1), 20) == (f'"{"a" * 18}…', "1")
    # null is a value, and its absence is none.
    assert value_texts(change._replace(before=None, after=1), 20) == ("null", "1")
    assert value_texts(Change(VALUE_CHANGED, "tool", "it changed"), 20) == (None, None)


def test_latencies_have_a_part_only_if_there_is_something_to_tell() -> None:
    unclear = tuple(row for row in ORDINARY.latencies if row.verdict == "cannot tell")
    assert "latency" not in text_of(NOTHING._replace(latencies=unclear))
    same = (*unclear, *(row for row in ORDINARY.latencies if row.verdict == "same"))
    assert "\nlatency\n  no difference proved: 1 of 2 kinds of calls\n  cannot tell: " in text_of(
        NOTHING._replace(latencies=same)
    )


def test_calls_of_tools_are_the_first_whose_latency_cannot_be_told() -> None:
    names = ("initialize", "ping", "prompts/list", "tools/call a", "tools/call b")
    rows = [latency(name, "cannot tell", 1, 1, 3 + number) for number, name in enumerate(names)]
    text = text_of(NOTHING._replace(latencies=(latency("tools/list", "same", 1, 1), *rows)))
    assert "\n  cannot tell: tools/call b, tools/call a, prompts/list, and 2 more\n" in text


def test_a_latency_is_in_words_in_every_format() -> None:
    kind = SLOWER._replace(id="latency/slower")
    old, new = ({"p50_ms": ms, "calls": 29} for ms in (33.84, 66.123))
    change = Change(kind, "tools/call search", "the median latency is higher", before=old, after=new)
    rows = (latency("tools/call search", "slower", 33.84, 66.123),)
    text = "p50 33.8 ms → 66.1 ms (×1.8–2.1), 29 calls each"
    for format_name in ("text", "markdown", "junit", "sarif", "github"):
        assert text in text_of(NOTHING._replace(changes=(change,), latencies=rows), format_name=format_name)
    assert "×1.8–2.1" in text_of(NOTHING._replace(changes=(change,), latencies=rows))
    other = change._replace(after={"p50_ms": 66.123, "calls": 30})
    assert "p50 33.8 ms → 66.1 ms, 29 → 30 calls\n" in text_of(NOTHING._replace(changes=(other,)))


def test_the_text_of_an_error_is_on_one_line() -> None:
    error = "tool_error: two errors\nproject\n  Field required"
    change = Change(NOW_FAILS, "tools/call search", "the request fails now", "", "result", error)
    for format_name in ("text", "markdown", "junit", "sarif", "github"):
        text = text_of(NOTHING._replace(changes=(change,)), format_name=format_name)
        assert "was result, now tool_error: two errors project Field required" in text


def test_lines_for_other_programs_have_the_values_and_their_proof() -> None:
    value, proof = "was 3, now 4", '{"query":"a"} was valid before and is not now'
    for format_name, quoted in (
        ("github", proof),
        ("junit", proof),
        ("sarif", proof.replace('"', '\\"').replace("{", "{{").replace("}", "}}")),
    ):
        text = text_of(ORDINARY, format_name=format_name)
        assert value in text
        assert quoted in text


def test_values_that_the_sentence_quotes_are_not_repeated() -> None:
    change = Change(VALUE_CHANGED, "server", "the version is 2.0.0 now, and was 1.0.0", "", "1.0.0", "2.0.0")
    assert "  · server: the version is 2.0.0 now, and was 1.0.0\n" in text_of(NOTHING._replace(changes=(change,)))
    assert "; was 1, now 2\n" in text_of(NOTHING._replace(changes=(change._replace(before=1, after=2),)))


def test_what_is_the_same_for_many_is_said_once() -> None:
    removed = [Change(ARGUMENT_REQUIRED, f"tool {number}", "it is required now") for number in range(100)]
    notes = [Change(VALUE_CHANGED, f"tool {number}", "it is open now", "/a", False, True) for number in range(2)]
    text = text_of(NOTHING._replace(changes=(*removed, *notes)))
    assert "\ntool 0, tool 1, tool 2," in text
    assert "tool 19 and 80 more\n" in text
    assert text.count("it is required now") == 1
    assert "  · tool 0, tool 1: it is open now, at /a; was false, now true\n" in text
    assert "100 breaking, 2 notes" in text
    other = notes[1]._replace(before=0)
    assert text_of(NOTHING._replace(changes=(notes[0], other))).count("it is open now") == 2


def test_a_finding_names_its_rule_and_says_its_count_once() -> None:
    change = Change(FINDING_NEW, "tool/unlisted", "the tool is not listed", "/params/name", 0, 3, times=3)
    text = text_of(NOTHING._replace(changes=(change,)))
    assert "\nrule tool/unlisted\n" in text
    assert "the tool is not listed, at /params/name (3 times)\n" in text
    assert "was 0" not in text
    notes = [change._replace(kind=kind, times=1) for kind in (FINDING_NEW_NOTE, FINDING_GONE)]
    text = text_of(NOTHING._replace(changes=tuple(notes)))
    for word in ("new", "gone"):
        assert f"  · rule tool/unlisted: {word}: the tool is not listed, at /params/name\n" in text


def test_things_that_were_not_compared_for_one_reason_share_a_line() -> None:
    gaps = [Gap(name, "neither side lists them", is_failure=False) for name in ("tools", "prompts", "resources")]
    assert "  · tools, prompts, resources: neither side lists them\n" in text_of(NOTHING._replace(gaps=tuple(gaps)))


def test_a_long_text_ends_with_its_verdict() -> None:
    assert text_of(ORDINARY).endswith(
        "\n\nFailed: 2 breaking that --fail-on breaking names; in all 2 breaking, 2 worse, 2\nmay break, "
        "2 notes; 2 accepted changes\n"
    )
    assert text_of(NOTHING).count("Nothing changed") == 1


def test_a_change_without_the_value_that_would_prove_it_says_why() -> None:
    for format_name in ("text", "markdown", "junit", "sarif", "github"):
        assert "not proved: the schema took too long" in text_of(ORDINARY, format_name=format_name)
    assert '"unproved":"the schema took too long"' in text_of(ORDINARY, format_name="json")


def test_a_path_is_relative_to_the_working_directory_or_to_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    names = {
        str(tmp_path / "here" / "a" / "x.mcpcap"): "a/x.mcpcap",
        str(tmp_path / "home" / "x.mcpcap"): "~/x.mcpcap",
        "/nowhere/x.mcpcap": "/nowhere/x.mcpcap",
        "x.mcpcap": "x.mcpcap",
        "/a\0b": "/a\\x00b",
    }
    for name, shown in names.items():
        comparison = ORDINARY._replace(old=OLD._replace(name=name))
        for format_name, text in (
            ("text", f"  old  {shown}"),
            ("markdown", f"<code>{shown}</code>"),
            ("junit", f"{shown} → "),
        ):
            assert text in text_of(comparison, format_name=format_name)


def test_the_capture_of_a_record_is_named_only_if_the_side_has_several() -> None:
    several = ORDINARY._replace(new=NEW._replace(captures=3))
    assert "frame 4 → frame 6 of new.mcpcap\n" in text_of(several)
    expectation = text_of(ORDINARY._replace(old=OLD._replace(captures=0)))
    assert "expectation" in expectation
    assert "  new frame 14\n" in expectation
    assert "frame 12" not in expectation  # an expectation has no records, though it may know those of its captures
