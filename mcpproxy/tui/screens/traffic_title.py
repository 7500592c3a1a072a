"""The title of the traffic screen: name and state of the capture, rows shown, errors, and the two sides."""

from typing import Final

from mcpproxy.report.text import Role, Span, count_text, fit
from mcpproxy.report.wording import peer_text
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.finding_lines import progress_text
from mcpproxy.tui.screens.list_screen import NAME, title_name

FOLLOWING: Final = "● following"
LIVE: Final = "● live"
KILLED: Final = "✝ killed"
BEHIND: Final = 1000
"""The number of rows not understood yet from which the title shows the progress."""
_ROLES: Final[dict[str, Role]] = {FOLLOWING: "accent", KILLED: "bad"}


def title(reading: Reading, scan: Scan | None, state: str, exporting: str, *, is_searching: bool) -> list[Span]:
    """The title.

    Args:
        reading: the capture.
        scan: the filter that selects the rows; None if all are shown.
        state: FOLLOWING, LIVE, KILLED or empty.
        exporting: the progress of an export; empty if none is running.
        is_searching: whether the filter may select more.
    """
    spans = [Span(title_name(reading), "accent")]
    if state:
        spans.append(Span(f"  {state}", _ROLES.get(state, "dim")))
    spans += _counts(reading) if scan is None else _matches(reading, scan, is_searching=is_searching)
    if reading.findings.trouble:
        spans.append(Span("  rules stopped: F", "bad"))
    rows = len(reading.index)
    if not reading.has_ended and reading.understood + BEHIND < rows:
        spans.append(Span(f"  understood {100 * reading.understood // max(1, rows)}%", "dim"))
    if exporting:
        spans.append(Span(f"  {exporting}", "accent"))
    return spans + _peers(reading)


def _matches(reading: Reading, scan: Scan, *, is_searching: bool) -> list[Span]:
    """The filter, and how many rows it has selected so far."""
    more = " …" if is_searching else ""
    spans = [Span(f"  {scan.only.text}", "accent"), Span(f"  {len(scan.rows):,} of {scan.scanned:,}{more}")]
    if scan.only.needs_findings and not reading.findings.has_caught_up:
        spans.append(Span(f"  {progress_text(reading.findings, len(reading.index))}", "dim"))
    return spans


def _counts(reading: Reading) -> list[Span]:
    """How many frames there are, and how many findings in them so far."""
    spans, findings = [Span(f"  {count_text(reading.index.frames, 'frame')}", "dim")], reading.findings
    if findings.tally.wrong:
        wrong = f"  {'✗' if findings.tally.errors else '!'} {count_text(findings.tally.wrong, 'finding')}"
        spans.append(Span(f"{wrong}{'' if findings.has_caught_up else ' …'}", "bad"))
    return spans


def _peers(reading: Reading) -> list[Span]:
    """The two sides, and their revision."""
    fold, spans = reading.fold, []
    if fold.client is not None or fold.server is not None:
        client, server = (fit(peer_text(peer), NAME) if peer else "?" for peer in (fold.client, fold.server))
        spans.append(Span(f"  {client} → {server}"))
    if fold.revision:
        spans.append(Span(f" · {fit(sanitise(fold.revision), 12)}"))
    return spans
