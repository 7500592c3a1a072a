"""Writes a comparison as a page in the form of the report: all data is sanitised and bounded, omissions are counted."""

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import orjson

from analysis.comparison.change import ABSENT, Change, Comparison, Gap, LatencyRow, Place, SideSummary, SizeRow
from analysis.comparison.kind import FailOn, Severity
from mcpproxy import __version__
from mcpproxy.html_report import limits
from mcpproxy.html_report.blocks import Payloads, packed, plain
from mcpproxy.html_report.page import COMPARISON, pieces
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.aligned_json import AlignedLine, aligned_lines
from mcpproxy.wording.change_kinds import ROLES, kind_row
from mcpproxy.wording.change_lines import worded_line
from mcpproxy.wording.changes import (
    MAX_MESSAGE_CHARS,
    MAX_NAME_CHARS,
    SEVERITIES,
    compared_text,
    failures_of,
    gap_text,
    message_text,
    place_text,
    places_text,
    severity_counts,
    side_facts,
    subject_text,
    value_text,
    value_texts,
    verdict_text,
)
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.json_text import compact_json
from mcpproxy.wording.latencies import ratio_text
from mcpproxy.wording.spans import Role
from mcpproxy.wording.units import duration, size, utc

_Item = TypeVar("_Item")
_TITLE_CHARS: Final = 60
_TONES: Final[dict[Role, str]] = {"bad": "error", "warm": "warning", "accent": "accent"}
"""The class of a badge, by the colour of a severity."""
_VERDICTS: Final = ("slower", "faster", "same", "cannot tell")
"""The verdicts on latencies, in the order of the table."""
_SHOW_ALL: Final = "`mcpproxy compare --format json` lists all"


