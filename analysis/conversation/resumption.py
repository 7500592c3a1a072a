"""Links event streams to the earlier streams that they resume (2025-03-26 to 2025-11-25).

Servers give events ids that are unique within a session. A client whose stream broke opens another stream with a GET
that names the last id it received; later events arrive there. To the protocol, streams linked like this are one stream,
in several HTTP exchanges.

An id that was never sent resumes no stream, and an id that two streams sent is ambiguous; both cases are reported.
Nothing can be resumed by a POST, on the older transport, or since 2026-07-28. Memory is bounded by the number of ids
that are kept; forgotten ids are counted, as from then on an unknown id proves nothing.
"""

from typing import Final

from msgspec import Struct

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.http_exchange import VERSION_FIELD, CrossStreamEvent, HttpExchange, Oddity, RepeatedEventId
from analysis.conversation.message import Id, id_of
from analysis.protocol.revisions import FIRST_MODERN_RANK, rank_of

MAX_EVENT_IDS: Final = 50_000
"""The most event ids that are kept; the ids sent longest ago are forgotten first."""
MAX_STRAY_EVENTS: Final = 16
"""The most events of another stream, and the most repeated ids, that are kept for an exchange."""

LAST_EVENT_ID: Final = "last-event-id"
"""The header field of a request that resumes."""

_SEVERAL_STREAMS: Final = 0
"""The value that replaces the number of a stream if there are several."""


class _SentId(Struct, eq=False, gc=False):
    """An event id and the events that had it."""

    stream: int
    """The stream, named by its first exchange; `_SEVERAL_STREAMS` if there are several."""
    last_exchange: int
    """The exchange that last carried the id."""
    seq: int
    """Number of the frame that first carried the id."""
    order: int
    """The position of the id among all ids."""
    data: int | None
    """A hash of the data; None for an event without data."""
    losses: int
    """How many times records had been lost when the id was first sent."""


class EventIds:
    """The event ids of a capture, and the streams that sent them."""

    def __init__(self, limit: int = MAX_EVENT_IDS) -> None:
        """Create an empty table that keeps at most `limit` ids."""
        self.unrecorded_count = 0
        """How many ids earlier versions of the recorder did not record."""
        self._count = 0
        self._sent_ids: BoundedDict[tuple[str, Id], _SentId] = BoundedDict(limit)

    @property
    def forgotten_count(self) -> int:
        """How many ids had to be forgotten or were not recorded: above 0, an unknown id proves nothing."""
        return self._sent_ids.forgotten + self.unrecorded_count

    def __len__(self) -> int:
        """The number of ids that are kept."""
        return len(self._sent_ids)

    def on_event(self, http: HttpExchange, event_id: str, seq: int, t_ns: int = 0, raw: bytes = b"") -> None:
        """Record an event and its id, which may be that of an earlier event in the exchange, as ids stay in force.

        Args:
            http: the exchange whose response contains the event.
            event_id: the id; an empty id resets the id in force.
            seq: number of the event's frame, or of the record of the end of a stream whose last event had no data.
            t_ns: the stamp of that frame or record.
            raw: the data of the event.
        """
        id_ = id_of(event_id)
        if id_ == http.event_id:
            return
        http.event_id = id_
        if not event_id or _is_legacy(http):
            return
        key = _scope(http), id_
        data = hash(raw) if raw else None
        sent_id = self._sent_ids.pop(key, None)
        if sent_id is None:
            self._count += 1
            self._sent_ids.put(key, _SentId(http.stream, http.number, seq, self._count, data, http.loss_count))
            return
        kind = _oddity(http, sent_id, data)
        if kind is not None and len(http.repeated_events) < MAX_STRAY_EVENTS:
            http.repeated_events += (RepeatedEventId(seq, t_ns, kind, sent_id.seq),)
        stream = sent_id.stream
        if stream != http.stream:
            if stream != _SEVERAL_STREAMS and len(http.stray_events) < MAX_STRAY_EVENTS:
                http.stray_events += (CrossStreamEvent(seq, stream),)
            stream = _SEVERAL_STREAMS
        elif sent_id.last_exchange != http.number:
            http.replay_count += 1
        sent_id.stream, sent_id.last_exchange, sent_id.data = (
            stream,
            http.number,
            sent_id.data if data is None else data,
        )
        self._sent_ids[key] = sent_id

    def on_stream_opened(self, http: HttpExchange, last_event_id: str) -> None:
        """Process the start of an event stream whose request names the last event that the client received."""
        if http.resumption is not None or http.event_id is not None:
            return
        http.last_event_id = id_of(last_event_id)
        if _cannot_resume(http):
            http.resumption = "undefined"
            return
        sent_id = self._sent_ids.get((_scope(http), http.last_event_id))
        if sent_id is None:
            # A forgotten or lost event may have had this id.
            http.resumption = "unknown"
            http.is_certainly_unknown = not self.forgotten_count and not http.loss_count
        elif sent_id.stream == _SEVERAL_STREAMS:
            http.resumption = "ambiguous"
        else:
            http.resumption, http.resumed_number, http.stream = "known", sent_id.last_exchange, sent_id.stream
            http.resumed_order = sent_id.order


def _oddity(http: HttpExchange, sent_id: _SentId, data: int | None) -> Oddity | None:
    """Returns the oddity of an event whose id was sent before, or None if there is none or it is uncertain."""
    if data is None or sent_id.data is None or http.session_id is None or http.started_ref is None:
        return None  # the event only keeps a stream alive, or its session or its request is unknown
    if sent_id.losses != http.loss_count:
        return None
    if data != sent_id.data:
        return "changed"
    if http.resumption is None:
        return None if LAST_EVENT_ID in http.fields else "unasked"
    if http.resumption != "known" or sent_id.stream == _SEVERAL_STREAMS:
        return None
    if sent_id.stream != http.stream:
        return "stray"
    return "seen" if sent_id.order <= http.resumed_order else None


def _scope(http: HttpExchange) -> str:
    """Returns the scope in which event ids are unique: the session id, or the client's fingerprint without one."""
    return http.session_id or http.client_fingerprint


def _cannot_resume(http: HttpExchange) -> bool:
    """Whether this exchange cannot resume anything, regardless of its request."""
    rank = rank_of(http.fields.get(VERSION_FIELD))
    return http.method != "GET" or _is_legacy(http) or (rank is not None and rank >= FIRST_MODERN_RANK)


def _is_legacy(http: HttpExchange) -> bool:
    """Whether this is a stream of the older transport: each such stream is a separate session."""
    return http.method == "GET" and http.uri_key is not None
