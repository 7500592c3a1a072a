"""The overview of a report: participants, figures, what was slow or abandoned, start-up, latencies, tools, changes.

All text is sanitised here; times and sizes become text here too, so that the page shows them as every command does.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

from analysis.conversation.call import Outcome
from analysis.store.report_rows import CaptureRow, ChangeRow, ErrorRow, ReportRows, SessionRow, SlowRow, ToolRow
from analysis.store.stats import AbandonedRequests, Latency, Startup, UnansweredRequests
from mcpproxy.html_report import limits
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import begins_text, count_text, lost_text, unrecorded_text
from mcpproxy.wording.names import revisions_text
from mcpproxy.wording.statuses import outcome_status
from mcpproxy.wording.units import duration, nanoseconds, size, utc
from mcpproxy.wording.values import one_line
from mcpproxy.wording.without_answer import late_count_text, late_text, probable_answer_text

MAX_NAME_CHARACTERS: Final = 80
"""The maximum length of the name of a peer, a server or a tool, in characters."""
MAX_TEXT_CHARACTERS: Final = 300
"""The maximum length of any other text, in characters."""
MAX_DESCRIPTION_CHARACTERS: Final = 4_000
"""The maximum length of a description that was changed, in characters."""

Refs = dict[str, int]
"""The positions of the captures in the report, by id."""


def overview(rows: ReportRows, captures: Sequence[CaptureRow], redaction_flags: Sequence[bool]) -> dict[str, Any]:
    """Returns the figures of a report.

    Args:
        rows: the rows of all captures of the report.
        captures: all captures, in the order in which the report refers to them.
        redaction_flags: for each capture, whether it is a redacted copy.
    """
    refs = {capture.id: number for number, capture in enumerate(captures)}
    by_path = {capture.path: number for number, capture in enumerate(captures)}
    sessions = rows.sessions(limits.MAX_SESSIONS)
    totals = rows.totals()
    latencies = rows.latency("call")
    errors = rows.errors_by_text(limits.MAX_FIRST_ROWS)
    abandoned = rows.abandoned()
    unanswered = sorted(rows.unanswered(), key=lambda row: -row.waited_ms)
    return {
        "captures": [
            {**_capture(capture, sessions), "is_redacted": is_redacted}
            for capture, is_redacted in zip(captures, redaction_flags, strict=True)
        ],
        "figures": _figures(rows, len(captures), errors.times, abandoned, unanswered),
        "slowest": [_slow(row, refs) for row in rows.slowest(limits.MAX_SLOWEST_CALLS)],
        "abandoned": [_abandoned(row, by_path) for row in abandoned[: limits.MAX_FIRST_ROWS]],
        "more_abandoned": max(0, len(abandoned) - limits.MAX_FIRST_ROWS),
        "unanswered": [_unanswered(row, by_path) for row in unanswered[: limits.MAX_FIRST_ROWS]],
        "more_unanswered": max(0, len(unanswered) - limits.MAX_FIRST_ROWS),
        "errors": [_error(row, refs) for row in errors.first],
        "more_errors": errors.groups - len(errors.first),
        "sessions": [_session(row, refs) for row in sessions],
        "more_sessions": max(0, totals.sessions - len(sessions)),
        "startup": _startup(rows.startup()),
        "latencies": [_latency(row) for row in latencies[: limits.MAX_LATENCIES]],
        "more_latencies": max(0, len(latencies) - limits.MAX_LATENCIES),
        "tools": [_tool(row) for row in rows.tools(limits.MAX_TOOLS)],
        "changes": [_change(row, refs) for row in rows.tool_changes(limits.MAX_TOOL_CHANGES)],
    }


def _clean(text: str | None, max_chars: int = MAX_TEXT_CHARACTERS) -> str:
    return sanitise(text, max_chars) if text else ""


def _ms(value: float | None) -> str:
    return "" if value is None else duration(nanoseconds(value))


def _call_title(method: str, name: str | None) -> str:
    return sanitise(f"{method} {name}" if name else method, MAX_NAME_CHARACTERS)


def _peer(name: str | None, version: str | None) -> str:
    return sanitise(" ".join(filter(None, (name, version))), MAX_NAME_CHARACTERS)


def _capture(row: CaptureRow, sessions: Sequence[SessionRow]) -> dict[str, Any]:
    own_sessions = [session for session in sessions if session.capture == row.id]
    sides = (
        (_peer(session.client, session.client_version), _peer(session.server, session.server_version))
        for session in own_sessions
    )
    peers = list(dict.fromkeys(sides))
    client, server = peers[0] if peers else ("", "")
    return {
        "name": _clean(row.name, MAX_NAME_CHARACTERS),
        "file": sanitise(PurePath(row.path).name, MAX_TEXT_CHARACTERS),
        "client": client,
        "server": server,
        "more_peers": max(0, len(peers) - 1),
        "revisions": revisions_text(session.revision for session in own_sessions if session.revision),
        "transport": _clean(row.transport, 40),
        "endpoint": _clean(row.upstream or row.command),
        "opened": utc(row.opened_ns)[:19].replace("T", " ") + " UTC" if row.opened_ns is not None else "",
        "opened_ms": None if row.opened_ns is None else row.opened_ns / 1e6,
        "duration": duration(row.duration_ns),
        "duration_us": row.duration_ns // 1000,
        "frames": row.frames,
        "size": size(row.bytes),
        "sessions": row.sessions,
        "ending": _ending(row),
        "missing": _missing(row),
    }


def _ending(row: CaptureRow) -> str:
    if row.is_live:
        return "still being recorded"
    if row.exit_signal:
        return f"server killed by {sanitise(row.exit_signal, 20)}"
    if row.exit_status is not None:
        return f"server exited {row.exit_status}"
    words = {
        None: "cut off, as if killed",
        "server": "ended by the server",
        "client": "ended by the client",
        "signal": "ended by a signal",
        "failed": "the server could not be started",
        "record_error": "the recording stopped: it could not be written",
        "import": "imported",
    }
    return words.get(row.ending, _clean(row.ending, 40))


def _missing(row: CaptureRow) -> str:
    parts = [
        begins_text(row.begins_at) if row.begins_at else "",
        f"{size(row.damage)} of damage" if row.damage else "",
        lost_text(row.lost) if row.lost else "",
        unrecorded_text(row.unrecorded) if row.unrecorded else "",
        f"{count_text(row.unjudged, 'frame')} not parsed" if row.unjudged else "",
        f"{row.forgotten:,} forgotten because too many were open at once" if row.forgotten else "",
    ]
    return ", ".join(filter(None, parts))


def _figures(
    rows: ReportRows,
    capture_count: int,
    error_count: int,
    abandoned: Sequence[AbandonedRequests],
    unanswered: Sequence[UnansweredRequests],
) -> list[dict[str, Any]]:
    totals, time = rows.totals(), rows.time()
    abandoned_count, late_count = sum(row.times for row in abandoned), sum(row.late for row in abandoned)
    unanswered_count = sum(row.times for row in unanswered)
    latencies = rows.latency("server")
    request_count = sum(row.calls for row in latencies)
    error_share = rows.error_share()
    figures = [
        ("duration", duration(totals.duration_ns), "of all captures" if capture_count > 1 else "", False),
        ("frames", f"{totals.frames:,}", size(totals.bytes), False),
        ("requests", f"{request_count:,}", count_text(totals.sessions, "session"), False),
        (
            "errors",
            f"{error_count:,}",
            f"{error_share:.1%} of calls answered or failed" if error_share else "",
            error_count > 0,
        ),
        (
            "abandoned",
            f"{abandoned_count:,}",
            f"{late_count:,} answered late" if late_count else "",
            abandoned_count > 0,
        ),
        ("unanswered", f"{unanswered_count:,}", "", unanswered_count > 0),
        ("server time", _ms(time.server_ms) or "–", f"of {_ms(time.session_ms)}", False),
    ]
    return [{"name": name, "value": value, "more": detail, "is_bad": is_bad} for name, value, detail, is_bad in figures]


def _slow(row: SlowRow, refs: Refs) -> dict[str, Any]:
    waiting_text = f"{_ms(row.waiting_ms)} of it waiting for the {'client' if row.asked_by == 'client' else 'server'}"
    late_ns = None if row.late_ms is None else nanoseconds(row.late_ms)
    status = outcome_status(Outcome(row.outcome))._replace(late_ns=late_ns)
    return {
        "what": _call_title(row.method, row.name),
        "capture": refs[row.capture],
        "frame": row.request,
        "took": _ms(row.latency_ms),
        "ms": row.latency_ms,
        "outcome": status.word,
        "more": waiting_text if row.waiting_ms else "",
    }


def _abandoned(row: AbandonedRequests, by_path: dict[str, int]) -> dict[str, Any]:
    return {
        "what": sanitise(row.what, MAX_NAME_CHARACTERS),
        "times": row.times,
        "capture": by_path.get(row.path, -1),
        "frame": row.request,
        "waited": _ms(row.waited_ms),
        "more": _abandoned_text(row),
    }


def _abandoned_text(row: AbandonedRequests) -> str:
    """Returns how many requests of a kind were answered late, and what is known about the one that waited longest."""
    shows_late = row.times == 1 or row.late > 0
    late_note = probable_answer_text(row) or (late_text(row.late_ms) if shows_late else "")
    longest_text = ", ".join(filter(None, (_clean(row.reason), late_note)))
    if row.times == 1:
        return longest_text
    return "; ".join([late_count_text(row.late), *([f"the longest: {longest_text}"] if longest_text else [])])


def _unanswered(row: UnansweredRequests, by_path: dict[str, int]) -> dict[str, Any]:
    doubt = "the response may be lost" if row.may_be_lost or row.may_be_unjudged else ""
    return {
        "what": sanitise(row.what, MAX_NAME_CHARACTERS),
        "times": row.times,
        "capture": by_path.get(row.path, -1),
        "frame": row.requests[0],
        "waited": _ms(row.waited_ms),
        "more": "; ".join(filter(None, (probable_answer_text(row), doubt))),
    }


def _error(row: ErrorRow, refs: Refs) -> dict[str, Any]:
    kind = f"{row.code} {row.meaning}" if row.code is not None else row.meaning
    return {
        "what": _call_title(row.method, row.name) if row.method else "an error that matches no request",
        "times": row.times,
        "capture": refs[row.capture],
        "frame": row.frame,
        "kind": f"{kind}, by the client" if row.answered_by == "client" else kind,
        "text": one_line(row.text or ""),
    }


def _session(row: SessionRow, refs: Refs) -> dict[str, Any]:
    parts = (row.process_ms, row.initialize_ms, row.ready_ms, row.first_list_ms)
    return {
        "capture": refs[row.capture],
        "session": row.session,
        "client": _peer(row.client, row.client_version),
        "server": _peer(row.server, row.server_version),
        "revision": _clean(row.revision, 40),
        "parts": [0 if part is None else part for part in parts],
        "part_texts": [_ms(part) for part in parts],
        "total": _ms(row.total_ms),
        "total_ms": row.total_ms,
        "is_silent": row.is_silent,
        "length": _ms(row.session_ms),
        "split": [_ms(row.server_ms), _ms(row.client_ms), _ms(row.stalled_ms)],
    }


def _startup(startup: Startup | None) -> str:
    if startup is None:
        return ""
    return f"Median {_ms(startup.total_ms)} over {count_text(startup.sessions, 'session')}"


def _latency(row: Latency) -> dict[str, Any]:
    return {
        "server": _clean(row.server, MAX_NAME_CHARACTERS),
        "what": _clean(row.what, MAX_NAME_CHARACTERS),
        "calls": row.calls,
        "errors": row.errors,
        "share": "" if not row.errors or row.error_share is None else f"{row.error_share:.1%}",
        "p50": _ms(row.p50_ms),
        "p95": _ms(row.p95_ms),
        "p99": _ms(row.p99_ms),
        "max": _ms(row.max_ms),
        "total": _ms(row.total_ms),
        "buckets": sorted(row.buckets.items()),
    }


def _tool(row: ToolRow) -> dict[str, Any]:
    return {
        "server": _clean(row.server, MAX_NAME_CHARACTERS),
        "name": sanitise(row.name, MAX_NAME_CHARACTERS),
        "definitions": row.definitions,
        "size": "" if row.definition_bytes is None else size(row.definition_bytes),
        "tokens": row.tokens_estimate,
        "calls": row.calls,
        "errors": row.errors,
        "results": size(row.result_bytes) if row.calls else "",
        "largest": "" if row.largest_result_bytes is None else size(row.largest_result_bytes),
    }


def _change(row: ChangeRow, refs: Refs) -> dict[str, Any]:
    versions = (_clean(row.version_before, MAX_NAME_CHARACTERS), _clean(row.version, MAX_NAME_CHARACTERS))
    return {
        "server": _clean(row.server, MAX_NAME_CHARACTERS),
        "name": sanitise(row.name, MAX_NAME_CHARACTERS),
        "capture": refs[row.capture],
        "frame": row.frame,
        "what": row.what or "other members",
        "versions": "the same version" if versions[0] == versions[1] else " → ".join(versions),
        "sizes": f"{size(row.bytes_before)} → {size(row.bytes)}",
        "before": _clean(row.description_before, MAX_DESCRIPTION_CHARACTERS),
        "after": _clean(row.description, MAX_DESCRIPTION_CHARACTERS),
    }
