"""Explains requests that match no recorded one: which recorded request is nearest."""

from typing import Any, Final

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


class NearestRequests:
    """Finds the recorded requests of a session that are nearest to requests that match none."""

    def __init__(self, script: Script, session: int, matching: Matching) -> None:
        """Begin with nothing read."""
        self._script, self.session, self._matching = script, session, matching
        self._position = 0
        self._by_method: dict[str, dict[str, list[RecordedCall]]] = {}

    def has_method(self, method: str) -> bool:
        """Whether the client sent a request with this method in the recording, as far as it was read."""
        self._read()
        return method in self._by_method

    @property
    def revisions(self) -> list[str]:
        """The revisions that clients named in the recorded session, at most some. Untrusted text."""
        self._read()
        found: list[str] = []
        for calls in self._by_method.get("server/discover", {}).values():
            for recorded in calls[:10]:
                for message in client_messages_in(self._script.raw(recorded.item)):
                    revision = message.meta.get(PROTOCOL_VERSION) if isinstance(message, Request) else None
                    if isinstance(revision, str) and revision not in found:
                        found.append(revision[:64])
        return found

    def find(self, method: str, name: str, params: Any) -> tuple[NearestRequest, RecordedCall] | None:
        """Returns the recorded request that differs least from one that matches none; None if there is none."""
        self._read()
        by_name = self._by_method.get(method, {})
        chosen = by_name.get(name, [])[:MAX_CANDIDATES]
        for other_name, calls in by_name.items():
            if len(chosen) >= MAX_CANDIDATES:
                break
            if other_name != name:
                chosen += calls[: max(1, MAX_CANDIDATES // len(by_name))]
        candidates, by_call = [], {}
        for recorded, candidate_params in self._with_params(chosen[:MAX_CANDIDATES]):
            by_call[recorded.call] = recorded
            item = recorded.item
            source = item if recorded.position is None else item.members[recorded.position]
            candidates.append((recorded.call, item.seq, source.method, source.name, candidate_params))
        nearest = nearest_request(method, name, params, candidates, self._matching)
        return None if nearest is None else (nearest, by_call[nearest.call])

    def _read(self) -> None:
        numbers = self._script.items_of(self.session)
        items = self._script.items
        while self._position < len(numbers):
            item = items[numbers[self._position]]
            self._position += 1
            if item.sender != "client":
                continue
            for recorded in calls_in(item):
                source = item if recorded.position is None else item.members[recorded.position]
                self._by_method.setdefault(source.method, {}).setdefault(source.name, []).append(recorded)

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
