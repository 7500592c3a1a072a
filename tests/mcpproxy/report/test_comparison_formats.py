"""Comparisons for other programs: JSON, Markdown, JUnit, SARIF and GitHub's commands, each read back by a parser."""

import json
import re
from typing import Any

from analysis.comparison.change import Change, Comparison, Gap, Witness
from analysis.comparison.kind import FailOn
from mcpproxy.report.comparison import write_comparison
from mcpproxy.report.comparison_github import MAX_ANNOTATIONS
from mcpproxy.report.comparison_json import MAX_VALUE_CHARS, MEMBERS, PARTS
from mcpproxy.report.comparison_junit import MAX_CASES, MAX_LISTED_CHANGES, NOTHING_CASE, OTHERS_CASE
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.markdown import MAX_ISSUE_CHARS
from tests.mcpproxy.exporters.test_markdown_integration import OURS, Rendered
from tests.mcpproxy.report.comparisons import (
    ARGUMENT_REQUIRED,
    FAILED,
    HARD,
    HOSTILE,
    NOTHING,
    ORDINARY,
    TOOL_REMOVED,
    VALUE_CHANGED,
)
from tests.mcpproxy.report.test_findings_formats import checked, outcomes, run_in

EVERY = (ORDINARY, HARD, NOTHING, FAILED)
MANY = NOTHING._replace(
    changes=tuple(
        Change(
            kind, f"tool {number} {HOSTILE}", HOSTILE, f"/{HOSTILE}", HOSTILE * 9, None, witness=Witness(HOSTILE, True)
        )
        for kind in (ARGUMENT_REQUIRED, VALUE_CHANGED)
        for number in range(1_500)
    ),
    gaps=tuple(Gap(f"{number} {HOSTILE}", HOSTILE, bool(number % 2)) for number in range(2_000)),
)
"""Very many hostile changes and gaps."""


BREAKING: frozenset[FailOn] = frozenset({"breaking"})


def document(comparison: Comparison, format_name: str, fail_on: frozenset[FailOn] = BREAKING) -> str:
    return "".join(write_comparison(comparison, format_name, fail_on=fail_on))


# ---- JSON


def rows_of(comparison: Comparison) -> list[dict[str, Any]]:
    return [json.loads(line) for line in document(comparison, "json").split("\n")[:-1]]


def test_json_has_a_line_for_each_thing_with_the_members_of_its_table() -> None:
    for comparison in EVERY:
        rows = rows_of(comparison)
        assert [row["type"] for row in rows] == [
            "comparison",
            *["change"] * len(comparison.changes),
            *["accepted"] * comparison.accepted,
            *["gap"] * len(comparison.gaps),
            *["ignored"] * len(comparison.ignored),
            *["latency"] * len(comparison.latencies),
            *["size"] * len(comparison.sizes),
            "summary",
        ]
        for row in rows:
            assert list(row) == ["type", *MEMBERS[row["type"]]]
            if row["type"] == "change":
                for value in (row["before"], row["after"]):
                    assert value is None or len(value.keys() & PARTS["value"].keys()) == len(value) == 1
        assert list(rows[0]["old"]) == list(rows[0]["new"]) == list(PARTS["side"])


def test_json_holds_values_exactly_or_as_text() -> None:
    def written(value: Any) -> Any:
        return rows_of(NOTHING._replace(changes=(Change(VALUE_CHANGED, "x", "y", after=value),)))[1]["after"]

    values: tuple[Any, ...] = (None, True, 1, 1.5, "1", HOSTILE, 10**30, [], {"a": [{}]}, {HOSTILE: HOSTILE})
    for value in values:
        assert written(value) == {"value": value}
        assert type(written(value)["value"]) is type(value)
    assert written("a" * MAX_VALUE_CHARS) == {"text": f'"{"a" * (MAX_VALUE_CHARS - 2)}…'}
    after = [row["after"] for row in rows_of(HARD) if row["type"] == "change"][:10]
    assert after[0] == {"text": "Infinity"}
    assert after[3]["text"].startswith("[[[[")
    assert after[4] == {"text": "1e999"}
    assert after[5]["text"].startswith("-0x")
    assert after[2]["text"].startswith('{"wide":[0,1,2')
    (no_value,) = [row["before"] for row in rows_of(ORDINARY) if row.get("rule") == "tool/removed"]
    assert no_value is None


def test_json_says_whether_the_comparison_failed() -> None:
    assert rows_of(FAILED)[-1]["is_failure"] is True
    assert rows_of(ORDINARY)[-1]["is_failure"] is False
    assert rows_of(ORDINARY)[-1]["counts"] == {"breaking": 2, "worse": 2, "may break": 2, "note": 2}


def test_a_line_of_json_is_safe_on_a_terminal() -> None:
    for line in document(HARD, "json").splitlines():
        assert sanitise(line.replace("\ufffd", ""), None) == line


# ---- Markdown


def test_markdown_has_only_elements_of_ours_and_no_text_of_a_peer_outside_of_code() -> None:
    for comparison in (*EVERY, MANY):
        text = document(comparison, "markdown")
        assert len(text) <= MAX_ISSUE_CHARS
        page = Rendered(text)
        assert set(page.elements) <= OURS | {"b"}
        assert page.attributes <= {"lang", "class"}
        assert page.open == []
        outside = "".join(page.outside)
        assert not re.search(r"owned|@team|#1|click|img|---", outside), outside


def test_markdown_counts_what_does_not_fit() -> None:
    text = document(MANY, "markdown")
    listed = text.count("<td><b>breaking</b>")
    assert listed > 10
    assert f"and {1_500 - listed:,} more; --format json lists all" in text
    assert "<summary>1,500 notes</summary>" in text


# ---- JUnit


