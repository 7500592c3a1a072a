"""Logins as text: what became of one, each of its legs with its facts, and what the rules found in them."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.login import Leg, Login
from analysis.rules.finding import Finding
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.findings import LEVELS, SIGNS
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.finding_lines import findings_in
from mcpproxy.tui.rows.login_row_text import BAD_GLYPH, GLYPH, role_of
from mcpproxy.tui.rows.row_logins import leg_at, login_at
from mcpproxy.tui.text.content import MessageWriter
from mcpproxy.tui.text.lines import TextLimitReached, TextLines
from mcpproxy.tui.text.values import INDENT
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.logins import (
    chain_text,
    client_text,
    duration_text,
    leg_facts,
    leg_text,
    outcome_text,
)
from mcpproxy.wording.spans import Role
from mcpproxy.wording.units import duration, offset_text

MAX_LOGIN_FINDINGS: Final = 20
"""The maximum number of findings in the text of a login."""
_NAME_CELLS: Final = len("authorization server") + 1


def login_text_of(reading: Reading, row: int, width: int) -> MessageWriter | None:
    """Returns the text of a login, if a row is its head; None if it is not, or if the records are gone."""
    number = reading.logins.login_headed_by(row)
    login = None if number is None else login_at(reading, number)
    if number is None or login is None:
        return None
    writer = MessageWriter(width)
    try:
        _write_login(writer.lines, reading, number, login)
    except TextLimitReached:
        writer.lines.write_cut_notice()
    return writer


def write_leg(writer: MessageWriter, reading: Reading, row: int) -> None:
    """Write what is known about a leg, if a row is its end; otherwise, write nothing."""
    leg_number = reading.logins.leg_at(row)
    rows = None if leg_number is None else reading.logins.leg(leg_number)
    leg = None if rows is None else leg_at(reading, rows)
    if leg_number is None or leg is None:
        return
    number = reading.logins.login_of_leg(leg_number)
    is_bad = row == reading.logins.state(number).failed
    writer.lines.write_line(f"login {number:,}", "dim")
    _write_leg(writer.lines, leg, is_bad=is_bad)
    writer.lines.write_line("")


def _write_login(lines: TextLines, reading: Reading, number: int, login: Login) -> None:
    logins, state = reading.logins, reading.logins.state(number)
    lines.write_line(f"login {number:,}: {outcome_text(login)}", role_of(state))
    _write_fact(lines, "client", client_text(login))
    _write_fact(lines, "began", f"{offset_text(login.started_ns)}, {duration_text(login)}")
    _write_fact(lines, "requests", chain_text(login))
    if login.guessed_count:
        _write_fact(lines, "guesses", f"{count_text(login.guessed_count, 'request')} may belong to another login")
    if login.accepted is not None and login.accepted.end_ref is not None:
        accepted = login.accepted.end_ref
        _write_fact(lines, "accepted", f"{offset_text(accepted.t_ns)}, record {accepted.seq:,}")
    lines.write_line("")
    failed_leg = login.rejection or login.failed_leg if role_of(state) == "bad" else None
    for position, leg in enumerate(login.legs):
        if login.skipped_count and position == len(login.legs) - 1:
            lines.write_line(f"… {count_text(login.skipped_count, 'more request')}", "dim")
        _write_leg(lines, leg, is_bad=leg is failed_leg)
    _write_findings(lines, findings_in(reading, logins.head(number)))


def _write_leg(lines: TextLines, leg: Leg, *, is_bad: bool) -> None:
    role: Role = "bad" if is_bad else "accent"
    start, end = leg.http.started_ref, leg.http.end_ref
    times = ""
    if start is not None and end is not None:
        times = f"{offset_text(start.t_ns)}  {duration(max(0, end.t_ns - start.t_ns))}  "
    lines.write_line(f"{BAD_GLYPH if is_bad else GLYPH} {times}{leg_text(leg)}", role)
    for fact in leg_facts(leg):
        _write_fact(lines, fact.name, fact.text, "bad" if fact.is_bad else "plain", INDENT)


def _write_fact(lines: TextLines, name: str, text: str, role: Role = "plain", indent: int = 0) -> None:
    lines.write_labelled(f"{name:<{_NAME_CELLS}}", text, indent, role, is_aligned=True)


def _write_findings(lines: TextLines, findings: Iterable[Finding]) -> None:
    kept_findings = sorted(findings, key=lambda finding: -finding.level)
    for finding in kept_findings[:MAX_LOGIN_FINDINGS]:
        lines.write_line("")
        lines.write_line(f"{SIGNS[finding.level]} {finding.rule}  frame {finding.frame:,}", LEVELS[finding.level])
        lines.write_line(sanitise(finding.message, 300), "plain", INDENT)
    if len(kept_findings) > MAX_LOGIN_FINDINGS:
        lines.write_line(f"… {len(kept_findings) - MAX_LOGIN_FINDINGS:,} more findings", "dim")
