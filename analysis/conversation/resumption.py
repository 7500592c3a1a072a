"""Resumption: which stream of events goes on with which earlier one (2025-03-26 to 2025-11-25).

Servers give events ids that are unique within a session. A client whose stream broke off opens another one with a GET
that names the last id it has; what follows comes there. Streams that are linked so are one to the protocol, in several
exchanges of HTTP.

An id that nobody sent leads nowhere, and one that two streams sent could mean either: both are told as such. Nothing
resumes on a POST, on the older transport, or since 2026-07-28. Memory is bounded by the number of ids that are
remembered; how many had to be forgotten is counted, as from then on an unknown id proves nothing.
"""

from typing import Final, NamedTuple

from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange, Oddity, Repeat, Stray
from analysis.conversation.limited import Limited
from analysis.conversation.message import Id, id_of
from analysis.protocol.revisions import MODERN, rank_of

KEPT: Final = 50_000
"""Event ids that are remembered; those that were sent longest ago are forgotten first."""
STRAYS: Final = 16
"""Events of another stream that are remembered of an exchange."""

LAST_EVENT_ID: Final = "last-event-id"
"""The header field of a request that resumes."""

_SEVERAL: Final = 0
"""In place of a stream: there are several."""


class _Sent(NamedTuple):
    """An event id, as it was sent last."""

    stream: int
    """The stream, named by its first exchange; `_SEVERAL` where that is not one."""
    last: int
    """The exchange that brought it last."""
    seq: int
    """Number of the frame that brought it first."""
    order: int
    """Its place among all ids."""
    data: int | None
    """A hash of the data; None for an event without."""
    losses: int
    """How often records were lost until then."""


class EventIds:
    """The event ids of a capture, and the streams that sent them."""

    def __init__(self, limit: int = KEPT) -> None:
        """No event yet. `limit`: ids that are remembered."""
        self.unseen = 0
        """Ids that recorders of an earlier version did not tell."""
        self._count = 0
        self._sent: Limited[tuple[str, Id], _Sent] = Limited(limit)

    @property
    def forgotten(self) -> int:
        """Ids that had to be forgotten, or are not known: from then on an unknown one proves nothing."""
        return self._sent.forgotten + self.unseen

    def __len__(self) -> int:
        """Ids that are remembered."""
        return len(self._sent)

    def sent(self, http: HttpExchange, event_id: str, seq: int, t_ns: int = 0, raw: bytes = b"") -> None:
        """An event was sent under an id, which may be that of an earlier event in the same exchange: ids stay in force.

        Args:
            http: the exchange whose response it is part of.
            event_id: the id; the empty one takes it back.
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
            self._sent.keep(key, _Sent(http.stream, http.number, seq, self._count, data, http.losses))
            return
        kind = _oddity(http, known, data)
        if kind is not None and len(http.repeats) < STRAYS:
            http.repeats.append(Repeat(seq, t_ns, kind, known.seq))
        stream = known.stream
        if stream != http.stream:
            if stream != _SEVERAL and len(http.strays) < STRAYS:
                http.strays.append(Stray(seq, stream))
            stream = _SEVERAL
        elif known.last != http.number:
            http.replays += 1
        data = known.data if data is None else data
        self._sent[key] = known._replace(stream=stream, last=http.number, data=data)

    def opened(self, http: HttpExchange, last_event_id: str) -> None:
        """A stream of events has begun whose request names the last event that its client has."""
        if http.resumption is not None or http.event_id is not None:
            return
        http.last_event_id = id_of(last_event_id)
        if _has_none(http):
            http.resumption = "undefined"
            return
        named = self._sent.get((_session(http), http.last_event_id))
        if named is None:
            # What was forgotten, or lost, may have had it.
            http.resumption = "unknown"
            http.is_surely_unknown = not self.forgotten and not http.losses
        elif named.stream == _SEVERAL:
            http.resumption = "ambiguous"
        else:
            http.resumption, http.resumed, http.stream = "known", named.last, named.stream
            http.resumed_order = named.order


def _oddity(http: HttpExchange, known: _Sent, data: int | None) -> Oddity | None:
    """What is odd about an event under an id that was sent before; None for nothing, and where that is not certain."""
    if data is None or known.data is None or http.session_id is None or http.asked is None:
        return None  # it keeps a stream alive; or nobody knows which session it is, or what was asked for
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
    """In what ids of events are unique: a session, or what comes nearest where it has no id."""
    return http.session_id or http.client


def _has_none(http: HttpExchange) -> bool:
    """Whether nothing can resume here, whatever is asked."""
    rank = rank_of(http.fields.get(VERSION_FIELD))
    return http.method != "GET" or _is_legacy(http) or (rank is not None and rank >= MODERN)


def _is_legacy(http: HttpExchange) -> bool:
    """Whether it is the stream of the older transport: each is a session of its own."""
    return http.method == "GET" and http.uri_key is not None
