"""A validator that cannot run, or that cannot decide, never makes a comparison look clean."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from analysis.comparison.change import Change
from analysis.comparison.definitions.definitions import DefinitionsAspect
from analysis.comparison.definitions.drift import drift
from analysis.comparison.kind import Severity
from analysis.comparison.observe import observe
from analysis.comparison.options import ObserveOptions
from analysis.comparison.schemas.schema_changes import schema_changes
from analysis.comparison.schemas.witness import NO_VALIDATOR
from analysis.json_schema import validator
from analysis.json_schema.worker import Worker
from mcpproxy.report.comparison_drift import drift_verdict
from tests.analysis.comparison.conversations import compared, conversation
from tests.analysis.store.capture_writer import CaptureWriter

NARROWER: Final = [
    # Only the safety net finds the first; the second is breaking by its kind.
    ({"enum": ["a", "b"]}, {"enum": ["a", "b"], "pattern": "^a"}),
    ({"type": "string"}, {"type": "integer"}),
]


@pytest.fixture
def broken_validator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(validator, "WORKER", Worker())
    monkeypatch.setattr(validator, "_schemas", type(validator._schemas)())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    yield
    validator.WORKER.close()


def tool(schema: Any) -> dict[str, Any]:
    return {"name": "t", "inputSchema": {"type": "object", "properties": {"a": schema}}}


def test_a_comparison_without_a_validator_has_failed(broken_validator: None) -> None:
    for old, new in NARROWER:
        result = compared(DefinitionsAspect(), conversation([tool(old)]), conversation([tool(new)]))
        assert [(gap.what, gap.is_failure) for gap in result.gaps if gap.is_failure] == [("schemas", True)]
        (change,) = result.changes
        assert change.severity in (Severity.UNKNOWN, Severity.MAY_BREAK)
        assert NO_VALIDATOR in (change.unproved or change.message)


def test_a_comparison_that_needs_no_validator_has_not_failed(broken_validator: None) -> None:
    described = {"type": "string", "description": "text"}
    result = compared(DefinitionsAspect(), conversation([tool({"type": "string"})]), conversation([tool(described)]))
    assert [gap for gap in result.gaps if gap.is_failure] == []


def test_a_side_that_was_checked_without_a_validator_has_failed(broken_validator: None, tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.mcpcap", "server", 1)
    writer.handshake()
    writer.ask(100, 1, "tools/list")
    writer.answer(105, 1, tools=[tool({"type": "string"})])
    summary = observe("a", [("a", writer.close())], ObserveOptions()).summary
    assert summary.has_failed
    assert any("validator" in warning for warning in summary.warnings)


def kinds_of(old: Any, new: Any) -> list[str]:
    changes: list[Change] = schema_changes(old, new, "arguments", "tool t")
    return sorted(change.kind.id for change in changes)


def test_a_note_does_not_stand_for_a_schema_that_cannot_be_decided() -> None:
    undecidable = {"type": "string", "pattern": "^(?=a)"}
    old = {"type": "object", "properties": {"a": undecidable}}
    new = {"type": "object", "properties": {"a": undecidable, "b": {"type": "string"}}}
    assert kinds_of(old, new) == ["arguments/added", "schema/undecided"]


def test_a_schema_without_a_value_to_try_is_unknown() -> None:
    # No text that long is created, so whether the new schema still accepts what matches is not known.
    members = {"a": {"type": "string", "pattern": "^x{301}$"}}
    old = {"type": "object", "properties": members, "required": ["a"]}
    new = {**old, "properties": {**members, "b": {"type": "string"}}}
    assert kinds_of(old, new) == ["arguments/added", "schema/undecided"]


def test_a_history_that_was_judged_without_a_validator_says_so(broken_validator: None, tmp_path: Path) -> None:
    for number, schema in enumerate(NARROWER[1]):
        writer = CaptureWriter(tmp_path / f"{number}.mcpcap", "server", number)
        writer.handshake()
        writer.ask(100, 1, "tools/list")
        writer.answer(105, 1, tools=[tool(schema)])
        writer.close()
    history = drift(tmp_path.iterdir())
    assert history.has_validator_failed
    assert drift_verdict(history).startswith("incomplete, because the validator of schemas could not run")
