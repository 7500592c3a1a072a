"""Tracks the calls under way: their count, their progress tokens, the client's calls on a pipe, and stalls."""

from itertools import islice
from typing import Final

from analysis.conversation.addressing import Addressing, RequestKey
from analysis.conversation.call import Call, IdState, token_of
from analysis.conversation.call_table import CallTable
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Id, Notification, Request, Response, Side, other_side
from analysis.conversation.session import Session
from analysis.conversation.stalls import Stalls
from analysis.facts import target_name
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import Era

PROGRESS_METHODS: Final = frozenset({"notifications/progress", "progress"})
"""The methods of progress notifications; the second lacks the prefix."""
MAX_SEARCHED_REQUESTS: Final = 100
"""The most requests of one batch that are searched for the only one that is still open."""


class CallsUnderWay:
    """The calls between their request and their end, and which of them the last item changed."""

    def __init__(self, tables: dict[Side, CallTable], addressing: Addressing) -> None:
        """Create a tracker without calls.

        Args:
            tables: the requests, which the caller keeps up to date.
            addressing: which exchange carried each request.
        """
        self.count = 0
        """The number of calls so far."""
        self.changed_calls: dict[Call, None] = {}
        """The calls that the last item has opened, ended or otherwise changed."""
        self.stalls = Stalls()
        self._tables, self._addressing = tables, addressing
        self._pipe_calls: dict[Call, None] = {}
        """The client's calls on stdio whose responses are awaited."""
        self._by_token: dict[tuple[int, Side, Id], Call] = {}
        """The open calls with a progress token, by session number, the side that reports progress, and the token."""

    def begin(
        self,
        request: Request,
        key: RequestKey,
        state: IdState | None,
        revision: str | None,
        era: Era | None,
        session: Session,
        http: HttpExchange | None,
    ) -> tuple[Call, IdState]:
        """Create the call of a request, which is under way from now on, and enter it in its table.

        Args:
            request: the request.
            key: the key under which its response is paired.
            state: NEVER_SEEN if no earlier request is known to have had the key; None to look up the state.
            revision: the revision in force for it.
            era: the era in force for it.
            session: its session.
            http: the HTTP exchange that carried it; None on stdio.

        Returns:
            The call, and the previous state of its key.
        """
        number, side = self.count, request.sender
        self.count = number + 1
        session.in_flight += 1
        name = token = None
        params = request.body.get("params")
        if type(params) is dict:
            name, meta = target_name(params), params.get("_meta")
            if type(meta) is dict and "progressToken" in meta:
                token = token_of(meta["progressToken"])
        call = Call(request, revision, era, http, session, number, name, token, session.in_flight)
        if side == "server":
            call.outer = self._outer_call(http)
        elif http is None and request.id.is_answerable:
            self._pipe_calls[call] = None
        if token is not None and request.id.is_answerable:
            self._by_token[session.number, other_side(side), token] = call
        self.changed_calls[call] = None
        table = self._tables[side]
        if state is None:
            state = table.add(call, key)
        else:
            table.add_first(call, key)
        if table.dropped_calls:
            self._drop(table.dropped_calls)
        return call, state

    def _drop(self, calls: list[Call]) -> None:
        """End calls that their table had to forget, and clear their list."""
        for call in calls:
            call.is_forgotten = True
            self.remove(call)
        calls.clear()

    def answer(self, call: Call, response: Response, session: Session) -> None:
        """End a call with its response.

        Args:
            call: the call that the response answers, which is no longer open in its table.
            response: the response.
            session: the session in which the response came.
        """
        if call.request.seq > session.received[response.sender]:
            session.received[response.sender] = call.request.seq
        self.remove(call)
        call.answer(response)

    def remove(self, call: Call) -> None:
        """Note that a call is no longer under way: it was answered, has failed or was forgotten."""
        session = call.session
        assert session is not None
        if self.stalls.has_any:
            self.measure_stall(call)
        if call.cancellation is None:
            session.in_flight -= 1
            self._pipe_calls.pop(call, None)
        if call.token is not None:
            key = session.number, other_side(call.request.sender), call.token
            if self._by_token.get(key) is call:
                del self._by_token[key]
        self.changed_calls[call] = None

    def cancel(self, call: Call) -> None:
        """Note that a call was cancelled: its sender no longer waits, but it may still be answered."""
        self.measure_stall(call)
        if call.session is not None:
            call.session.in_flight -= 1
        self._pipe_calls.pop(call, None)
        self.changed_calls[call] = None

    def on_progress(self, notification: Notification, session: Session) -> None:
        """Count a progress notification for the call with its token."""
        call = self.reported_call(notification, session) if self._by_token else None
        if call is not None:
            if not call.progress:
                call.first_progress_ns = notification.t_ns
            call.progress += 1
            self.changed_calls[call] = None

    def reported_call(self, notification: Notification, session: Session) -> Call | None:
        """Returns the open call on whose progress a notification reports, or None if there is none."""
        params = notification.params
        token = token_of(params.get("progressToken")) if isinstance(params, dict) else None
        return None if token is None else self._by_token.get((session.number, notification.sender, token))

    def only_pipe_call(self) -> Call | None:
        """Returns the client's only call on a pipe whose response is awaited soon, or None if there are several.

        Requests that stay open for as long as the client wants do not count.
        """
        calls = islice(self._pipe_calls, MAX_SEARCHED_REQUESTS)
        awaited_calls = [*islice((call for call in calls if call.request.method not in ENDLESS_METHODS), 2)]
        return awaited_calls[0] if len(awaited_calls) == 1 else None

    def measure_stall(self, call: Call) -> None:
        """Set how long after its stamp the request of a call was handed on, as far as it is known."""
        # Server frames are not measured: they are stamped when they are read, so only client frames wait after their
        # stamp.
        if call.request.sender == "client":
            call.stall_ns = self.stalls.waited_ns(call.request.seq)

    def _outer_call(self, http: HttpExchange | None) -> Call | None:
        """Returns the client's only call that the server can be executing, on a pipe or in an exchange, or None."""
        if http is None:
            return next(iter(self._pipe_calls)) if len(self._pipe_calls) == 1 else None
        keys = self._addressing.requests_in(http.number)
        if len(keys) > MAX_SEARCHED_REQUESTS:
            return None
        table = self._tables["client"]
        open_calls = [call for key in keys if (call := table.get(key)) is not None and call.cancellation is None]
        return open_calls[0] if len(open_calls) == 1 else None
