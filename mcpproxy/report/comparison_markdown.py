"""A comparison as Markdown for a comment on a pull request: the verdict, the changes as tables, and folded details.

Everything from a capture is in the elements of `mcpproxy/wording/markdown.py`, which no text can leave. The whole fits
into one comment: what does not is counted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from analysis.comparison.change import ABSENT, Change, Comparison, Gap
from analysis.comparison.kind import FailOn, Severity
from mcpproxy.report.comparison_files import side_name
from mcpproxy.report.comparison_ranking import mark_text, ranked
from mcpproxy.report.comparison_tables import latency_rows, latency_summary, size_rows
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.change_lines import values_text
from mcpproxy.wording.changes import (
    MAX_MESSAGE_CHARS,
    MAX_NAME_CHARS,
    compared_text,
    failures_of,
    gap_text,
    ignored_text,
    message_text,
    places_text,
    proof_text,
    side_facts,
    subject_text,
    verdict_text,
)
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.markdown import html_code, html_row

MAX_VALUE_CHARS: Final = 80
"""The most characters of a value."""
_PARTS_CHARS: Final = {
    "changes": 32_000,
    "notes": 8_000,
    "gaps": 8_000,
    "ignored": 4_000,
    "tables": 4_000,
}
"""The most characters of each part; together with the heading, they fit into a comment (`markdown.MAX_ISSUE_CHARS`)."""
_MAX_WARNINGS: Final = 5
_Item = TypeVar("_Item")


def comparison_markdown(comparison: Comparison, fail_on: frozenset[FailOn] = frozenset()) -> Iterator[str]:
    """Yields the Markdown of a comparison."""
    verdict = sanitise(verdict_text(comparison, fail_on), MAX_MESSAGE_CHARS)
    yield f"## MCP comparison\n\n<div>{html_code(verdict[0].upper() + verdict[1:])}</div>\n\n"
    yield from _sides(comparison)
    changes, notes = ranked(comparison.changes, fail_on)
    failures = failures_of(comparison)
    others = [gap for gap in comparison.gaps if not gap.is_failure]
    if failures:
        yield f"### Could not be compared\n\n<table>\n{_rows(failures, _gap_row, 'gaps')}</table>\n\n"
    yield from _change_part(changes, comparison, fail_on)
    yield from _folded(count_text(len(notes), "note"), notes, lambda note: _note_row(note, comparison), "notes")
    for heads, *table in (latency_rows(comparison.latencies), size_rows(comparison.sizes)):
        if table:
            yield f"<table>\n<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>\n"
            yield f"{_rows(table, _code_row, 'tables')}</table>\n\n"
    for line in latency_summary(comparison.latencies):
        yield f"<div>{html_code(f'latency: {line}')}</div>\n\n"
    yield from _folded("ignored values", comparison.ignored, lambda row: _code_row([ignored_text(row)]), "ignored")
    yield from _folded("not compared", others, _gap_row, "gaps")
    if changes:
        yield "`mcpproxy compare --explain KIND` explains a kind.\n"


def _sides(comparison: Comparison) -> Iterator[str]:
    sides = (("old", comparison.old), ("new", comparison.new))
    yield "<table>\n"
    for label, side in sides:
        yield html_row([html_code(side_name(side)), html_code(", ".join(side_facts(side)))], label)
    yield "</table>\n\n"
    compared = compared_text(comparison)
    if compared:
        yield f"<div>compared: {html_code(sanitise(compared, MAX_MESSAGE_CHARS))}</div>\n\n"
    for label, side in sides:
        for warning in side.warnings[:_MAX_WARNINGS]:
            yield f"<div>warning about the {label} side: {html_code(sanitise(warning, MAX_NAME_CHARS))}</div>\n\n"


def _change_part(changes: Sequence[Change], comparison: Comparison, fail_on: frozenset[FailOn]) -> Iterator[str]:
    if not changes:
        return
    yield "### Changes\n\n<table>\n"
    yield "<tr><th>severity</th><th>kind</th><th>subject</th><th>change</th><th>records</th></tr>\n"
    yield _rows(changes, lambda change: _change_row(change, comparison, mark_text(change, fail_on)), "changes")
    yield "</table>\n\n"


def _change_row(change: Change, comparison: Comparison, mark: str) -> str:
    places = sanitise(places_text(change, comparison), MAX_NAME_CHARS)
    texts = (change.kind.id, subject_text(change), _sentence(change, comparison), places)
    severity = f"<b>{change.severity}</b>" if change.severity is Severity.BREAKING else str(change.severity)
    severity += f" ({mark})" if mark else ""
    return html_row([severity, *(html_code(text) if text else "" for text in texts)])


def _sentence(change: Change, comparison: Comparison) -> str:
    """Returns what changed, with short values and a short proof; in code, backticks would be shown."""
    message = sanitise(message_text(change), MAX_MESSAGE_CHARS).replace("`", "'")
    values = values_text(change, comparison, MAX_VALUE_CHARS)
    if change.severity is Severity.NOTE and ABSENT in (change.before, change.after):
        values = ""  # a whole definition that is new or gone
    return "; ".join(filter(None, (message, values, proof_text(change, MAX_VALUE_CHARS))))


def _note_row(note: Change, comparison: Comparison) -> str:
    return _code_row((note.kind.id, subject_text(note), _sentence(note, comparison)))


def _gap_row(gap: Gap) -> str:
    return _code_row([gap_text(gap)])


def _code_row(texts: Iterable[str]) -> str:
    return html_row(map(html_code, texts))


def _folded(title: str, items: Sequence[_Item], write: Callable[[_Item], str], part: str) -> Iterator[str]:
    """Yields a table that is folded; nothing without items."""
    if items:
        rows = _rows(items, write, part)
        yield f"<details><summary>{title}</summary>\n\n<table>\n{rows}</table>\n\n</details>\n\n"


def _within(items: Sequence[_Item], write: Callable[[_Item], str], part: str) -> tuple[list[str], int]:
    """Returns the first items, written, as many as fit into a part, and how many others there are."""
    left = _PARTS_CHARS[part]
    pieces: list[str] = []
    for item in items:
        piece = write(item)
        left -= len(piece)
        if left < 0:
            break
        pieces.append(piece)
    return pieces, len(items) - len(pieces)


def _rows(items: Sequence[_Item], write: Callable[[_Item], str], part: str) -> str:
    """Returns the rows of a table that fit into a part, and one that counts the others."""
    rows, hidden = _within(items, write, part)
    return "".join((*rows, html_row([f"and {hidden:,} more; --format json lists all"]) if hidden else ""))
