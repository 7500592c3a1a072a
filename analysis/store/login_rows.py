"""Builds the rows of logins for a load."""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from analysis.conversation.login import Leg, Login
from analysis.store.tables import Row, build_row
from analysis.store.values import integer, text

MAX_HELD_LOGINS: Final = 1_000
"""The most logins whose rows are held back because more legs may come."""
MAX_FACT_CHARS: Final = 2048
"""The most characters of a fact that are kept; no recorder writes a longer one."""


class LoginRows:
    """The rows of the logins of a capture."""

    def __init__(self, rows: list[Row], start: Row) -> None:
        """Begin without logins; `rows` receives the rows, each of which begins with `start`."""
        self._rows, self._start = rows, start
        self._held: OrderedDict[int, Login] = OrderedDict()
        self._last_written = 0

    def hold(self, logins: Iterable[Login]) -> None:
        """Hold back the rows of logins that have changed."""
        for login in logins:
            if login.number > self._last_written:
                self._held[login.number] = login
                if len(self._held) > MAX_HELD_LOGINS:
                    self._write_first()

    def finish(self) -> None:
        """Write all rows that are held back."""
        while self._held:
            self._write_first()

    def _write_first(self) -> None:
        number, login = self._held.popitem(last=False)
        self._last_written = max(self._last_written, number)
        self._rows.append(self._start + login_row(login))


def login_row(login: Login) -> Row:
    """Returns the row of a login, without the values at the beginning of every row of a capture."""
    outcome = login.outcome
    failed_leg = login.failed_leg if outcome == "failed" else login.rejection
    failed_end = None if failed_leg is None else failed_leg.http.end_ref
    address, program = login.first.client
    return build_row(
        "logins",
        {
            "login": login.number,
            "outcome": outcome,
            "is_over": login.is_over,
            "is_renewal": login.is_renewal,
            "is_unbroken": login.is_unbroken,
            "peer": text(address) or None,
            "user_agent": text(program) or None,
            "started_ns": integer(login.started_ns),
            "ended_ns": integer(login.ended_ns),
            "leg_count": login.count,
            "guessed_legs": login.guessed_count,
            "legs": [leg.http.number for leg in login.legs if integer(leg.http.number) is not None],
            "kinds": ", ".join(kind for kind, _ in groupby(leg.kind for leg in login.legs)),
            "failed_leg": None if failed_leg is None else failed_leg.kind,
            "failed_exchange": None if failed_leg is None else integer(failed_leg.http.number),
            "failed_frame": None if failed_end is None else integer(failed_end.seq),
            "failed_status": None if failed_leg is None else small_status(failed_leg.http.status),
            "error": _fact_of(failed_leg, "error"),
            "error_description": _fact_of(failed_leg, "error_description"),
            "grant_type": _last_fact(login, "grant_type", "token"),
            "scope": _fact_of(login.issued, "scope") or _last_fact(login, "scope"),
            "resource": _last_fact(login, "resource", "authorize", "token", "device") or _last_fact(login, "resource"),
            "client_id": _last_fact(login, "client_id"),
            "redirect_uri": _last_fact(login, "redirect_uri"),
            "issuer": _last_fact(login, "iss"),
            "server_elsewhere": text(login.server_elsewhere, MAX_FACT_CHARS) or None,
            "accepted_exchange": None if login.accepted is None else integer(login.accepted.number),
        },
    )


def small_status(status: int | None) -> int | None:
    """Returns a status that fits its column, or None."""
    return status if status is not None and abs(status) < 2**31 else None


def _fact_of(leg: Leg | None, name: str) -> str | None:
    return None if leg is None else text(leg.facts.get(name), MAX_FACT_CHARS) or None


def _last_fact(login: Login, name: str, *kinds: str) -> str | None:
    """Returns the last fact with a name, of legs of some kinds or of all, or None."""
    legs = (leg for leg in reversed(login.legs) if not kinds or leg.kind in kinds)
    return next(filter(None, (_fact_of(leg, name) for leg in legs)), None)
