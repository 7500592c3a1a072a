"""Session preview: what the summary of a session says, in lines below the list of sessions of a large terminal."""

from collections.abc import Iterator, Sequence
from typing import Final

from analysis.summary import BUCKET_COUNT, Summary
from analysis.tally import Tally
from mcpproxy.sanitise import sanitise
from mcpproxy.wording import units
from mcpproxy.wording.blocks import stacked_blocks
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.counts import abandoned_text, count_text, lost_text
from mcpproxy.wording.names import revisions_text
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.waits import waiting_role, waiting_text

CHART_LINES: Final = 5
"""The height of the bars, in lines."""
LABEL_CELLS: Final = 10
GAP_CELLS: Final = 3
"""The number of cells between the facts and the bars."""
MAX_NAMED_CLIENTS: Final = 4
"""How many clients are named if there are several."""

Line = list[Span]


def preview_lines(summary: Summary, tally: Tally | None, width: int, *, lasted_ns: int) -> list[Line]:
    """Returns the facts about a session on the left, and its traffic as bars on the right.

    Args:
        summary: its summary.
        tally: how many findings it has; None if that is not known.
        width: the width of a line, in cells.
        lasted_ns: how long it has lasted.
    """
    fact_cells = width - BUCKET_COUNT - GAP_CELLS
    facts = [[Span(f"{label:<{LABEL_CELLS}}", "dim"), *spans] for label, spans in _facts(summary, tally, lasted_ns)]
    chart: list[Line] = [[Span(line, "accent")] for line in stacked_blocks(summary.traffic, CHART_LINES)]
    caption = f"{count_text(summary.frames, 'frame')}, each bar {units.duration(summary.bucket_ns)}"
    chart.append([Span(caption, "dim")])
    lines = []
    for number in range(max(len(facts), len(chart))):
        fact = _fitted(facts[number] if number < len(facts) else [], fact_cells)
        lines.append([*fact, Span(" " * GAP_CELLS), *(chart[number] if number < len(chart) else ())])
    return lines


def _facts(summary: Summary, tally: Tally | None, lasted_ns: int) -> Iterator[tuple[str, Sequence[Span]]]:
    """Yields each label with its texts; what did not happen is left out."""
    client, server = summary.client or "unknown client", summary.server or summary.name or "unknown server"
    via = f"  {summary.transport}" if summary.transport else ""
    yield "between", [Span(client, "accent"), Span(" → "), Span(server, "server"), Span(via, "dim")]
    names = [name for name, _ in summary.clients if name]
    if len(names) > 1:
        more = f", and {len(names) - MAX_NAMED_CLIENTS} more" if len(names) > MAX_NAMED_CLIENTS else ""
        yield "clients", [Span(", ".join(names[:MAX_NAMED_CLIENTS]) + more)]
    if summary.revisions:
        yield "revision", [Span(revisions_text(summary.revisions))]
    ending = Span(f", {summary.ending}", "bad") if summary.ending else Span("")
    yield "began", [Span(f"{_began_text(summary)}, lasted {units.duration(lasted_ns)}"), ending]
    p95 = f", 95 % of them within {units.duration(summary.p95_ns)}" if summary.p95_ns is not None else ""
    yield "answered", [Span(f"{count_text(summary.answered, 'request')}{p95}")]
    if troubles := _troubles(summary):
        yield "trouble", [*troubles]
    if tally is not None:
        yield "findings", [*_finding_spans(tally)]


def _began_text(summary: Summary) -> str:
    try:
        return units.local_time(summary.wall_ns) if summary.wall_ns is not None else "at an unknown time"
    except (OverflowError, ValueError, OSError):
        return "at an impossible time"


def _troubles(summary: Summary) -> Sequence[Span]:
    """Returns what went wrong."""
    errors = max(0, summary.errors - summary.challenged)
    waited_ns = summary.waited_ns
    texts: list[tuple[int, str, Role]] = [
        (errors, count_text(errors, "error"), "bad"),
        (summary.failed_logins, f"{count_text(summary.failed_logins, 'login')} failed", "bad"),
        (summary.abandoned, abandoned_text(summary.abandoned, summary.answered_late), "bad"),
        (summary.lost, lost_text(summary.lost), "bad"),
    ]
    if waited_ns is not None:
        texts.append((summary.waiting, waiting_text(summary.waiting, waited_ns), waiting_role(waited_ns)))
    return _listed(texts)


def _finding_spans(tally: Tally) -> Sequence[Span]:
    texts: list[tuple[int, str, Role]] = [
        (tally.errors, count_text(tally.errors, "error"), "bad"),
        (tally.warnings, count_text(tally.warnings, "warning"), "plain"),
        (tally.notes, count_text(tally.notes, "note"), "dim"),
    ]
    return _listed(texts) or [Span("none", "dim")]


def _listed(texts: Sequence[tuple[int, str, Role]]) -> list[Span]:
    """Returns texts, each with its count and its role, separated by commas; those whose count is 0 are left out."""
    shown = [Span(text, role) for count, text, role in texts if count]
    return [span for shown_span in shown for span in (Span(", ", "dim"), shown_span)][1:]


def _fitted(spans: Sequence[Span], width: int) -> Line:
    """Returns spans in exactly `width` cells."""
    fitted: Line = []
    for span in spans:
        text = fit(sanitise(span.text), width) if width > 0 else ""
        fitted.append(Span(text, span.role))
        width -= cells(text)
    return [*fitted, Span(" " * max(0, width))]
