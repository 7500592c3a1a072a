"""Explains requests that match no recorded one: which recorded request is nearest."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

from analysis.comparison.requests import bounded
from analysis.conversation.message import Request
from analysis.conversation.session import PROTOCOL_VERSION
from analysis.playback.incoming import client_messages_in, params_of
from analysis.playback.matching import Matching
from analysis.playback.nearest import NearestRequest, nearest_request
from analysis.playback.script import Script
from analysis.protocol.error_codes import METHOD_NOT_FOUND, NOT_RECORDED
from mcpproxy.mock.miss import miss_response
from mcpproxy.mock.recorded_calls import RecordedCall, calls_in

MAX_CANDIDATES: Final = 200
"""How many recorded requests are compared with one that matches none."""
MAX_CANDIDATE_BYTES: Final = 2 << 20
"""How many bytes of them."""


def error_of_miss(id_token: bytes, method: str, name: str, nearest: NearestRequest | None, *, is_known: bool) -> bytes:
    """Returns the error that answers a miss.

    Args:
        id_token: the id of the request as its JSON token.
        method: its method. Untrusted text.
        name: what it names; empty if nothing. Untrusted text.
        nearest: the nearest recorded request, if there is any.
        is_known: whether the recorded client sent requests with this method; otherwise, the code is that of a server
            without the method, so that clients that try things out fall back.
    """
    return miss_response(id_token, method, name, nearest, NOT_RECORDED if is_known else METHOD_NOT_FOUND)


def next_request(recorded: RecordedCall) -> NearestRequest:
    """Returns the recorded request that must come next in the recorded order."""
    request = recorded.request
    method, name = bounded(request.method), bounded(request.name)
    return NearestRequest(recorded.item.seq, method, name, (), recorded.call, is_next=True)


class NearestRequests:
    """Finds the recorded requests, of all sessions, that are nearest to requests that match none."""

    def __init__(self, script: Script, matching: Matching) -> None:
        """Begin with nothing read."""
        self._script, self._matching = script, matching
        self._position = 0
        self._by_method: dict[str, dict[str, dict[int, list[RecordedCall]]]] = {}
        """By method, name and session."""

    def has_method(self, method: str) -> bool:
        """Whether the client sent a request with this method in the recording, as far as it was read."""
        self._read()
        return method in self._by_method

    @property
    def revisions(self) -> list[str]:
        """The revisions that clients named in the recording, at most some. Untrusted text."""
        self._read()
        found: list[str] = []
        for by_session in self._by_method.get("server/discover", {}).values():
            for recorded in islice(chain.from_iterable(by_session.values()), 10):
                for message in client_messages_in(self._script.raw(recorded.item)):
                    revision = message.meta.get(PROTOCOL_VERSION) if isinstance(message, Request) else None
                    if isinstance(revision, str) and revision not in found:
                        found.append(revision[:64])
        return found

    def find(
        self, method: str, name: str, params: Any, session: int, *, is_of_session: bool
    ) -> tuple[NearestRequest, RecordedCall] | None:
        """Returns the recorded request that differs least from one that matches none; None if there is none.

        Args:
            method: the method.
            name: what it names.
            params: its params.
            session: the session that is played; of equally near ones, its own come first.
            is_of_session: whether requests of other sessions do not count.
        """
        self._read()

        def candidates_in(by_session: dict[int, list[RecordedCall]]) -> Iterator[RecordedCall]:
            yield from by_session.get(session, ())
            if not is_of_session:
                yield from (call for number, calls in by_session.items() if number != session for call in calls)

        by_name = self._by_method.get(method, {})
        chosen = list(islice(candidates_in(by_name.get(name, {})), MAX_CANDIDATES))
        for other_name, by_session in by_name.items():
            if len(chosen) >= MAX_CANDIDATES:
                break
            if other_name != name:
                chosen += islice(candidates_in(by_session), max(1, MAX_CANDIDATES // len(by_name)))
        candidates, by_call = [], {}
        for recorded, candidate_params in self._with_params(chosen[:MAX_CANDIDATES]):
            by_call[recorded.call] = recorded
            request = recorded.request
            candidates.append((recorded.call, recorded.item.seq, request.method, request.name, candidate_params))
        nearest = nearest_request(method, name, params, candidates, self._matching)
        if nearest is None:
            return None
        found = by_call[nearest.call]
        return nearest._replace(session=found.item.session if found.item.session != session else None), found

    def _read(self) -> None:
        items = self._script.items
        while self._position < len(items):
            item = items[self._position]
            self._position += 1
            if item.sender != "client":
                continue
            for recorded in calls_in(item):
                request = recorded.request
                by_session = self._by_method.setdefault(request.method, {}).setdefault(request.name, {})
                by_session.setdefault(item.session, []).append(recorded)

    def _with_params(self, chosen: list[RecordedCall]) -> list[tuple[RecordedCall, Any]]:
        read_bytes = 0
        found: list[tuple[RecordedCall, Any]] = []
        for recorded in chosen:
            raw = self._script.raw(recorded.item)
            read_bytes += len(raw)
            if read_bytes > MAX_CANDIDATE_BYTES and found:
                break
            messages = client_messages_in(raw)
            message = messages[recorded.position or 0] if (recorded.position or 0) < len(messages) else None
            if isinstance(message, Request):
                found.append((recorded, params_of(message)))
        return found
