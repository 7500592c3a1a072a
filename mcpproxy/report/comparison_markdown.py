"""A comparison as Markdown for a comment on a pull request: the verdict, the changes as tables, and folded details.

Everything from a capture is in the elements of `mcpproxy/wording/markdown.py`, which no text can leave. The whole fits
into one comment: what does not is counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from analysis.comparison.change import Change, Comparison
from analysis.comparison.kind import Severity
from mcpproxy.report.comparison_tables import latency_rows, latency_summary, size_rows
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.changes import (
    MAX_MESSAGE_CHARS,
    MAX_NAME_CHARS,
    compared_text,
    gap_text,
    ignored_text,
    message_text,
    places_text,
    side_facts,
    subject_text,
    value_texts,
    verdict_text,
    witness_text,
)
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.markdown import fenced_block, html_code, html_row

MAX_VALUE_CHARS: Final = 200
"""The most characters of a value."""
_PARTS_CHARS: Final = {
    "changes": 20_000,
    "values": 12_000,
    "notes": 8_000,
    "gaps": 8_000,
    "ignored": 4_000,
    "tables": 4_000,
}
"""The most characters of each part; together with the heading, they fit into a comment (`markdown.MAX_ISSUE_CHARS`)."""
_MAX_WARNINGS: Final = 5


def comparison_markdown(comparison: Comparison) -> Iterator[str]:
    """Yields the Markdown of a comparison."""
    verdict = sanitise(verdict_text(comparison), MAX_MESSAGE_CHARS)
    yield f"## MCP comparison\n\n<div>{html_code(verdict[0].upper() + verdict[1:])}</div>\n\n"
    yield from _sides(comparison)
    changes = [change for change in comparison.changes if change.severity > Severity.NOTE]
    notes = [change for change in comparison.changes if change.severity is Severity.NOTE]
    failures = [gap for gap in comparison.gaps if gap.is_failure]
    others = [gap for gap in comparison.gaps if not gap.is_failure]
    yield from _list_part("Could not be compared", map(gap_text, failures), "gaps")
    yield from _change_part(changes, comparison)
    yield from _value_part(changes)
    yield from _folded(count_text(len(notes), "note"), _note_rows(notes), "notes") if notes else ()
    for rows in (latency_rows(comparison.latencies), size_rows(comparison.sizes)):
        yield from _table_part(rows)
    yield from (f"<div>{html_code(line)}</div>\n\n" for line in latency_summary(comparison.latencies))
    yield from _folded(
        "ignored values", (html_row([html_code(ignored_text(row))]) for row in comparison.ignored), "ignored"
    )
    yield from _folded("not compared", (html_row([html_code(gap_text(gap))]) for gap in others), "ignored")
    if changes:
        yield "`mcpproxy compare --explain KIND` explains a kind.\n"


def _sides(comparison: Comparison) -> Iterator[str]:
    sides = (("old", comparison.old), ("new", comparison.new))
    yield "<table>\n"
    for label, side in sides:
        yield html_row([html_code(sanitise(side.name, MAX_NAME_CHARS)), html_code(", ".join(side_facts(side)))], label)
    compared = compared_text(comparison)
    if compared:
        yield html_row([html_code(sanitise(compared, MAX_MESSAGE_CHARS)), ""], "compared")
    for label, side in sides:
        for warning in side.warnings[:_MAX_WARNINGS]:
            yield html_row([html_code(sanitise(warning, MAX_NAME_CHARS)), ""], f"{label}: warning")
    yield "</table>\n\n"


def _list_part(title: str, texts: Iterable[str], part: str) -> Iterator[str]:
    rows = list(_within((html_row([html_code(text)]) for text in texts), part))
    if rows:
        yield f"### {title}\n\n<table>\n{''.join(rows)}</table>\n\n"


def _change_part(changes: Sequence[Change], comparison: Comparison) -> Iterator[str]:
    if not changes:
        return
    yield "### Changes\n\n<table>\n"
    yield "<tr><th>severity</th><th>kind</th><th>subject</th><th>change</th><th>records</th></tr>\n"
    yield from _within((_change_row(change, comparison) for change in changes), "changes")
    yield "</table>\n\n"


def _change_row(change: Change, comparison: Comparison) -> str:
    message = sanitise(message_text(change), MAX_MESSAGE_CHARS)
    places = sanitise(places_text(change, comparison), MAX_NAME_CHARS)
    texts = (change.kind.id, subject_text(change), message, places)
    severity = f"<b>{change.severity}</b>" if change.severity is Severity.BREAKING else str(change.severity)
    return html_row([severity, *(html_code(text) if text else "" for text in texts)])


def _value_part(changes: Sequence[Change]) -> Iterator[str]:
    """Yields the values of the changes, folded."""
    lines = list(_within(_value_lines(changes), "values", "…"))
    if lines:
        block = fenced_block((line.rstrip("\n") for line in lines), "text")
        yield f"<details><summary>values and proofs</summary>\n\n{block}\n</details>\n\n"


def _value_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Yields the lines about each change with values, as one text."""
    for change in changes:
        before, after = value_texts(change, MAX_VALUE_CHARS)
        lines = [f"  {label} {text}" for label, text in (("was", before), ("now", after)) if text is not None]
        if change.witness is not None:
            lines.append(f"  {witness_text(change.witness, MAX_VALUE_CHARS)}")
        if lines:
            yield "\n".join((f"{change.kind.id}, {subject_text(change)}", *lines, ""))


def _note_rows(notes: Sequence[Change]) -> Iterator[str]:
    for note in notes:
        before, after = value_texts(note, MAX_VALUE_CHARS // 4)
        values = f"; was {before}, now {after}" if before is not None and after is not None else ""
        texts = (note.kind.id, subject_text(note), f"{message_text(note)}{values}")
        yield html_row(map(html_code, texts))


def _table_part(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields a table whose first row is the heading; nothing without other rows."""
    if len(rows) > 1:
        yield f"<table>\n<tr>{''.join(f'<th>{head}</th>' for head in rows[0])}</tr>\n"
        yield from _within((html_row(map(html_code, row)) for row in rows[1:]), "tables")
        yield "</table>\n\n"


def _folded(title: str, rows: Iterable[str], part: str) -> Iterator[str]:
    kept = list(_within(rows, part))
    if kept:
        yield f"<details><summary>{title}</summary>\n\n<table>\n{''.join(kept)}</table>\n\n</details>\n\n"


def _within(pieces: Iterable[str], part: str, more: str = "") -> Iterator[str]:
    """Yields the pieces that fit into a part, and how many others there are."""
    left = _PARTS_CHARS[part]
    hidden = 0
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            hidden += 1
        else:
            yield piece
    if hidden:
        text = f"and {hidden:,} more; --format json lists all"
        yield f"{more} {text}\n" if more else html_row([text])