class ComparisonPage:
    """The page of a comparison."""

    def __init__(self, comparison: Comparison, fail_on: frozenset[FailOn] = frozenset()) -> None:
        """Prepare the page.

        Args:
            comparison: the comparison. A gap that makes it fail has `is_failure`, also if only `--fail-on` needs it.
            fail_on: the words of `--fail-on`.
        """
        self._comparison, self._fail_on = comparison, fail_on
        self._differences = _Differences()
        self._payloads = Payloads()
        self._omissions: list[str] = []

    @property
    def title(self) -> str:
        """The title, with the names of both sides."""
        old, new = (sanitise(side.name, _TITLE_CHARS) for side in (self._comparison.old, self._comparison.new))
        return f"{old} → {new} – mcpproxy compare"

    def pieces(self) -> Iterator[str]:
        """Yields the file, piece by piece."""
        comparison = self._comparison
        changes = self._kept("change", comparison.changes, limits.MAX_CHANGES)
        rows = self._change_rows(changes)
        verdict, failures = verdict_text(comparison, self._fail_on), failures_of(comparison)
        gaps = [*failures, *(gap for gap in comparison.gaps if not gap.is_failure)]
        overview_members = {
            "verdict": verdict[:1].upper() + verdict[1:],
            "tone": self._tone(),
            "failures": [gap_text(gap) for gap in failures[: limits.MAX_FIRST_ROWS]],
            "more_failures": max(0, len(failures) - limits.MAX_FIRST_ROWS),
            "sides": [_side(comparison.old), _side(comparison.new)],
            "compared": compared_text(comparison),
            "figures": _figures(comparison),
            "severities": [_severity(severity) for severity in SEVERITIES],
            "kinds": {change.kind.id: kind_row(change.kind) for change in changes},
            "first": [_first_row(number, change) for number, change in enumerate(changes[: limits.MAX_FIRST_ROWS])],
            "changes": len(changes),
            "latencies": self._latencies(),
            "sizes": [_size_row(row) for row in comparison.sizes],
            "ignored": [
                (sanitise(row.rule, MAX_NAME_CHARS), f"{row.values:,}", f"{row.differed:,}")
                for row in self._kept("ignoring rule", comparison.ignored, limits.MAX_IGNORED)
            ],
            "gaps": [_gap(gap) for gap in self._kept("gap", gaps, limits.MAX_GAPS)],
            "made": utc(time.time_ns())[:19].replace("T", " ") + " UTC",
            "version": __version__,
            # After everything that notes omissions.
            "left_out": [*self._omissions, *self._differences.omissions()],
            "blocks": len(self._payloads.starts),
        }
        first_block = plain("data-overview", overview_members)
        yield from pieces(
            COMPARISON, self.title, first_block, (packed("data-changes", rows), *self._payloads.elements())
        )

    def _tone(self) -> str:
        """Returns the class of the verdict's colour."""
        comparison = self._comparison
        if failures_of(comparison):
            return "bad"
        worst = max((change.severity for change in comparison.changes), default=None)
        if worst is None:
            return "fine" if compared_text(comparison) else ""
        return {"bad": "bad", "warm": "warn"}.get(ROLES[worst], "")

    def _kept(self, noun: str, items: Sequence[_Item], limit: int) -> Sequence[_Item]:
        """Returns the first items, and notes how many others there are."""
        if len(items) > limit:
            more = count_text(len(items) - limit, f"more {noun}")
            self._omissions.append(f"{more} {'is' if len(items) == limit + 1 else 'are'} not listed; {_SHOW_ALL}.")
        return items[:limit]

    def _change_rows(self, changes: Sequence[Change]) -> dict[str, list[Any]]:
        """Returns the changes by column, and adds a payload with the detail of each."""
        comparison = self._comparison
        for change in changes:
            self._payloads.add(orjson.dumps(self._detail(change)).decode())
        return {
            "severity": [str(change.severity) for change in changes],
            "kind": [change.kind.id for change in changes],
            "subject": [subject_text(change) for change in changes],
            "message": [message_text(change) for change in changes],
            "places": [places_text(change, comparison) for change in changes],
        }

    def _detail(self, change: Change) -> dict[str, Any]:
        """Returns what the detail of a change shows in addition to its row."""
        comparison = self._comparison
        witness = change.witness
        return {
            "lowered": str(change.kind.severity) if change.lowered is not None else "",
            "unproved": sanitise(change.unproved, MAX_MESSAGE_CHARS),
            "old": _place(change.old, comparison.old),
            "new": _place(change.new, comparison.new),
            "witness": "" if witness is None else value_text(witness.value, limits.MAX_WITNESS_CHARS),
            "fits_old": witness is not None and witness.fits_old,
            **self._differences.of(change),
        }

    def _latencies(self) -> list[dict[str, Any]]:
        rows = sorted(self._comparison.latencies, key=lambda row: _VERDICTS.index(row.verdict))
        return [_latency(row) for row in self._kept("timed call", rows, limits.MAX_LATENCIES)]


class _Differences:
    """The values of both sides, line by line; all of them together are bounded."""

    def __init__(self) -> None:
        self._remaining_chars = limits.MAX_COMPARED_CHARS
        self._omitted_count = 0
        self._cut_count = 0

    def of(self, change: Change) -> dict[str, Any]:
        """Returns the values of a change.

        Returns:
            `lines`: the depth, the old text, the new text, whether both are equal, and how many equal lines this line
            replaces; `is_cut`: whether there are more; `is_omitted`: whether there is no room for them.
        """
        values = [value for value in (change.before, change.after) if value is not ABSENT]
        if values and self._remaining_chars <= 0:
            self._omitted_count += 1
            return {"lines": [], "is_cut": False, "is_omitted": True}
        lines, is_whole = self._lines(change, values) if values else ([], True)
        self._cut_count += not is_whole
        return {"lines": list(map(tuple, lines)), "is_cut": not is_whole, "is_omitted": False}

    def _lines(self, change: Change, values: Sequence[Any]) -> tuple[list[AlignedLine], bool]:
        """Returns the lines of both values, and whether these are all."""
        line = worded_line(change)
        if line is not None:
            return [line], True
        texts = [compact_json(value, limits.MAX_COMPARED_CHARS_PER_VALUE) for value in values]
        self._remaining_chars -= sum(len(text) for text, _ in texts)
        if not all(text.is_whole for text in texts):  # what is too large or too deep could take long
            before, after = value_texts(change, limits.MAX_CUT_VALUE_CHARS)
            return [AlignedLine(0, before, after, is_equal=False)], False
        lines, is_whole = aligned_lines(change.before, change.after, limits.MAX_DIFFERENCE_LINES)
        characters = 0
        for number, line in enumerate(lines):
            characters += len(line.old or "") + len(line.new or "")
            if characters > limits.MAX_BYTES_PER_PAYLOAD:
                return lines[:number], False
        return lines, is_whole

    def omissions(self) -> Iterator[str]:
        """Yields what is left out."""
        if self._cut_count:
            count = count_text(self._cut_count, "change")
            yield f"The values of {count} are cut; `mcpproxy show` prints all of them."
        if self._omitted_count:
            yield (
                f"The values of {count_text(self._omitted_count, 'change')} are left out, because the page would be "
                "too large; `mcpproxy show` prints them."
            )


