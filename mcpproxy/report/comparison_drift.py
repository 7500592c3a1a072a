"""The drift of a server's definitions, as text for people and as JSON lines: when what changed, and who received it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from analysis.comparison.change import Change, Place
from analysis.comparison.definitions.drift import Drift, DriftRow
from analysis.comparison.kind import Severity
from analysis.store.definition_history import Sightings
from captures.listing import random_suffix
from captures.paths import safe_name
from mcpproxy.report.comparison_json import change_row, utc_or_none
from mcpproxy.report.github import relative_path
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells, fit, fit_ends
from mcpproxy.wording.change_kinds import ROLES
from mcpproxy.wording.changes import (
    MAX_MESSAGE_CHARS,
    MAX_NAME_CHARS,
    counts_text,
    message_text,
    proof_text,
    quotes_values,
    severity_counts,
    time_text,
    value_texts,
)
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Role, Span, Style, fit_spans
from mcpproxy.wording.wrapping import wrapped

FORMATS: Final = ("text", "json")
"""The names of the formats."""
MAX_SHOWN_ROWS: Final = 50
"""The most changes that the text shows; of more, it shows the newest."""
MAX_SHOWN_CHANGES: Final = 5
"""The most differences of one definition that the text shows."""
_MAX_SHOWN_REFUSALS: Final = 5
_MAX_CLIENTS: Final = 3
_MIN_WIDTH: Final = 40
_MAX_SERVER_CHARS: Final = 30
_MAX_VALUE_CELLS: Final = 100
_MIN_PROOF_CELLS: Final = 20
_MIN_NAME_CELLS: Final = 10
_HINT: Final = "`mcpproxy show CAPTURE --frame N` shows a frame"

DRIFT_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "drift": {
        "time": "when the new definition was listed, or when the session began that shows that a tool came or went, in "
        "UTC; null if unknown",
        "server": "the name under which the server was recorded",
        "tool": "the name of the tool, the old one if it was renamed; untrusted",
        "version_before": "the version that the server gave itself with the old definition; untrusted",
        "version": "the version with the new definition",
        "before": "who received the old definition, since it came or changed: `total` is the number of sessions, "
        "`first` the first of them, each with `capture`, `session`, `client` and `time`",
        "after": "who received the new definition, until it changed or went",
        "changes": "the changes, the worst first, with the members of a line of the type `change` without its type",
        "is_judged": "whether the change was judged; false if there are too many different ones",
    },
    "refused": {"capture": "a capture that could not be read, so that the history lacks it", "reason": "why"},
    "incomplete": {"capture": "a capture that may lack definitions, and so hide changes", "reason": "why, as a clause"},
    "summary": {
        "verdict": "the first line of the text output",
        "captures": "how many captures were read",
        "sessions": "how many sessions they have",
        "definitions": "how many different definitions of tools they have",
        "counts": "how many changes there are of each severity; severities without changes are left out",
        "is_truncated": "whether there are more changes than the output has",
        "unjudged": "how many definitions changed without being judged",
        "notices": "captures that are copies of others, and servers that changed their name, in sentences; untrusted",
    },
}
"""The members of each type of line of `compare --each`, in their order, with their meanings."""


def write_drift(drift: Drift, format_name: str, style: Style | None = None, width: int = 80) -> Iterable[str]:
    """Write a drift.

    Args:
        drift: the drift.
        format_name: one of `FORMATS`.
        style: the colours of the text.
        width: the width of a line of the text, in cells.

    Returns:
        The output in pieces, with line ends.
    """
    if format_name == "json":
        return _json_rows(drift)
    return (f"{line}\n" for line in _text_lines(drift, style or Style(), max(_MIN_WIDTH, width)))


def drift_verdict(drift: Drift) -> str:
    """Returns the result in one line, sanitised; it never sounds clean if captures or definitions are missing."""
    counts = counts_text(severity_counts(change for row in drift.rows for change in row.changes))
    parts = [
        count_text(drift.definitions, "definition"),
        count_text(drift.sessions, "session"),
        count_text(drift.captures, "capture"),
    ]
    causes = [
        f"{count_text(len(captures), 'capture')} {what}"
        for captures, what in ((drift.refused, "could not be read"), (drift.incomplete, "may lack definitions"))
        if captures
    ]
    if drift.has_validator_failed:
        causes.append("the validator of schemas could not run")
    if causes:
        return f"incomplete, because {' and '.join(causes)}: {counts or 'no changes in the rest'}"
    rest = "; only the first ones are listed" if drift.is_truncated else ""
    if counts:
        unjudged = f"; {drift.unjudged:,} not judged" if drift.unjudged else ""
        return f"{counts} in {count_text(len(drift.rows), 'changed definition')}{unjudged}{rest}"
    if drift.unjudged:
        return f"{count_text(drift.unjudged, 'changed definition')}, not judged{rest}"
    return f"nothing changed in {', '.join(parts)}" if drift.definitions else "nothing to compare: no tools were listed"


def _text_lines(drift: Drift, style: Style, width: int) -> Iterator[str]:
    verdict = drift_verdict(drift)
    worst = max((change.severity for row in drift.rows for change in row.changes), default=Severity.NOTE)
    role: Role = "bad" if drift.refused or drift.incomplete or drift.has_validator_failed else ROLES[worst]
    for line in wrapped(verdict[0].upper() + verdict[1:], width):
        yield style.paint([Span(line, role)])
    holes = (*drift.refused, *drift.incomplete)
    for path, reason in holes[:_MAX_SHOWN_REFUSALS]:
        text = f"▲ {sanitise(str(path), MAX_NAME_CHARS)}: {sanitise(reason, MAX_MESSAGE_CHARS)}"
        yield from (style.paint([Span(f"  {line}", "warm")]) for line in wrapped(text, width - 2))
    if len(holes) > _MAX_SHOWN_REFUSALS:
        yield f"  and {len(holes) - _MAX_SHOWN_REFUSALS:,} more captures"
    for notice in drift.notices:
        yield from (style.paint([Span(f"  {line}", "dim")]) for line in wrapped(sanitise(notice), width - 2))
    has_servers = len({row.server for row in drift.rows}) > 1
    earlier: DriftRow | None = None
    hidden = len(drift.rows) - MAX_SHOWN_ROWS
    if hidden > 0:
        yield ""
        yield style.paint(
            [Span(fit(f"{hidden:,} earlier changes are not shown; --format json lists all", width), "dim")]
        )
    for row in drift.rows[-MAX_SHOWN_ROWS:]:
        is_same_session = earlier is not None and _session_of(earlier) == _session_of(row) is not None
        if not is_same_session:
            yield ""
        yield from _row_lines(row, style, width, names_server=has_servers, has_head=not is_same_session)
        earlier = row
    yield from _end_lines(drift, style, width)


def _session_of(row: DriftRow) -> tuple[str, int] | None:
    """Returns the capture and session that shows a change."""
    return None if row.new is None else (row.new.capture, row.new.session)


def _row_lines(row: DriftRow, style: Style, width: int, *, names_server: bool, has_head: bool) -> Iterator[str]:
    server = f"{sanitise(row.server or 'unnamed server', _MAX_SERVER_CHARS)}  " if names_server else ""
    head = f"{time_text(row.time_ns) or 'at an unknown time'}  {server}"
    versions = _versions_text(row)
    if not has_head:
        head, versions = " " * cells(head), ""
    tool = sanitise(row.tool or "(no name)", MAX_NAME_CHARS)
    ending = f"  {versions}" if versions else ""
    tool = fit(tool, max(_MIN_NAME_CELLS, width - cells(head) - cells(ending)))
    spans, _ = fit_spans([Span(head, "dim"), Span(tool, "accent"), Span(ending)], width)
    yield style.paint(spans).rstrip()
    for change in row.changes[:MAX_SHOWN_CHANGES]:
        lines = list(wrapped(f"{change.kind.id}: {message_text(change)}", width - 13))
        yield style.paint([Span(f"  {change.severity!s:<9}  ", ROLES[change.severity]), Span(lines[0])])
        yield from (f"{'':<13}{line}" for line in lines[1:])
        yield from _value_lines(change, width - 13)
    if len(row.changes) > MAX_SHOWN_CHANGES:
        yield f"  and {len(row.changes) - MAX_SHOWN_CHANGES:,} more"
    if not row.is_judged:
        yield "  not judged: too many different changes"
    elif not row.changes:
        yield "  only its form changed"
    for label, sightings, place in (("before", row.before, row.old), ("after", row.after, row.new)):
        text = _sightings_text(sightings, place, row.server, width - 13)
        if text:
            for number, line in enumerate(wrapped(text, width - 13)):
                yield style.paint([Span(f"  {'' if number else label:<9}  {line}", "dim")])


def _value_lines(change: Change, width: int) -> Iterator[str]:
    """Yields the values on both sides, unless the message quotes them, and the witness, as in a comparison."""
    limit = min(width, _MAX_VALUE_CELLS)
    before, after = (None, None) if quotes_values(change) else value_texts(change, limit - 4)
    both = f"was {before}, now {after}"
    if before is not None and after is not None and cells(both) <= width:
        yield f"{'':<13}{both}"
    else:
        for label, text in (("was", before), ("now", after)):
            if text is not None:
                yield f"{'':<13}{label} {fit(text, limit - 4)}"
    proof = proof_text(change, max(_MIN_PROOF_CELLS, limit - 32))
    if proof:
        yield from (f"{'':<13}{line}" for line in wrapped(proof, width))


def _end_lines(drift: Drift, style: Style, width: int) -> Iterator[str]:
    """Yields what holds now of tools that changed several times, and how to see a list."""
    histories: defaultdict[tuple[str | None, str], list[DriftRow]] = defaultdict(list)
    for row in drift.rows:
        histories[row.server, row.tool].append(row)
    texts = [_present_text(rows) for rows in histories.values() if len(rows) > 1]
    if texts and not drift.is_truncated:
        yield ""
        yield style.paint([Span("now", "accent")])
        for text in texts[:MAX_SHOWN_ROWS]:
            yield from (f"  {'  ' if number else '· '}{line}" for number, line in enumerate(wrapped(text, width - 4)))
        if len(texts) > MAX_SHOWN_ROWS:
            yield f"  and {len(texts) - MAX_SHOWN_ROWS:,} more"
    if any(row.new is not None for row in drift.rows):
        yield ""
        yield from (style.paint([Span(line, "dim")]) for line in wrapped(_HINT, width))


def _present_text(rows: list[DriftRow]) -> str:
    """Returns what became of a tool that changed several times."""
    first, last = rows[0], rows[-1]
    tool, time = sanitise(last.tool or "(no name)", MAX_NAME_CHARS), time_text(last.time_ns) or "an unknown time"
    if last.hash is None:
        return f"{tool}: not listed since {time}"
    if last.hash == first.hash_before:
        return f"{tool}: since {time} the same as before its first change"
    return f"{tool}: as it changed last, since {time}"


def _versions_text(row: DriftRow) -> str:
    """Returns the versions of the server: `1.0 → 1.1`, or one of them if they are the same."""
    before, after = (sanitise(version or "", 40) for version in (row.version_before, row.version))
    if before == after or not before or not after:
        return f"version {after or before}" if after or before else ""
    return f"version {before} → {after}"


def _sightings_text(sightings: Sightings, place: Place | None, server: str | None, width: int) -> str:
    """Returns who received a definition, and a list that shows it: `2 sessions (host 1), frame 5 of day1.mcpcap`."""
    where = "" if place is None else f"frame {place.frame} of {fit_ends(_capture_name(place.capture, server), width)}"
    if not sightings.total:
        return f"not listed: {where}" if where else ""
    clients = list(dict.fromkeys(sanitise(sighting.client or "unnamed client", 60) for sighting in sightings.first))
    more = ", …" if len(clients) > _MAX_CLIENTS or sightings.total > len(sightings.first) else ""
    names = f" ({', '.join(clients[:_MAX_CLIENTS])}{more})" if clients else ""
    return f"{count_text(sightings.total, 'session')}{names}{f', {where}' if where else ''}"


def _capture_name(path: str, server: str | None) -> str:
    """Returns the name of a capture, sanitised: as `ls` prints it, if that is short, or else the path from here."""
    name_end = random_suffix(Path(path))
    if name_end and server and Path(path).parent.name in (server, safe_name(server)):
        return name_end
    return sanitise(relative_path(Path(path)), MAX_NAME_CHARS)


def _json_rows(drift: Drift) -> Iterator[str]:
    for row in drift.rows:
        yield json_line(
            {
                "type": "drift",
                "time": utc_or_none(row.time_ns),
                "server": row.server,
                "tool": row.tool,
                "version_before": row.version_before,
                "version": row.version,
                "before": _sightings(row.before),
                "after": _sightings(row.after),
                "changes": [change_row(change) for change in row.changes],
                "is_judged": row.is_judged,
            }
        )
    for path, reason in drift.refused:
        yield json_line({"type": "refused", "capture": str(path), "reason": reason})
    for path, reason in drift.incomplete:
        yield json_line({"type": "incomplete", "capture": str(path), "reason": reason})
    counts = severity_counts(change for row in drift.rows for change in row.changes)
    yield json_line(
        {
            "type": "summary",
            "verdict": drift_verdict(drift),
            "captures": drift.captures,
            "sessions": drift.sessions,
            "definitions": drift.definitions,
            "counts": {str(severity): count for severity, count in counts.items()},
            "is_truncated": drift.is_truncated,
            "unjudged": drift.unjudged,
            "notices": list(drift.notices),
        }
    )


def _sightings(sightings: Sightings) -> dict[str, Any]:
    return {
        "total": sightings.total,
        "first": [
            {
                "capture": sighting.path,
                "session": sighting.session,
                "client": sighting.client,
                "time": utc_or_none(sighting.time_ns),
            }
            for sighting in sightings.first
        ],
    }
