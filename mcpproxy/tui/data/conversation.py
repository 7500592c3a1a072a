"""Conversation: what is known about a capture as a whole: its two sides, its losses, and its HTTP exchanges.

The worker reports it as JSON, at most a few times a second. An HTTP exchange is assembled from its records when it is
shown.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from analysis.conversation.call import ProbableAnswer
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.http_exchanges import HttpExchanges as Exchanges
from analysis.conversation.loss_counter import LostRecords
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Peer
from analysis.reading import CaptureOverview, Losses, Reading
from captures.index import Index
from captures.record import Record
from mcpproxy.tui.data.http_exchanges import HttpExchanges

MAX_SESSIONS_WITH_PEERS: Final = 10_000
"""The maximum number of sessions whose two sides are remembered."""
MAX_NOTES_PER_SORT: Final = 100_000
"""The maximum number of notes of each sort; the worker sends no more."""
_MAX_NUMBER: Final = 1 << 128
"""Greater than any sum of numbers that a capture can contain."""


class MissingRange(NamedTuple):
    """A range of numbers in which records are missing."""

    first: int
    last: int
    """The range, with both ends."""
    missing: int
    """How many records are missing."""


class Peers(NamedTuple):
    """The two sides of a session."""

    client: Peer | None
    server: Peer | None
    revisions: tuple[str, ...]
    """Its revision; those of all sessions for a capture as a whole."""


class Cancellation(NamedTuple):
    """The meaning of a cancellation."""

    call: int
    """Number of the call that it names."""
    waited_ns: int | None
    """How long the call had waited; None if it had been cancelled or answered before."""
    is_abandoned: bool
    """Whether it means that its sender abandons the call."""


class Carrier(NamedTuple):
    """The HTTP exchange by which a call ended without a response."""

    exchange: int
    break_row: int | None
    """Row of the record with which it broke off; None if that did not end the call."""


class Conversation:
    """What is known about a capture so far. One thread fills it while others read."""

    def __init__(self, index: Index, http: HttpExchanges) -> None:
        """Start with the facts in the header.

        Args:
            index: the index of the capture.
            http: the rows of its HTTP exchanges.
        """
        first = Reading()
        first.feed(index.header)
        self.capture: CaptureOverview = first.capture
        """What is known about the capture as a whole."""
        self.environment = first.fold.environment
        """The environment that the client gave to the server: name → keyed hash."""
        self.losses: Losses = first.losses
        """Counts of losses that may include messages, which were never read."""
        self.forgotten: Sequence[str] = ()
        """Sentences about what had to be forgotten because too much was open at the same time."""
        self.missing_ranges: Sequence[MissingRange] = ()
        """Where records are missing; beyond the maximum number, the last range includes all that follow."""
        self.omitted_counts: tuple[int, int, int] = (0, 0, 0)
        """How many requests are above the maximum, how many notes about calls are left out, and how many messages that
        span lines are shown as separate lines.
        """
        self.probable_answers: dict[int, ProbableAnswer] = {}
        """Responses that match no request, by the unanswered request for which each was probably meant."""
        self.guesses: dict[int, str] = {}
        """By the row of a response that matches no request: the request for which it was probably meant, as a clause.
        Untrusted.
        """
        self.cancelled_at: dict[int, int] = {}
        """By the number of a call: the row of the message that cancelled it, or of the end of its HTTP exchange."""
        self.cancellations: dict[int, Cancellation] = {}
        """Messages that cancel a call, by row."""
        self.carriers: dict[int, Carrier] = {}
        """By the number of a call: how it ended, if the exchange of its request does not show it."""
        self.lost_answers: dict[int, LostRecords] = {}
        """By the number of a call: the lost records among which its response may be."""
        self._notes: dict[str, dict[int, Any]] = {
            "probable": self.probable_answers,
            "meant": self.guesses,
            "cancelled": self.cancelled_at,
            "cancels": self.cancellations,
            "carried": self.carriers,
            "lost": self.lost_answers,
        }
        self._peers: dict[int, Peers] = {}
        self._index, self._http = index, http

    def peers(self, session: int | None) -> Peers:
        """The two sides of a session, or those of the capture if the session is not known."""
        capture_peers = Peers(self.capture.client, self.capture.server, self.capture.revisions)
        return capture_peers if session is None else self._peers.get(session, capture_peers)

    def exchange(self, number: int) -> HttpExchange | None:
        """Returns the HTTP exchange with a number, assembled from its records in the file, or None if it is unknown."""
        exchanges = Exchanges()
        for row in self._http.rows(number):
            record = self._index.read_item(row)
            if isinstance(record, Record):
                exchanges.on_record(record.members, RecordRef(record.seq, record.t_ns))
        return exchanges.get(number)

    def apply_news(self, news: dict[str, Any]) -> None:
        """Apply a report from the worker.

        Raises:
            LookupError, TypeError, ValueError: it is invalid.
        """
        if "note" in news:
            self._store_note(*news["note"])
        if "session" in news:
            if len(self._peers) >= MAX_SESSIONS_WITH_PEERS:
                self._peers.pop(next(iter(self._peers)))
            client, server, revision = news["peers"]
            revisions = () if revision is None else (str(revision),)
            self._peers[as_number(news["session"])] = Peers(_peer(client), _peer(server), revisions)
        if "about" in news:
            self.capture = _valid_about(CaptureOverview(*news["about"]))
        if "lost" in news:
            self.losses = Losses(*map(as_number, news["lost"]))
        if "losses" in news:
            self.missing_ranges = [MissingRange(*map(as_number, loss)) for loss in news["losses"]]
        if "forgotten" in news:
            self.forgotten = [*map(str, news["forgotten"])]
        if "unknown" in news:
            omitted_requests, omitted_notes, unjoined_messages = map(as_number, news["unknown"])
            self.omitted_counts = omitted_requests, omitted_notes, unjoined_messages

    def _store_note(self, sort: Any, number: Any, *values: Any) -> None:
        """Store a note about a call, or about the message in a row."""
        notes: dict[int, Any] = self._notes[sort]
        notes[as_number(number)] = _NOTE_PARSERS[sort](*values)
        if len(notes) > MAX_NOTES_PER_SORT:
            raise ValueError("more than the worker may report")


def _valid_about(about: CaptureOverview) -> CaptureOverview:
    """Returns the report about the capture as a whole with its members checked.

    Raises:
        TypeError, ValueError: it is invalid.
    """
    texts = about.name, about.id, about.transport, about.ending, *about.revisions
    numbers = about.begins_at, about.t_ns, about.sessions, about.guesses, about.wall_ns or 0, about.server_ended_ns or 0
    if not all(text is None or isinstance(text, str) for text in texts) or not all(map(_is_number, numbers)):
        raise ValueError("not a valid description of a capture")
    return about._replace(client=_peer(about.client), server=_peer(about.server), revisions=tuple(about.revisions))


def as_number(value: object) -> int:
    """Returns a reported number of records, rows or nanoseconds.

    Raises:
        ValueError: it is not a number, or is greater than any that a screen can show.
    """
    if type(value) is not int or not 0 <= value < _MAX_NUMBER:
        raise ValueError("not a valid number")
    return value


def _is_number(value: object) -> bool:
    # A header may contain any time that the file format allows.
    return type(value) is int and abs(value) < 1 << 64


def _peer(peer: Any) -> Peer | None:
    return None if peer is None else Peer(*map(str, peer))


def _probable_answer(seq: Any, id_: Any) -> ProbableAnswer:
    return ProbableAnswer(as_number(seq), None if id_ is None else str(id_))


def _cancellation(call: Any, waited_ns: Any, is_abandoned: Any) -> Cancellation:
    waited = None if waited_ns is None else as_number(waited_ns)
    return Cancellation(as_number(call), waited, is_abandoned is True)


def _carrier(exchange: Any, break_row: Any) -> Carrier:
    return Carrier(as_number(exchange), None if break_row is None else as_number(break_row))


def _lost_records(first: Any, last: Any, places: Any) -> LostRecords:
    return LostRecords(as_number(first), as_number(last), as_number(places))


_NOTE_PARSERS: Final[dict[str, Callable[..., object]]] = {
    "probable": _probable_answer,
    "meant": str,
    "cancelled": as_number,
    "cancels": _cancellation,
    "carried": _carrier,
    "lost": _lost_records,
}
"""The functions that parse the values of a note, by its sort."""
