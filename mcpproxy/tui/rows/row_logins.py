"""Row logins: reads the logins that rows show, from the records of their legs.

The worker has assigned the legs. A login is put together again from its rows, so that the screens describe it in the
same words as every command (`mcpproxy.wording.logins`).
"""

from analysis.conversation.handshake import text_of
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.login import Leg, Login, leg_of
from analysis.conversation.record_ref import RecordRef
from captures.record import Record
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.login_rows import LegRows
from mcpproxy.tui.data.reading import Reading


def login_at(reading: Reading, number: int) -> Login | None:
    """Returns a login as far as it is known now, or None if the records of its legs are gone. Reads the file."""
    state = reading.logins.state(number)
    login = Login(number)
    for leg_rows in reading.logins.read_legs(number):
        leg = leg_at(reading, leg_rows)
        if leg is None:
            continue
        login.add(leg)
        if state.outcome == "rejected" and leg_rows.end == state.failed:
            login.rejection = leg
    if not login.legs:
        return None
    if state.outcome == "rejected" and login.rejection is None:
        login.rejection = leg_at(reading, LegRows(NONE, state.failed))
    login.skipped_count = max(0, state.leg_count - len(login.legs))
    login.guessed_count, login.is_over = state.guessed_count, state.is_over
    # If something else ended it, it had more time than a client needs.
    login.cut_off_ns = reading.index.last_ns if state.is_over else None
    login.accepted = _exchange_at(reading, LegRows(NONE, state.accepted))
    return login


def leg_at(reading: Reading, rows: LegRows) -> Leg | None:
    """Returns a leg, or None if its records are gone. Reads the file."""
    http = _exchange_at(reading, rows)
    return None if http is None else leg_of(http)


def _exchange_at(reading: Reading, rows: LegRows) -> HttpExchange | None:
    exchanges, number, header = HttpExchanges(), None, reading.index.header.members
    exchanges.upstream = text_of(header.get("public")) or text_of(header.get("upstream")) or ""
    for row in rows:
        record = reading.index.read_item(row) if row < len(reading.index) else None
        if isinstance(record, Record):
            exchanges.on_record(record.members, RecordRef(record.seq, record.t_ns))
            number = record.members.get("exchange")
    return exchanges.get(number) if type(number) is int else None
