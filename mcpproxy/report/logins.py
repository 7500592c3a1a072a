"""Decides when a login of a conversation gets its line, and which records of its legs need none of their own.

A login gets its line when its token is issued, or when it is over: when the endpoint accepts or refuses a message, when
the client has not reacted to a failure for some time, after a long pause, or at the end. It gets another one only if it
changes after that.
All of it depends only on the records and their times, so it is the same for a file and for a capture that is followed.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.login import DISCOVERY, GIVEN_UP_NS, Login, Outcome, credential_of
from analysis.conversation.logins import MAX_LOGINS, Logins
from captures.record import Record
from mcpproxy.recorder.oauth_legs import is_proven, metadata_leg, path_of, usual_leg
from mcpproxy.wording.logins import LoginSummary, summary_of

MAX_HELD_REQUESTS: Final = 1_000
"""The maximum number of requests of probable legs that are held back until they end."""


class _LastSummary(NamedTuple):
    """The last summary of a login."""

    outcome: Outcome
    leg_count: int


class LoginLines:
    """The lines about the logins of one conversation. Memory is bounded."""

    def __init__(self, logins: Logins) -> None:
        """Start without lines.

        Args:
            logins: the logins of the conversation, which the fold updates.
        """
        self._logins = logins
        self._last_summaries: BoundedDict[int, _LastSummary] = BoundedDict(MAX_LOGINS)
        self._failed_logins: BoundedDict[int, Login] = BoundedDict(MAX_LOGINS)
        """The logins whose last leg failed, in the order of these legs: their clients may still go on."""
        self.is_folded = False
        """Whether the last record is part of a login, so that it needs no line of its own."""
        self.is_challenge = False
        """Whether the last record is a challenge that belongs to a login, so that the response is no alarm."""
        self._held_requests: dict[int, Record] = {}
        """The requests of probable legs that have no line until they end, by the number of their HTTP exchange."""

    def on_record(self, record: Record) -> Iterator[LoginSummary]:
        """Process the next record other than a frame, after the fold has; yield the logins that are due."""
        self.is_folded = self.is_challenge = False
        if record.rec == "exchange":
            self._check_exchange(record)
        for login in self._logins.changed:
            self._failed_logins.pop(login.number, None)
            if login.is_over or login.is_paused or login.issued is login.last:
                yield from self._new_summary(login)
            elif login.failed_leg is login.last and login.last.kind not in DISCOVERY:
                displaced = self._failed_logins.put(login.number, login)
                if displaced is not None:
                    yield from self._new_summary(displaced)
        while self._failed_logins:
            login = next(iter(self._failed_logins.values()))
            if record.t_ns - login.ended_ns < GIVEN_UP_NS:
                break
            del self._failed_logins[login.number]
            yield from self._new_summary(login)

    def last_summaries(self) -> Iterator[LoginSummary]:
        """Yields the logins that are due at the end: those that it ends, or that are still under way."""
        for login in self._logins.all():
            yield from self._new_summary(login)

    def _check_exchange(self, record: Record) -> None:
        """Decide whether a record of an HTTP exchange needs a line; hold a request back until it ends.

        Only the end of an exchange shows whether it is a leg, so the request is held back if it probably is one.
        """
        number, stage = record.members.get("exchange"), record.members.get("stage")
        if type(number) is not int:
            return
        if stage == "request":
            self.is_folded = len(self._held_requests) < MAX_HELD_REQUESTS and _may_be_leg(record.members.get("request"))
            if self.is_folded:
                self._held_requests[number] = record
        if stage != "end":
            return
        self._held_requests.pop(number, None)
        login = next((login for login in self._logins.changed if login.last.http.number == number), None)
        if login is None or record.members.get("flags"):
            return  # it is not a leg, or mcpproxy itself found fault with it
        self.is_challenge = login.last.kind == "challenge"
        # A credential that the server refuses may be the end of a conversation, so its line stays.
        is_expected = not self.is_challenge or login.rejection is login.last or not credential_of(login.last.http)
        self.is_folded = is_expected

    def held_requests(self) -> list[Record]:
        """Returns the requests that were held back and have not ended."""
        return [*self._held_requests.values()]

    def _new_summary(self, login: Login) -> Iterator[LoginSummary]:
        """Yields the summary of a login, unless nothing has changed since its last summary."""
        previous = self._last_summaries.get(login.number)
        if previous == (login.outcome, login.count):
            return
        self._last_summaries.put(login.number, _LastSummary(login.outcome, login.count))
        # What is wrong with a token that was issued is explained by all legs, which the earlier line did not list.
        is_explained = previous is not None and (previous.outcome != "granted" or login.outcome == "granted")
        yield summary_of(login, after=previous.leg_count if previous is not None and is_explained else 0)


def _may_be_leg(request: object) -> bool:
    """Whether a request is a GET whose target shows that it is probably a leg."""
    target = request.get("target") if isinstance(request, dict) and request.get("method") == "GET" else None
    if not isinstance(target, str):
        return False
    path = path_of(target.encode("utf-8", "replace"))
    if metadata_leg(path) is not None:
        return True
    parameters = {pair.partition("=")[0]: "" for pair in target.partition("?")[2].split("&")}
    return is_proven("authorize", parameters) or (usual_leg(path) == "callback" and is_proven("callback", parameters))
