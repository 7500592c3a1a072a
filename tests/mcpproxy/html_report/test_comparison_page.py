"""The file of a comparison: its policy, its data, its limits. How it looks is tested by test_comparison_integration."""

import json
import re
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given

from analysis.comparison.change import Change, Comparison, Gap
from mcpproxy.html_report import limits
from mcpproxy.html_report.comparison import ComparisonPage
from mcpproxy.sanitise import sanitise
from tests.examples import examples
from tests.mcpproxy.html_report.parts import Parts
from tests.mcpproxy.report.comparisons import (
    FAILED,
    HARD,
    NOTHING,
    ORDINARY,
    TOOL_REMOVED,
    VALUE_CHANGED,
)
from tests.mcpproxy.report.test_comparison_properties import COMPARISONS


def text_of(comparison: Comparison) -> str:
    return "".join(ComparisonPage(comparison).pieces())


def details(parts: Parts) -> list[dict[str, object]]:
    blocks = range(parts.block("data-overview")["blocks"])
    return [json.loads(text) for number in blocks for text in parts.block(f"data-payloads-{number}")]


def hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_policy_allows_our_script_and_our_style_and_nothing_else() -> None:
    parts = Parts(text_of(HARD))
    (script,), (style,) = parts.scripts, parts.styles
    assert parts.policy.split("; ") == [
        "default-src 'none'",
        f"script-src {hashed(script)}",
        f"style-src {hashed(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    names = {name for name, _ in parts.attributes}
    assert not {name for name in names if name.startswith("on")} | ({"style", "src", "srcset", "action"} & names)


def test_nothing_of_a_capture_is_in_the_markup() -> None:
    text = text_of(HARD)
    assert "<img" not in text
    assert text.count("<script") == text.count("</script>")
    title = re.findall(r"<title>(.*?)</title>", text)
    assert title
    assert sanitise(title[0], None) == title[0]


def test_the_verdict_says_what_fails() -> None:
    text = "".join(ComparisonPage(ORDINARY, frozenset({"breaking"})).pieces())
    assert Parts(text).block("data-overview")["verdict"].startswith("Failed: 2 breaking that --fail-on breaking names;")


def test_changes_are_told_with_witness_places_values_and_kind() -> None:
    parts = Parts(text_of(ORDINARY))
    overview, rows = parts.block("data-overview"), parts.block("data-changes")
    assert overview["verdict"].startswith("2 breaking, 2 worse, 2 may break, 2 notes")
    assert rows["severity"] == [str(change.severity) for change in ORDINARY.changes]
    assert rows["places"][1] == "frame 4 → frame 6"
    assert overview["kinds"]["tool/removed"]["why"] == TOOL_REMOVED.why
    required = details(parts)[1]
    assert required["witness"] == '{"query":"a"}'
    assert required["fits_old"] is True
    assert required["old"] == "frame 4 · session 1 · old.mcpcap"
    assert required["lines"] == [
        [0, "[", "[", True, 0],
        [1, '"query"', '"query",', True, 0],
        [1, None, '"limit"', False, 0],
        [0, "]", "]", True, 0],
    ]
    lowered = details(parts)[4]
    assert (lowered["lowered"], lowered["unproved"]) == ("breaking", "the schema took too long")
    assert [row["verdict"] for row in overview["latencies"]] == ["slower", "faster", "same", "cannot tell"]
    assert overview["ignored"] == [["/_meta/*", "240", "3"], ["times", "118", "118"]]
    assert overview["sizes"][0] == ["tools", "3 → 2", "12.3 kB → 14.0 kB", "3,021 → 3,412", "+14%"]


@pytest.mark.parametrize(
    "failed",
    [FAILED, FAILED._replace(changes=()), NOTHING._replace(new=NOTHING.new._replace(has_failed=True))],
    ids=["with notes", "without changes", "damaged side"],
)
def test_failed_comparison_never_looks_clean(failed: Comparison) -> None:
    overview = Parts(text_of(failed)).block("data-overview")
    assert overview["verdict"].startswith("Could not be compared: ")
    assert overview["tone"] == "bad"
    assert len(overview["failures"]) == 1
    assert overview["gaps"][0]["is_failure"] is True
    assert overview["figures"][-1] == {
        "name": "not compared",
        "value": "1",
        "more": "1 failure",
        "is_bad": True,
        "is_more_bad": True,
    }


def test_comparison_without_changes_looks_clean() -> None:
    overview = Parts(text_of(NOTHING)).block("data-overview")
    assert overview["verdict"] == "Nothing changed in 14 tools, 120 calls"
    assert (overview["tone"], overview["failures"], overview["left_out"]) == ("fine", [], [])


def test_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CHANGES", 3)
    monkeypatch.setattr(limits, "MAX_GAPS", 2)
    monkeypatch.setattr(limits, "MAX_LATENCIES", 1)
    monkeypatch.setattr(limits, "MAX_DIFFERENCE_LINES", 2)
    gaps = tuple(Gap(f"list {number}", "neither side has it", is_failure=False) for number in range(3))
    parts = Parts(text_of(ORDINARY._replace(gaps=gaps)))
    overview = parts.block("data-overview")
    assert len(parts.block("data-changes")["kind"]) == len(details(parts)) == overview["changes"] == 3
    assert overview["left_out"] == [
        "5 more changes are not listed; `mcpproxy compare --format json` lists all.",
        "3 more timed calls are not listed; `mcpproxy compare --format json` lists all.",
        "1 more gap is not listed; `mcpproxy compare --format json` lists all.",
        "The values of 2 changes are cut; `mcpproxy show` prints all of them.",
    ]


def test_values_beyond_the_room_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_COMPARED_CHARS", 150)
    changes = tuple(
        Change(VALUE_CHANGED, "tools/call search", "a value changed", f"/{number}", "a" * 90, "b")
        for number in range(4)
    )
    parts = Parts(text_of(ORDINARY._replace(changes=changes)))
    assert [detail["is_omitted"] for detail in details(parts)] == [False, False, True, True]
    assert parts.block("data-overview")["left_out"] == [
        "The values of 2 changes are left out, because the page would be too large; `mcpproxy show` prints them."
    ]


def test_of_a_very_large_value_the_part_that_differs_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_COMPARED_CHARS_PER_VALUE", 1_000)
    monkeypatch.setattr(limits, "MAX_CUT_VALUE_CHARS", 100)
    change = Change(VALUE_CHANGED, "tools/call search", "a value changed", "", "a" * 2_000 + "old", "a" * 2_000 + "new")
    parts = Parts(text_of(ORDINARY._replace(changes=(change,))))
    (detail,) = details(parts)
    assert detail["lines"] == [[0, f'…{"a" * 16}old"', f'…{"a" * 16}new"', False, 0]]
    assert detail["is_cut"] is True
    assert parts.block("data-overview")["left_out"] == [
        "The values of 1 change are cut; `mcpproxy show` prints all of them."
    ]


@given(COMPARISONS)
@examples(60)
def test_page_of_any_comparison_can_be_read_and_is_safe(comparison: Comparison) -> None:
    text = text_of(comparison)
    parts = Parts(text)
    assert len(details(parts)) == len(comparison.changes)
    data = parts.data().replace("\\\\", "")
    assert not re.search(
        "[\u202a-\u202e\u2066-\u2069\u200b\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\U000e0041]", data
    )
    assert text.count("<script") == text.count("</script>")
    has_failed = (
        any(gap.is_failure for gap in comparison.gaps) or comparison.old.has_failed or comparison.new.has_failed
    )
    overview = parts.block("data-overview")
    assert overview["verdict"].startswith("Could not be compared: ") is has_failed
    assert bool(overview["failures"]) is has_failed
