"""The recorded sessions from which one client gets its answers: one, or several that are only guesses."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from analysis.conversation.message import Request
from analysis.playback.script import Script
from mcpproxy.mock.equal_calls import EqualCalls
from mcpproxy.mock.options import MockOptions
from mcpproxy.mock.recorded_calls import RecordedCall, RecordedCalls
from mcpproxy.mock.session_play import Delivery, SessionPlay

_MAX_ITEMS_BEFORE_REQUEST: Final = 1_000
"""How many items of a session are searched for its first request."""
_MAX_GUESSED_SESSIONS: Final = 1_000
"""How many sessions without a handshake are searched for a request."""


class _PlayedSession(NamedTuple):
    calls: RecordedCalls
    play: SessionPlay
    equal_calls: EqualCalls | None
    """Finds requests with the same arguments; None if all that match have the same ones, or if the order decides."""


class PlayedSessions:
    """The sessions that one client plays."""

    def __init__(self, script: Script, session: int, options: MockOptions) -> None:
        """Begin with one session."""
        self._script, self._options = script, options
        self._first_methods: dict[int, str] = {}
        self._begin(session)

    def _begin(self, session: int) -> None:
        self.session = session
        """The number of the recorded session that is played; a new handshake on the same pipe takes the next one."""
        self.has_handshake = False
        """Whether its handshake was used."""
        self._played: dict[int, _PlayedSession] = {}
        self._active: dict[int, _PlayedSession] = {}
        """The played sessions in which something may be due."""
        self._last: dict[str, tuple[int, RecordedCall]] = {}
        """By key, the recorded request that was used last, with its session."""
        self._used: set[int] = set()
        """The recorded calls that were used, where requests with the same arguments take precedence."""
        self.main = self.play_of(session)
        """The session that is played, not one of the others without a handshake."""

    def play_of(self, session: int) -> SessionPlay:
        """Returns a session as it is played."""
        return self._session(session).play

    def _session(self, session: int) -> _PlayedSession:
        if session not in self._played:
            is_in_sequence = self._options.matching.rule == "sequence"
            calls = RecordedCalls(self._script, session, is_in_sequence=is_in_sequence)
            matching, play = self._options.matching, SessionPlay(self._script, session, self._options.speed)
            is_by_method = matching.rule == "method"
            equal_calls = EqualCalls(self._script, session, matching.ignored_places) if is_by_method else None
            self._played[session] = _PlayedSession(calls, play, equal_calls)
        self._active[session] = self._played[session]
        return self._played[session]

    # ---- requests

    def move_to_handshake(self, key: str) -> None:
        """Take the next recorded session with a handshake if this one's was used, or if it has none.

        Args:
            key: the key of the client's `initialize`.
        """
        if not self.has_handshake and self._script.requests(self.session, key):
            return
        sessions = list(self._script.sessions)
        start = sessions.index(self.session) + 1 if self.session in sessions else len(sessions)
        following = (session for session in sessions[start:] if self._script.requests(session, key))
        session = next(following, None)
        if session is not None:
            self._begin(session)

    def take(self, key: str, message: Request) -> tuple[int, RecordedCall] | None:
        """Use the next recorded request with a key; returns it with its session, or None if all were used.

        Args:
            key: the key of the client's request.
            message: the request: one with the same arguments takes precedence.
        """
        for session in self._sessions_to_search():
            recorded = self._take_from(self._session(session), key, message)
            if recorded is not None:
                self._last[key] = session, recorded
                return session, recorded
        return None

    def _take_from(self, played: _PlayedSession, key: str, message: Request) -> RecordedCall | None:
        if played.equal_calls is None:
            return played.calls.take(key)
        recorded = played.equal_calls.take(key, played.equal_calls.key_of(message))
        if recorded is None and not played.equal_calls.may_grow(key):
            recorded = played.calls.take(key)
            while recorded is not None and recorded.call in self._used:
                recorded = played.calls.take(key)
        if recorded is not None:
            self._used.add(recorded.call)
        return recorded

    def last(self, key: str) -> tuple[int, RecordedCall] | None:
        """Returns the request with a key that was used last, whose answer is repeated; None if there is none."""
        return self._last.get(key) if self._session(self.session).calls.repeats else None

    @property
    def next_in_sequence(self) -> RecordedCall | None:
        """The request that must come next, if another one came; None without a sequence, or at its end."""
        return self._session(self.session).calls.next_in_sequence

    def _sessions_to_search(self) -> Iterator[int]:
        """Yields this session and, if it has no handshake, others without one, as those are guesses.

        A client may have been taken for several, such as one that does not name itself.
        """
        yield self.session
        if self.first_method(self.session) != "initialize":
            for session in list(self._script.sessions)[:_MAX_GUESSED_SESSIONS]:
                if session != self.session and self.first_method(session) not in ("", "initialize"):
                    yield session

    def first_method(self, session: int) -> str:
        """Returns the method of the first request in a recorded session; empty if it has not been read."""
        if session not in self._first_methods:
            for number in self._script.items_of(session)[:_MAX_ITEMS_BEFORE_REQUEST]:
                item = self._script.items[number]
                if item.sender == "client" and item.kind == "request":
                    self._first_methods[session] = item.method
                    break
        return self._first_methods.get(session, "")

    @property
    def is_modern(self) -> bool:
        """Whether the recorded client opened its session as the modern era does, without a handshake."""
        return self.first_method(self.session) == "server/discover"

    def is_of_other_era(self, method: str) -> bool:
        """Whether a method opens a conversation of the era that was not recorded: clients then try the other era."""
        if method == "server/discover":
            return self.first_method(self.session) == "initialize"
        return method == "initialize" and self.is_modern

    # ---- what is due

    def take_due(self, now_ns: int) -> Delivery | None:
        """Take the next item that is due; returns None if there is none."""
        for session, played in list(self._active.items()):
            delivery = played.play.take_due(now_ns)
            if delivery is not None:
                return delivery
            if session != self.session and played.play.is_idle:
                del self._active[session]
        return None

    @property
    def next_due_ns(self) -> int | None:
        """When something will be due; None if that depends on the client, or on the growth of the script."""
        times = [played.play.next_due_ns for played in self._active.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def is_reading_on(self) -> bool:
        """Whether a request waits for something that may be read later."""
        return any(played.play.is_reading_on for played in self._active.values())

    @property
    def is_at_end(self) -> bool:
        """Whether the last session has been played to its end."""
        sessions = self._script.sessions
        return (not sessions or sessions[-1] == self.session) and self.next_due_ns is None and self.main.is_all_sent