def _severity(severity: Severity) -> tuple[str, str]:
    return str(severity), _TONES.get(ROLES[severity], "")


def _first_row(number: int, change: Change) -> dict[str, Any]:
    return {
        "number": number,
        "severity": str(change.severity),
        "text": f"{subject_text(change)}: {message_text(change)}",
        "kind": change.kind.id,
    }


def _side(side: SideSummary) -> dict[str, Any]:
    return {
        "name": sanitise(side.name, MAX_MESSAGE_CHARS),
        "facts": side_facts(side),
        "warnings": [sanitise(warning, MAX_MESSAGE_CHARS) for warning in side.warnings[: limits.MAX_GAPS]],
    }


def _figures(comparison: Comparison) -> list[dict[str, Any]]:
    counts = severity_counts(comparison.changes)
    figures = [
        {
            "name": "notes" if severity is Severity.NOTE else str(severity),
            "value": f"{counts.get(severity, 0):,}",
            "is_bad": severity is Severity.BREAKING and severity in counts,
        }
        for severity in SEVERITIES
    ]
    failure_count = len(failures_of(comparison))
    gap_count = failure_count + sum(not gap.is_failure for gap in comparison.gaps)
    figures.append(
        {
            "name": "not compared",
            "value": f"{gap_count:,}",
            "more": count_text(failure_count, "failure") if failure_count else "",
            "is_bad": failure_count > 0,
            "is_more_bad": True,
        }
    )
    if comparison.accepted:
        figures.append({"name": "accepted", "value": f"{comparison.accepted:,}", "more": "by the baseline"})
    return figures


def _place(place: Place | None, side: SideSummary) -> str:
    """Returns a place in words; empty if there is none."""
    if place is None:
        return ""
    capture = sanitise(place.capture, MAX_NAME_CHARS)
    frame = place_text(place, side._replace(captures=min(1, side.captures)))
    session = f"session {place.session}" if place.session else ""
    return " · ".join(filter(None, (frame, session, capture)))


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "what": sanitise(gap.what, MAX_NAME_CHARS),
        "reason": sanitise(gap.reason, MAX_MESSAGE_CHARS),
        "is_failure": gap.is_failure,
    }


def _latency(row: LatencyRow) -> dict[str, Any]:
    return {
        "name": sanitise(row.name, MAX_NAME_CHARS),
        "verdict": row.verdict,
        "calls": f"{row.old_count:,} → {row.new_count:,}",
        "p50": f"{_time(row.old_p50_ns)} → {_time(row.new_p50_ns)}",
        "p95": f"{_time(row.old_p95_ns)} → {_time(row.new_p95_ns)}",
        "intervals": [
            {"name": name, "low": interval[0], "high": interval[1], "text": ratio_text(interval)}
            for name, interval in (("p50", row.p50_interval), ("p95", row.p95_interval))
            if interval is not None and all(map(math.isfinite, interval))
        ],
    }


def _time(ns: int | None) -> str:
    return "–" if ns is None else duration(ns)


def _size_row(row: SizeRow) -> tuple[str, str, str, str, str]:
    growth = f"{(row.new_bytes - row.old_bytes) / row.old_bytes:+.0%}" if row.old_bytes else ""
    return (
        sanitise(row.list, MAX_NAME_CHARS),
        f"{row.old_count:,} → {row.new_count:,}",
        f"{size(row.old_bytes)} → {size(row.new_bytes)}",
        f"{row.old_tokens:,} → {row.new_tokens:,}",
        "" if growth in ("+0%", "-0%") else growth,
    )
