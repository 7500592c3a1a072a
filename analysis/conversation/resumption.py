"""Resumption: links event streams to the earlier streams that they continue (2025-03-26 to 2025-11-25).

Servers give events ids that are unique within a session. A client whose stream broke opens another one with a GET that
names the last id it has; later events arrive there. To the protocol, streams linked like this are one stream, in
several HTTP exchanges.

An id that was never sent leads nowhere, and one that two streams sent is ambiguous: both cases are reported. Nothing
resumes on a POST, on the older transport, or since 2026-07-28. Memory is bounded by the number of ids that are kept;
forgotten ids are counted, as from then on an unknown id proves nothing.
"""

from typing import Final

from msgspec import Struct

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.http_exchange import VERSION_FIELD, CrossStreamEvent, HttpExchange, Oddity, RepeatedEventId
from analysis.conversation.message import Id, id_of
from analysis.protocol.revisions import MODERN, rank_of

MAX_EVENT_IDS: Final = 50_000
"""The most event ids that are kept; those sent longest ago are forgotten first."""
STRAYS: Final = 16
"""The most events of another stream that are kept for an exchange."""

LAST_EVENT_ID: Final = "last-event-id"
"""The header field of a request that resumes."""

_SEVERAL: Final = 0
"""Stands in for a stream if there are several."""


class _Sent(Struct, eq=False, gc=False):
    """An event id, as last sent."""

    stream: int
    """The stream, named by its first exchange; `_SEVERAL` if there are several."""
    last: int
    """The exchange that carried it last."""
    seq: int
    """Number of the frame that carried it first."""
    order: int
    """Its position among all ids."""
    data: int | None
    """A hash of the data; None for an event without data."""
    losses: int
    """How many times records had been lost by then."""


class EventIds:
    """The event ids of a capture, and the streams that sent them."""

    def __init__(self, limit: int = MAX_EVENT_IDS) -> None:
        """Create an empty table that keeps at most `limit` ids."""
        self.unseen = 0
        """Ids that earlier recorder versions did not record."""
        self._count = 0
        self._sent: BoundedDict[tuple[str, Id], _Sent] = BoundedDict(limit)

    @property
    def forgotten(self) -> int:
        """Ids that had to be forgotten, or were not recorded: from then on an unknown id proves nothing."""
        return self._sent.forgotten + self.unseen

    def __len__(self) -> int:
        """The number of ids that are kept."""
        return len(self._sent)

    def on_event(self, http: HttpExchange, event_id: str, seq: int, t_ns: int = 0, raw: bytes = b"") -> None:
        """Record an event and its id, which may be that of an earlier event in the same exchange: ids stay in force.

        Args:
            http: the exchange whose response it is part of.
            event_id: the id; an empty one resets it.
            seq: number of the event's frame, or of the record of the end of a stream whose last event had no data.
            t_ns: its stamp.
            raw: the data.
        """
        id_ = id_of(event_id)
        if id_ == http.event_id:
            return
        http.event_id = id_
        if not event_id or _is_legacy(http):
            return
        key = _session(http), id_
        data = hash(raw) if raw else None
        known = self._sent.pop(key, None)
        if known is None:
            self._count += 1
            self._sent.put(key, _Sent(http.stream, http.number, seq, self._count, data, http.losses))
            return
        kind = _oddity(http, known, data)
        if kind is not None and len(http.repeats) < STRAYS:
            http.repeats += (RepeatedEventId(seq, t_ns, kind, known.seq),)
        stream = known.stream
        if stream != http.stream:
            if stream != _SEVERAL and len(http.strays) < STRAYS:
                http.strays += (CrossStreamEvent(seq, stream),)
            stream = _SEVERAL
        elif known.last != http.number:
            http.replays += 1
        known.stream, known.last, known.data = stream, http.number, known.data if data is None else data
        self._sent[key] = known

    def on_stream_opened(self, http: HttpExchange, last_event_id: str) -> None:
        """Begin an event stream whose request names the last event that its client has."""
        if http.resumption is not None or http.event_id is not None:
            return
        http.last_event_id = id_of(last_event_id)
        if _has_none(http):
            http.resumption = "undefined"
            return
        named = self._sent.get((_session(http), http.last_event_id))
        if named is None:
            # A forgotten or lost event may have had it.
            http.resumption = "unknown"
            http.is_surely_unknown = not self.forgotten and not http.losses
        elif named.stream == _SEVERAL:
            http.resumption = "ambiguous"
        else:
            http.resumption, http.resumed, http.stream = "known", named.last, named.stream
            http.resumed_order = named.order


def _oddity(http: HttpExchange, known: _Sent, data: int | None) -> Oddity | None:
    """Returns the oddity of an event whose id was sent before, or None if there is none or it is uncertain."""
    if data is None or known.data is None or http.session_id is None or http.started is None:
        return None  # it keeps a stream alive; or its session, or the request, is unknown
    if known.losses != http.losses:
        return None
    if data != known.data:
        return "changed"
    if http.resumption is None:
        return None if LAST_EVENT_ID in http.fields else "unasked"
    if http.resumption != "known" or known.stream == _SEVERAL:
        return None
    if known.stream != http.stream:
        return "stray"
    return "seen" if known.order <= http.resumed_order else None


def _session(http: HttpExchange) -> str:
    """The scope in which event ids are unique: the session, or the nearest substitute if it has no id."""
    return http.session_id or http.client


def _has_none(http: HttpExchange) -> bool:
    """Whether nothing can be resumed here, regardless of the request."""
    rank = rank_of(http.fields.get(VERSION_FIELD))
    return http.method != "GET" or _is_legacy(http) or (rank is not None and rank >= MODERN)


def _is_legacy(http: HttpExchange) -> bool:
    """Whether it is a stream of the older transport: each of these is a separate session."""
    return http.method == "GET" and http.uri_key is not None
