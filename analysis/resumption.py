"""Resumption: which stream of events goes on with which earlier one (2025-03-26 to 2025-11-25).

Servers give events ids that are unique within a session. A client whose stream broke off opens another one with a GET
that names the last id it has; what follows comes there. Streams that are linked so are one to the protocol, in several
exchanges of HTTP.

An id that nobody sent leads nowhere, and one that two streams sent could mean either: both are told as such. Nothing
resumes on a POST, on the older transport, or since 2026-07-28. Memory is bounded by the number of ids that are
remembered; how many had to be forgotten is counted, as from then on an unknown id proves nothing.
"""

from collections import OrderedDict
from typing import Final

from analysis.http import VERSION_FIELD, HttpExchange, Stray
from analysis.message import Id, id_of
from analysis.revisions import MODERN, rank_of

KEPT: Final = 50_000
"""Event ids that are remembered; those that were sent longest ago are forgotten first."""
STRAYS: Final = 16
"""Events of another stream that are remembered of an exchange."""

_SEVERAL: Final = 0
"""In place of a stream: there are several."""


class EventIds:
    """The event ids of a capture, and the streams that sent them."""

    def __init__(self, limit: int = KEPT) -> None:
        """No event yet. `limit`: ids that are remembered."""
        self.forgotten = 0
        """Ids that had to be forgotten."""
        self._limit = limit
        # By session and id: the stream, named by its first exchange, and the exchange that brought the id last.
        self._sent: OrderedDict[tuple[str, Id], tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        """Ids that are remembered."""
        return len(self._sent)

    def sent(self, http: HttpExchange, event_id: str, seq: int) -> None:
        """An event was sent under an id, which may be that of an earlier event in the same exchange: ids stay in force.

        Args:
            http: the exchange whose response it is part of.
            event_id: the id; the empty one takes it back.
            seq: number of the event's frame.
        """
        id_ = id_of(event_id)
        if id_ == http.event_id:
            return
        http.event_id = id_
        if not event_id or _is_legacy(http):
            return
        key = _session(http), id_
        stream, last = self._sent.pop(key, (http.stream, http.number))
        if stream != http.stream:
            if stream != _SEVERAL and len(http.strays) < STRAYS:
                http.strays.append(Stray(seq, stream))
            stream = _SEVERAL
        elif last != http.number:
            http.replays += 1
        self._sent[key] = stream, http.number
        if len(self._sent) > self._limit:
            self._sent.popitem(last=False)
            self.forgotten += 1

    def opened(self, http: HttpExchange, last_event_id: str) -> None:
        """A stream of events has begun whose request names the last event that its client has."""
        if http.resumption is not None or http.event_id is not None:
            return
        http.last_event_id = id_of(last_event_id)
        if _has_none(http):
            http.resumption = "undefined"
            return
        stream, last = self._sent.get((_session(http), http.last_event_id), (_SEVERAL, None))
        if last is None:
            http.resumption = "unknown"
        elif stream == _SEVERAL:
            http.resumption = "ambiguous"
        else:
            http.resumption, http.resumed, http.stream = "known", last, stream


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
