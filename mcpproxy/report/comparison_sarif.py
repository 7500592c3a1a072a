"""A comparison as SARIF 2.1.0: a result for each change, and the pages of their kinds as rules.

Changes that the baseline accepts are suppressed results.
"""

from collections.abc import Iterator
from typing import Any, Final

from analysis.comparison.change import ABSENT, Change, Comparison, Place
from analysis.comparison.kind import Kind, Severity
from mcpproxy.check_run.result import RecordLocation
from mcpproxy.report.comparison_files import file_of
from mcpproxy.report.comparison_locations import locations_of, place_of
from mcpproxy.report.sarif import (
    ACCEPTED,
    DOCUMENT_START,
    document_end,
    escaped_text,
    notification,
    region_of,
    sarif_json,
    uri_of,
)
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.change_kinds import page_of
from mcpproxy.wording.change_lines import change_line
from mcpproxy.wording.changes import failures_of, gap_text, proof_text
from mcpproxy.wording.json_text import compact_json

MAX_VALUE_CHARS: Final = 1_000
"""The most characters of a value or a pointer in the properties of a result."""
_LEVELS: Final = {
    Severity.BREAKING: "error",
    Severity.WORSE: "warning",
    Severity.MAY_BREAK: "warning",
    Severity.UNKNOWN: "warning",
    Severity.NOTE: "note",
}
_START: Final = {"startLine": 1, "byteOffset": 0, "byteLength": 0}
"""The start of a file: viewers need a place, also if the line of the record is not known."""


def comparison_sarif(comparison: Comparison) -> Iterator[str]:
    """Yields the document. Only kinds with a change are among its rules."""
    kinds: dict[str, tuple[int, Kind]] = {}
    yield DOCUMENT_START
    changes = (*comparison.changes, *comparison.accepted_changes)
    locations = locations_of(changes, comparison)
    for number, change in enumerate(changes):
        index, _ = kinds.setdefault(change.kind.id, (len(kinds), change.kind))
        place = place_of(change, comparison)
        result = _result(change, comparison, index, None if place is None else locations.get(place))
        if number >= len(comparison.changes):
            result["suppressions"] = [ACCEPTED]
        yield ",\n" if number else ""
        yield sarif_json(result)
    failures = failures_of(comparison)
    notes = [notification("error", f"not compared: {gap_text(gap)}") for gap in failures]
    notes += [notification("note", f"not compared: {gap_text(gap)}") for gap in comparison.gaps if not gap.is_failure]
    notes += [
        notification("warning", sanitise(text)) for side in (comparison.old, comparison.new) for text in side.warnings
    ]
    yield document_end([_descriptor(kind) for _, kind in kinds.values()], notes, has_failed=bool(failures))


def _result(change: Change, comparison: Comparison, rule_index: int, location: RecordLocation | None) -> dict[str, Any]:
    file = file_of(change, comparison) if location is None else location.path
    region = _START if location is None else region_of(location)
    return {
        "ruleId": change.kind.id,
        "ruleIndex": rule_index,
        "level": _LEVELS[change.severity],
        "message": {"text": escaped_text(change_line(change, comparison))},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri_of(file)}, "region": region}}],
        "partialFingerprints": {"change/v1": change.fingerprint},
        "properties": {
            "severity": str(change.severity),
            "subject": change.subject,
            "pointer": change.pointer[:MAX_VALUE_CHARS],
            "old": _place(change.old),
            "new": _place(change.new),
            "before": _value(change.before),
            "after": _value(change.after),
            "proof": proof_text(change, MAX_VALUE_CHARS) or None,
            "times": change.times,
        },
    }


def _value(value: Any) -> str | None:
    return None if value is ABSENT else compact_json(value, MAX_VALUE_CHARS).text


def _place(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else place._asdict()


def _descriptor(kind: Kind) -> dict[str, Any]:
    return {
        "id": kind.id,
        "shortDescription": {"text": escaped_text(kind.title)},
        "help": {"text": f"See `mcpproxy compare --explain {kind.id}`.", "markdown": page_of(kind)},
        "defaultConfiguration": {"level": _LEVELS[kind.severity]},
    }