def test_junit_is_well_formed_and_a_subject_fails_if_it_has_a_change_that_fails() -> None:
    fail_on: frozenset[FailOn] = frozenset({"breaking", "value"})
    assert outcomes(checked(document(ORDINARY, "junit", fail_on))) == {
        "tool fetch": ["failure"],
        "tool search": ["failure", "system-out"],
        "tools/call search": ["failure", "system-out"],
        "session": ["system-out"],
        "tools/call fetch": ["system-out"],
        "compare tools": ["system-out"],
        "compare calls": ["system-out"],
        "compare requests": ["system-out"],
        "compare prompts": ["skipped"],
    }
    never = outcomes(checked(document(ORDINARY, "junit", frozenset())))
    assert "failure" not in {tag for tags in never.values() for tag in tags}
    hard = HARD._replace(old=HARD.old._replace(warnings=()))
    assert "error" in {tag for tags in outcomes(checked(document(hard, "junit"))).values() for tag in tags}


def test_junit_names_a_case_the_same_whatever_the_captures_are_called() -> None:
    other = ORDINARY._replace(old=ORDINARY.old._replace(name="a.mcpcap"), new=ORDINARY.new._replace(name="b.mcpcap"))
    cases = [
        [(case.get("classname"), case.get("name")) for case in checked(document(comparison, "junit")).iter("testcase")]
        for comparison in (ORDINARY, other)
    ]
    assert cases[0] == cases[1]


def test_junit_reports_a_failed_comparison_as_an_error() -> None:
    assert outcomes(checked(document(FAILED, "junit")))["compare tools"] == ["error"]
    nothing = NOTHING._replace(compared=())
    assert outcomes(checked(document(nothing, "junit"))) == {NOTHING_CASE: ["skipped"]}
    only_a_part = NOTHING._replace(gaps=(Gap("tools", "a list is cut", is_failure=True),))
    assert outcomes(checked(document(only_a_part, "junit"))) == {
        "compare tools": ["error"],
        "compare calls": ["system-out"],
    }


def test_junit_of_very_many_changes_is_bounded() -> None:
    changes = tuple(change._replace(subject=f"tool {number}") for number, change in enumerate(MANY.changes))
    root = checked(document(NOTHING._replace(changes=changes), "junit"))
    cases = outcomes(root)
    assert cases[OTHERS_CASE] == ["failure", "system-out"]
    assert len(cases) == MAX_CASES + 3
    failure = root.find(f"testsuite/testcase[@name='{OTHERS_CASE}']/failure")
    assert failure is not None
    assert failure.text is not None
    assert failure.text.splitlines()[-1] == f"and {500 - MAX_LISTED_CHANGES:,} more"


# ---- SARIF


def test_sarif_is_valid_and_has_a_result_for_each_change() -> None:
    for comparison in EVERY:
        run = run_in(document(comparison, "sarif"))
        changes = (*comparison.changes, *comparison.accepted_changes)
        for result, change in zip(run["results"], changes, strict=True):
            assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == change.kind.id
            assert result["properties"]["severity"] == str(change.severity)
        (invocation,) = run["invocations"]
        has_failed = any(gap.is_failure for gap in comparison.gaps)
        assert invocation["executionSuccessful"] is not has_failed


def test_sarif_names_the_new_capture_or_the_old_one_of_what_is_gone() -> None:
    results = run_in(document(ORDINARY, "sarif"))["results"]
    files = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results]
    assert files[:2] == ["old.mcpcap", "new.mcpcap"]
    assert [result["level"] for result in results] == [
        "error",
        "error",
        *["warning"] * 4,
        *["note"] * (2 + ORDINARY.accepted),
    ]


def test_changes_that_a_baseline_accepts_are_suppressed_in_sarif() -> None:
    comparison = ORDINARY._replace(changes=ORDINARY.changes[1:], accepted_changes=ORDINARY.changes[:1])
    results = run_in(document(comparison, "sarif"))["results"]
    assert len(results) == len(ORDINARY.changes)
    assert [result["ruleId"] for result in results if "suppressions" in result] == ["tool/removed"]
    assert results[-1]["suppressions"] == [{"kind": "external", "status": "accepted"}]


# ---- GitHub

COMMAND = re.compile(r"::(?:error|warning|notice) title=[^,:]+,file=[^,:]+::[^\r\n]*")
FAILURE = re.compile(r"::error title=not compared::[^\r\n]*")


def test_github_gets_one_command_for_a_change_or_a_failure_and_no_other() -> None:
    for comparison in EVERY:
        *commands, verdict = document(comparison, "github").split("\n")[:-1]
        assert not verdict.startswith("::")
        for command in commands:
            assert COMMAND.fullmatch(command) or FAILURE.fullmatch(command), command
            assert sanitise(command, None) == command
    assert len(document(ORDINARY, "github").splitlines()) == len(ORDINARY.changes) + 1
    assert document(FAILED, "github").startswith("::error title=not compared::tools: ")


def test_github_gets_as_many_annotations_of_a_level_as_it_shows() -> None:
    *commands, verdict = document(MANY, "github").splitlines()
    assert len(commands) == 2 * MAX_ANNOTATIONS
    assert verdict.endswith("; without annotation: 2,490 more errors, 1,490 more notices")


def test_a_level_of_an_annotation_says_how_bad_the_change_is() -> None:
    removed = NOTHING._replace(changes=(Change(TOOL_REMOVED, "tool 50%", "the tool\nwas removed"),))
    assert document(removed, "github") == (
        "::error title=tool/removed,file=new.mcpcap::tool 50%25: the tool\\nwas removed [fails --fail-on breaking]\n"
        "Failed: 1 breaking that --fail-on breaking names\n"
    )
