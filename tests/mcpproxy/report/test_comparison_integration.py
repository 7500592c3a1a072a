"""Captures with hostile servers, compared as `mcpproxy compare` does it, in every format."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.comparison.change import Comparison
from analysis.comparison.definitions.drift import drift
from mcpproxy.report.comparison import FORMATS, write_comparison
from mcpproxy.report.comparison_drift import write_drift
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.markdown import MAX_ISSUE_CHARS
from tests.analysis.comparison.sides import compared
from tests.analysis.store.capture_writer import DAY, OPENED, CaptureWriter
from tests.mcpproxy.exporters.test_markdown_integration import OURS, Rendered
from tests.mcpproxy.report.comparisons import HOSTILE
from tests.mcpproxy.report.test_findings_formats import checked, run_in


def deep(depth: int) -> dict[str, Any]:
    """Returns a schema that is nested so deeply."""
    schema: dict[str, Any] = {"const": HOSTILE}
    for _ in range(depth):
        schema = {"type": "object", "properties": {HOSTILE: schema}}
    return schema


def fill(capture: CaptureWriter, number: int) -> None:
    """Write a list of hostile tools, and calls of them; each capture has other definitions, results and errors."""
    required = [HOSTILE] if number else []
    tools = [
        {"name": HOSTILE, "description": HOSTILE * number, "inputSchema": {**deep(1), "required": required}},
        {"name": "deep", "inputSchema": deep(200 + number)},
        {"name": "long", "description": "a" * 100_000 + str(number), "inputSchema": {"type": "object"}},
        {"name": f"{HOSTILE} {number}", "inputSchema": {"enum": [2**70 + number, HOSTILE, None]}},
    ]
    capture.ask(100, 1, "tools/list")
    capture.answer(110, 1, tools=tools)
    capture.call(120, 2, HOSTILE, value=HOSTILE)
    if number:
        capture.fail(130, 2, HOSTILE)
    else:
        capture.answer(130, 2, content=[{"type": "text", "text": HOSTILE}])


def written(comparison: Comparison) -> dict[str, str]:
    """Returns the output in each format."""
    return {name: "".join(write_comparison(comparison, name)) for name in FORMATS}


def test_annotations_point_at_the_line_of_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    comparison = compared(tmp_path, lambda old: fill(old, 0), lambda new: fill(new, 1), with_findings=True)
    results = run_in("".join(write_comparison(comparison, "sarif")))["results"]
    assert len(results) == len(comparison.changes)
    for change, result in zip(comparison.changes, results, strict=True):
        place = change.new or change.old
        assert place is not None
        region = result["locations"][0]["physicalLocation"]["region"]
        line = Path(place.capture).read_bytes().splitlines()[region["startLine"] - 1]
        assert json.loads(line)["seq"] == place.frame
        assert region["byteLength"] == len(line)
    commands = "".join(write_comparison(comparison, "github")).splitlines()
    assert all(",line=" in command for command in commands if command.startswith("::"))


def test_a_capture_that_is_gone_leaves_annotations_without_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    comparison = compared(tmp_path, lambda old: fill(old, 0), lambda new: fill(new, 1), with_findings=True)
    for change in comparison.changes:
        for place in filter(None, (change.old, change.new)):
            Path(place.capture).unlink(missing_ok=True)
    assert "::error title=" in "".join(write_comparison(comparison, "github"))
    assert ",line=" not in "".join(write_comparison(comparison, "github"))


def test_outputs_of_hostile_captures_are_harmless(tmp_path: Path) -> None:
    comparison = compared(tmp_path, lambda old: fill(old, 0), lambda new: fill(new, 1), with_findings=True)
    assert {change.kind.id.partition("/")[0] for change in comparison.changes} >= {"tool", "arguments", "outcome"}
    outputs = written(comparison)
    for name in ("text", "junit", "github", "markdown"):
        text = outputs[name].replace("\n", "")
        assert sanitise(text, None) == text, name
    for line in outputs["json"].splitlines():
        assert json.loads(line)["type"]
    checked(outputs["junit"])
    assert len(run_in(outputs["sarif"])["results"]) == len(comparison.changes)
    page = Rendered(outputs["markdown"])
    assert set(page.elements) <= OURS | {"b"}
    assert "owned" not in "".join(page.outside)
    assert len(outputs["markdown"]) <= MAX_ISSUE_CHARS


def test_the_drift_of_hostile_captures_is_told_and_harmless(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        writer = CaptureWriter(tmp_path / f"{number}.mcpcap", "weather", number, OPENED + number * DAY)
        writer.handshake(version=f"1.{number}")
        fill(writer, number)
        paths.append(writer.close())
    history = drift(paths)
    assert {row.version for row in history.rows} == {"1.1", "1.2"}
    text = "".join(write_drift(history, "text"))
    assert sanitise(text.replace("\n", ""), None) == text.replace("\n", "")
    assert "version 1.0 → 1.1" in text
    rows = [json.loads(line) for line in "".join(write_drift(history, "json")).splitlines()]
    assert [row["type"] for row in rows] == ["drift"] * len(history.rows) + ["incomplete"] * 3 + ["summary"]


def test_a_hostile_capture_compared_with_itself_is_clean_in_every_format(tmp_path: Path) -> None:
    comparison = compared(tmp_path, lambda old: fill(old, 1), lambda new: fill(new, 1), with_findings=True)
    outputs = written(comparison)
    assert outputs["text"].startswith("Nothing changed in ")
    assert json.loads(outputs["json"].splitlines()[-1])["counts"] == {}
    assert run_in(outputs["sarif"])["results"] == []
    assert "<failure" not in outputs["junit"]
    assert "::" not in outputs["github"]
