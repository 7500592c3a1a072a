"""A comparison as JSON, one object a line: what is compared, the changes, the gaps, the figures, and a summary."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from analysis.comparison.change import ABSENT, Change, Comparison, Gap, Place, SideSummary, Witness
from analysis.comparison.kind import FailOn
from mcpproxy.report.output import json_line
from mcpproxy.wording.changes import failed_words, failures_of, severity_counts, verdict_text
from mcpproxy.wording.json_text import compact_json
from mcpproxy.wording.units import utc

MAX_VALUE_CHARS: Final = 2_000
"""The most characters of a value as JSON; of a longer one, the output has the beginning as text."""
_LATEST_NS: Final = 1 << 62

_CHANGE_MEMBERS: Final[Mapping[str, str]] = {
    "rule": "the id of the kind of change",
    "level": "its severity: `breaking`, `worse`, `may break`, `unknown` or `note`",
    "method": "what changed, such as `tool search`; untrusted. A baseline has this name for it, too",
    "pointer": "the place in the definition, result or capabilities, as a JSON Pointer; empty if there is none",
    "message": "what changed, as a sentence; it may quote untrusted text. In parentheses, how much: for a slower call "
    "a class, for values a digest of the new ones. A baseline accepts no other value and no larger class",
    "before": "the old value: null if there is none, otherwise an object with the members of `value` below",
    "after": "the new value",
    "old": "the record that shows the old side: `capture`, `session` (0 for none) and `frame`; null if unknown",
    "new": "the record that shows the new side; `frame` is -1 in an expectation, which has no records",
    "witness": "a value that proves the change: the members of `value` below, and `fits_old`: true if it was valid "
    "before and is not now, false if the reverse; null if there is none",
    "unproved": "why there is no such value although the kind needs one; null otherwise",
    "times": "how many differences it stands for",
    "fail_on": "the words of `--fail-on` that it fails",
    "fingerprint": "what is the same whenever this change is found again",
}
MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "comparison": {
        "old": "the side that was relied on: an object with the members of `side` below",
        "new": "the side that is judged",
    },
    "change": _CHANGE_MEMBERS,
    "accepted": _CHANGE_MEMBERS,
    "gap": {
        "what": "what was not compared",
        "reason": "why",
        "is_failure": "whether the comparison has failed (exit code 2)",
        "needed_by": "the words of `--fail-on` that make it a failure if they are given",
    },
    "ignored": {
        "rule": "the pointer, or the name of the built-in rule, that ignored values",
        "values": "how many values it ignored",
        "differed": "how many of them differed",
    },
    "latency": {
        "name": "the method and name; untrusted",
        "old_count": "how many calls the old side has",
        "new_count": "how many calls the new side has",
        "old_p50_ns": "the old median in nanoseconds; null if there is none",
        "new_p50_ns": "the new median",
        "old_p95_ns": "the old 95th percentile",
        "new_p95_ns": "the new 95th percentile",
        "p50_interval": "the confidence interval of the ratio new/old of the medians: two numbers; null if there are "
        "too few calls",
        "p95_interval": "the confidence interval of the ratio of the 95th percentiles",
        "verdict": "`slower`, `faster`, `same` or `cannot tell`",
    },
    "size": {
        "list": "`tools`, `resources`, `resource templates`, `prompts` or `instructions`",
        "old_count": "how many items the old side has",
        "new_count": "how many items the new side has",
        "old_bytes": "the size of their definitions in bytes",
        "new_bytes": "the new size in bytes",
        "old_tokens": "their estimated tokens",
        "new_tokens": "the new estimated tokens",
    },
    "summary": {
        "verdict": "the first line of the text output",
        "is_failure": "whether the comparison has failed: it must not be read as clean, whatever the counts",
        "counts": "how many changes there are of each severity; severities without changes are left out",
        "accepted": "how many more changes the baseline accepts",
        "compared": "what was compared: objects with `what`, `old` and `new`, the counts of both sides",
    },
}
"""The members of each type of line, in their order, with their meanings. Each line also begins with `type`."""
PARTS: Final[Mapping[str, Mapping[str, str]]] = {
    "side": {
        "name": "as the user named it",
        "captures": "how many captures it has; 0 for an expectation",
        "sessions": "how many sessions",
        "frames": "how many frames",
        "server": "name and version that the server gives itself; untrusted; null if unknown",
        "client": "name and version of the client",
        "revisions": "the revisions of the protocol that were negotiated",
        "warnings": "what is missing or damaged, in sentences",
        "has_failed": "whether a part could not be examined, so that the comparison has failed",
        "ignored_pointers": "the pointers of values that were ignored when the side was read",
        "lost_records": "how many records are reported as lost, by the recorder or by a repair",
        "unexamined": "how many frames were too large or too deep to examine",
        "lost_bodies": "how many HTTP bodies that may contain messages are not in the captures",
        "server_end": "how the server of the newest capture ended, in words; empty if unknown",
        "begun": "when the first capture was opened, in UTC; null if unknown",
        "filter": "the filter that selected what was read; null if there was none",
    },
    "value": {
        "value": f"the value, if its JSON has at most {MAX_VALUE_CHARS:,} characters and parsers keep its numbers",
        "text": "otherwise, the beginning of its JSON as a string, which ends with `…` if it is cut",
    },
}
"""The members of objects that occur in several places; of `value`, each object has one."""


def comparison_rows(comparison: Comparison, fail_on: frozenset[FailOn] = frozenset()) -> Iterator[str]:
    """Yields the lines of a comparison, each with its line end.

    Args:
        comparison: the comparison.
        fail_on: the words of `--fail-on`.
    """
    yield json_line({"type": "comparison", "old": _side(comparison.old), "new": _side(comparison.new)})
    for change in comparison.changes:
        yield json_line({"type": "change", **change_row(change)})
    for change in comparison.accepted_changes:
        yield json_line({"type": "accepted", **change_row(change)})
    for gap in comparison.gaps:
        yield json_line(_gap_row(gap))
    for ignored in comparison.ignored:
        yield json_line({"type": "ignored", **ignored._asdict()})
    for latency in comparison.latencies:
        yield json_line({"type": "latency", **latency._asdict()})
    for size in comparison.sizes:
        yield json_line({"type": "size", **size._asdict()})
    yield json_line(_summary(comparison, fail_on))


def change_row(change: Change) -> dict[str, Any]:
    """Returns the members of a change. Untrusted text is unchanged."""
    return {
        "rule": change.kind.id,
        "level": str(change.severity),
        "method": change.subject,
        "pointer": change.pointer,
        "message": change.full_message,
        "before": _value(change.before),
        "after": _value(change.after),
        "old": _place(change.old),
        "new": _place(change.new),
        "witness": _witness(change.witness),
        "unproved": change.unproved or None,
        "times": change.times,
        "fail_on": failed_words(change),
        "fingerprint": change.fingerprint,
    }


def _gap_row(gap: Gap) -> dict[str, Any]:
    return {
        "type": "gap",
        "what": gap.what,
        "reason": gap.reason,
        "is_failure": gap.is_failure,
        "needed_by": sorted(gap.needed_by),
    }


def _summary(comparison: Comparison, fail_on: frozenset[FailOn]) -> dict[str, Any]:
    return {
        "type": "summary",
        "verdict": verdict_text(comparison, fail_on),
        "is_failure": bool(failures_of(comparison)),
        "counts": {str(severity): count for severity, count in severity_counts(comparison.changes).items()},
        "accepted": comparison.accepted,
        "compared": [{"what": what, "old": old, "new": new} for what, old, new in comparison.compared],
    }


def _side(side: SideSummary) -> dict[str, Any]:
    members = side._asdict()
    begun_ns = members.pop("begun_ns")
    filter_text = members.pop("only")
    return members | {"begun": utc_or_none(begun_ns), "filter": filter_text or None}


def utc_or_none(wall_ns: int | None) -> str | None:
    """Returns a time in UTC, or None if it is unknown or not a date."""
    return utc(wall_ns) if wall_ns is not None and 0 <= wall_ns < _LATEST_NS else None


def _place(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else place._asdict()


def _witness(witness: Witness | None) -> dict[str, Any] | None:
    if witness is None:
        return None
    return {**(_value(witness.value) or {}), "fits_old": witness.fits_old}


def _value(value: Any) -> dict[str, Any] | None:
    """Returns a value, or the beginning of its text if it is long or if parsers would read its numbers differently."""
    if value is ABSENT:
        return None
    text, is_whole = compact_json(value, MAX_VALUE_CHARS)
    plain_value = _parsed(text) if is_whole else ABSENT
    # A number such as 1e999 becomes another one when it is parsed.
    if plain_value is not ABSENT and compact_json(plain_value, MAX_VALUE_CHARS).text == text:
        return {"value": plain_value}
    return {"text": text}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return ABSENT


def _refuse_constant(name: str) -> None:
    """Refuse Infinity and NaN, which are not JSON."""
    raise ValueError(name)
