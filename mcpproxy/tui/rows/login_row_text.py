"""Login row text: the text of the rows of a login in the traffic: its head, and a row for each of its legs."""

from typing import Final

from analysis.conversation.login import UNSUCCESSFUL
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.login_rows import LegRows, LoginState
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_logins import leg_at, login_at
from mcpproxy.tui.rows.row_text import GONE_TEXT, RowText, text_of
from mcpproxy.wording.logins import chain_text, client_text, duration_text, leg_name, leg_result, outcome_text
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.units import duration
from mcpproxy.wording.values import MAX_EXCERPT_CHARS

BAD_GLYPH: Final = "▲"
GLYPH: Final = "·"
_NAME_CELLS: Final = len("resource metadata") + 2


def row_text_with_logins(reading: Reading, row: int) -> RowText:
    """Returns the text of a row, which may belong to a login. Reads the file."""
    logins = reading.logins
    number = logins.login_shown_in(row)
    if number is None:
        return text_of(reading, row)
    state = logins.state(number)
    if row == logins.head(number):
        return _head_text(reading, number, state)._replace(login=number, login_state=state)
    leg = logins.leg_at(row)
    assert leg is not None
    return _leg_text(reading, logins.leg(leg), is_bad=row == state.failed)._replace(login=number, login_state=state)


def role_of(state: LoginState) -> Role:
    """Returns the role of the text about a login."""
    if state.outcome in UNSUCCESSFUL:
        return "accent" if state.is_under_way else "bad"
    return "plain" if state.outcome == "granted" else "dim"


def _head_text(reading: Reading, number: int, state: LoginState) -> RowText:
    login, role = login_at(reading, number), role_of(state)
    if login is None:
        return GONE_TEXT
    # What is cut in a narrow terminal is in the detail, and in the rows of the legs.
    other_parts = filter(None, (duration_text(login), chain_text(login), client_text(login)))
    spans = Span(f"login {number:,}: {outcome_text(login)}", role), Span(f"  {'  '.join(other_parts)}", "dim")
    return RowText(Span(BAD_GLYPH if role == "bad" else GLYPH, role), spans, is_wide=True)


def _leg_text(reading: Reading, rows: LegRows, *, is_bad: bool) -> RowText:
    leg, index = leg_at(reading, rows), reading.index
    if leg is None:
        return GONE_TEXT
    role: Role = "bad" if is_bad else "dim"
    has_start = rows.start != NONE and rows.start < len(index)
    times = f"{duration(max(0, index.t_ns(rows.end) - index.t_ns(rows.start)))}  " if has_start else ""
    target = sanitise(f"{leg.http.method} {leg.http.path}", MAX_EXCERPT_CHARS)
    spans = Span(f"  {leg_name(leg):<{_NAME_CELLS}}{leg_result(leg)}", role), Span(f"  {times}{target}", "dim")
    return RowText(Span(f" {BAD_GLYPH if is_bad else GLYPH}", role), spans, is_wide=True)
