"""Resumed streams: event ids, replayed events, and the time to wait."""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.http_exchange import EVENT_STREAM, HttpExchange, Oddity, RepeatedEventId
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.resumption import LAST_EVENT_ID
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import NOTE, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.eras import shortened
from analysis.rules.support.exchanges import (
    ALL_METHODS,
    SESSION_REVISIONS,
    SUCCESS_STATUSES,
    ExchangeEndRule,
    HttpRule,
    ResponseStartRule,
    is_cut,
    is_open,
)
from captures.frame import Frame

MIN_WAIT_FRACTION: Final = 0.9
"""The smallest fraction of the requested delay that a client may wait; it is below 1 because clocks differ."""

_GET: Final = frozenset({"GET"})
_PAGE: Final = "2025-03-26 basic/transports"
_POLLING: Final = "2025-11-25 basic/transports"
_NS_PER_MS: Final = 1_000_000
_MAX_RESUMPTIONS: Final = 1_000
MAX_SILENCE_NS: Final = 5_000_000_000
"""How long a resumed stream that has not ended may be silent."""
_MAX_LINKS: Final = 100
"""The most exchanges of one stream that are searched."""


class _RepeatedEventRule(HttpRule):
    """A rule about events whose id had already been sent."""

    who = "server"
    versions = SESSION_REVISIONS
    http_methods: ClassVar[frozenset[str]] = ALL_METHODS
    media = EVENT_STREAM
    source = _PAGE
    kind: ClassVar[Oddity]
    text: ClassVar[str]

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return self.check_exchange(http, session) if self.repeats_of(http) and self.can_judge(http) else ()

    def repeats_of(self, http: HttpExchange) -> list[RepeatedEventId]:
        """Returns the repeated event ids that the rule reports."""
        return [repeat for repeat in http.repeated_events if repeat.kind == self.kind]

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        rank, era = http.revision_and_era(session)
        return [
            self.finding(
                RecordRef(repeat.seq, repeat.t_ns),
                self.text,
                level=self.level_at(rank, era),
                related=(repeat.earlier,),
                session=session,
            )
            for repeat in self.repeats_of(http)
        ]


class DuplicateEventId(_RepeatedEventRule):
    """Two events of a session have the same id.

    **Why it matters.** A client that resumes after that id gets the events after one of the two, and cannot tell which.

    **On the wire.** `< id: 7` with one message and `< id: 7` with another, perhaps on another stream

    **Instead.** Number the events across all streams of a session, or make the stream part of the id: `a:1`, `b:1`.
    """

    id = "sse/duplicate-event-id"
    impact = Impact.WRONG
    kind = "changed"
    text = "an event has the id of another event of this session"

    def repeats_of(self, http: HttpExchange) -> list[RepeatedEventId]:
        return [*super().repeats_of(http), *_changed_consecutive_events(http)]


class ReplayWithoutRequest(_RepeatedEventRule):
    """An event is sent again although the client did not ask for a replay.

    **Why it matters.** The client handles it twice, as a response that matches no request or a notification that counts
    twice.

    **On the wire.** `< id: 7` again on a stream whose request has no `Last-Event-ID`

    **Instead.** Replay only on a GET that names the last event, and only the events after it.
    """

    id = "sse/replay-without-request"
    level = WARNING
    impact = Impact.WRONG
    kind = "unasked"
    text = "an event is repeated on a stream that was not opened with Last-Event-ID"


class ReplayFromOtherStream(_RepeatedEventRule):
    """A resumed stream replays events of another stream.

    **Why it matters.** If the other stream is still open, the client gets these events twice, and it cannot tell which
    request they belong to.

    **On the wire.** `> GET` with `Last-Event-ID: a:1`, and `< id: b:2`, which came on another stream

    **Instead.** Store the stream of each event, and replay only events of the stream to which the named event belongs.
    """

    id = "sse/replay-from-other-stream"
    impact = Impact.WRONG
    kind = "stray"
    text = "the stream replays an event of another stream"


class ReplayOfSeen(_RepeatedEventRule):
    """A replay begins at or before the event that the client named.

    **Why it matters.** The client already has that event, and handles it twice unless it checks ids.

    **On the wire.** `> GET` with `Last-Event-ID: 7`, and `< id: 7`

    **Instead.** Begin with the event after the named event.
    """

    id = "sse/replay-of-seen"
    level = NOTE
    impact = Impact.WRONG
    kind = "seen"
    text = "the replay repeats the event that the client named, or an earlier one"


class UnknownLastEventId(ExchangeEndRule):
    """A client resumes after an event that no stream of its session has sent.

    **Why it matters.** The server does not know where to continue, so the client never gets the missing events.

    **On the wire.** `> GET` with `Last-Event-ID: x`, although no event had the id `x`

    **Instead.** Name the last id that you received in this session, not one from an earlier session.
    """

    id = "sse/unknown-last-event-id"
    who = "client"
    versions = SESSION_REVISIONS
    level = WARNING
    needs_start = True
    http_methods: ClassVar[frozenset[str]] = _GET
    media = EVENT_STREAM
    source = _PAGE

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if not http.is_certainly_unknown or http.session_id is None:
            return ()
        return self.findings_in_request(http, session, "the Last-Event-ID matches no event of this session")


class ResumeNotGet(ResponseStartRule):
    """A client resumes a stream with a POST.

    **Why it matters.** A POST carries a message and opens a new stream. Servers do not look for an event id in it.

    **On the wire.** `> POST` with `Last-Event-ID: 7`

    **Instead.** Send `GET` with `Last-Event-ID`, regardless of which request opened the interrupted stream.
    """

    id = "sse/resume-not-get"
    who = "client"
    versions = SESSION_REVISIONS
    level = WARNING
    exchanges = ExchangeOddity.HEADERS
    source = _POLLING

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if LAST_EVENT_ID not in http.fields:
            return ()
        return self.findings_in_request(http, session, "a POST has a Last-Event-ID")


class ClosedWithoutRetry(ExchangeEndRule):
    """A server ends a stream before the response without saying when to reconnect.

    **Why it matters.** Clients reconnect at once, or after a delay that they choose, so the server cannot control how
    often it is polled.

    **On the wire.** `< id: 7`, and then the stream ends without any `retry:`

    **Instead.** Send `retry: 2000` before you close the stream.
    """

    id = "sse/closed-without-retry"
    who = "server"
    versions = features.SSE_POLLING
    level = WARNING
    impact = Impact.COST
    http_methods: ClassVar[frozenset[str]] = ALL_METHODS
    media = EVENT_STREAM
    source = _POLLING

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.ended_by != "complete" or not http.is_retry_known or _retry_of(http) is not None:
            return ()
        opening_post = _opening_post(http)
        if opening_post is None or not opening_post.is_unbroken or not _is_alive(http):
            return ()
        if not any(is_open(context, self.fold) for context in opening_post.client_messages):
            return ()
        if is_cut(http):
            return ()  # the server did not close the stream on purpose
        end = http.last_server_message or http.end_ref
        if end is None:
            return ()
        text = "the server closes the stream before its response without having sent retry"
        return [self.finding(end, text, level=self.level, session=session)]


class ResumptionIgnored(HttpRule):
    """A client resumes a stream, and the server sends none of the missing events.

    **Why it matters.** The client waits for a response that it believes to be on the way. A server that ignores
    `Last-Event-ID` and opens a new stream looks as if it could resume.

    **On the wire.** A stream breaks off before the response, then `> GET` with `Last-Event-ID: 7`, answered by a stream
    without events

    **Instead.** Send the events that came after the one that `Last-Event-ID` names. A server that keeps no events
    should send no ids.
    """

    id = "sse/resumption-ignored"
    who = "server"
    versions = SESSION_REVISIONS
    at_end = True
    http_methods = _GET
    statuses = SUCCESS_STATUSES
    media = EVENT_STREAM
    replaces = ("http/stream-ended-unanswered",)
    source = _PAGE

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if session is not None and LAST_EVENT_ID in http.fields:
            resuming_exchanges: list[HttpExchange] = self.state_for(session, list)
            if len(resuming_exchanges) < _MAX_RESUMPTIONS:
                resuming_exchanges.append(http)
        return ()

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterable[Finding]:
        if ending.reason != "closed" or not ending.is_clear or session.lost_seq >= 0:
            return  # the missing events may have come after the recording broke off
        reported_numbers: set[int] = set()
        resuming_exchanges: list[HttpExchange] = self.state_for(session, list)
        for http in resuming_exchanges:
            opening_post = _opening_post(http) if http.resumption == "known" else None
            if (
                opening_post is None
                or opening_post.end_ref is None
                or opening_post.number in reported_numbers
                or http.replay_count
                or http.server_messages
            ):
                continue
            silence_ns = (http.end_ref.t_ns if http.end_ref is not None else ending.t_ns) - (
                http.answered_ref or opening_post.end_ref
            ).t_ns
            for context in opening_post.client_messages:
                if is_open(context, self.fold) and (silence_ns >= MAX_SILENCE_NS or http.ended_by == "complete"):
                    reported_numbers.add(opening_post.number)
                    text = (
                        f"the client resumes the stream of {shortened(context.method)}, and the server "
                        "sends nothing there"
                    )
                    related = (http.answered_ref.seq,) if http.answered_ref is not None else ()
                    yield self.finding(opening_post.end_ref, text, session=session, related=related)
                    break


class RetryIgnored(ExchangeEndRule):
    """A client reconnects earlier than the server has requested.

    **Why it matters.** The server closed the stream to avoid requests during that time.

    **On the wire.** `< retry: 5000`, then the stream ends, and a second later `> GET` with `Last-Event-ID`

    **Instead.** Wait for the number of milliseconds in the last `retry`.
    """

    id = "sse/retry-ignored"
    who = "client"
    versions = features.SSE_POLLING
    impact = Impact.COST
    needs_time = True
    http_methods: ClassVar[frozenset[str]] = _GET
    media = EVENT_STREAM
    source = _POLLING

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        resumed_exchange = http.resumed_exchange
        if (
            resumed_exchange is None
            or resumed_exchange.end_ref is None
            or http.started_ref is None
            or resumed_exchange.ended_by != "complete"
        ):
            return ()
        retry_ms, waited_ns = _retry_of(resumed_exchange), http.started_ref.t_ns - resumed_exchange.end_ref.t_ns
        # A request that was already in transit when the stream ended did not ignore the delay.
        if (
            retry_ms is None
            or http.started_ref.seq < resumed_exchange.end_ref.seq
            or waited_ns >= retry_ms * _NS_PER_MS * MIN_WAIT_FRACTION
        ):
            return ()
        text = f"the client reconnects after {waited_ns // _NS_PER_MS} ms instead of {retry_ms} ms"
        return self.findings_in_request(http, session, text)


class ResumptionInModern(Rule):
    """An event has an id, or a request names an event id, in a revision without resumption.

    **Why it matters.** The id has no effect. Clients that rely on it lose messages after an interruption.

    **On the wire.** `< id: 7` in answer to a request of 2026-07-28

    **Instead.** Leave out event ids. If a connection breaks, send the request again.
    """

    id = "sse/resumption-in-modern"
    versions = MODERN_ERA
    level = NOTE
    needs_http = True
    once = True
    source = "2026-07-28 basic/transports/streamable-http"

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        return hook == "response_start" or like.media_type == EVENT_STREAM

    def on_response_start(self, http: HttpExchange, _session: Session | None) -> Iterable[Finding]:
        if LAST_EVENT_ID not in http.fields or not http.is_modern:
            return ()
        return [
            self.finding(http.client_messages[0], "a request has Last-Event-ID, but this revision has no resumption")
        ]

    def on_exchange_end(self, http: HttpExchange, _session: Session | None) -> Iterable[Finding]:
        if http.event_id is None or not http.is_modern or not http.server_messages:
            return ()
        return [self.finding(http.server_messages[0], "an event has an id, but this revision has no resumption")]


# ---- shared by the rules


def _changed_consecutive_events(http: HttpExchange) -> list[RepeatedEventId]:
    """Returns the received events that have the id of the preceding event, but different data."""
    repeats: list[RepeatedEventId] = []
    last_named: Frame | None = None  # the last event with an explicit id
    if http.session_id is None or http.started_ref is None or not http.is_unbroken:
        return repeats
    for context in http.server_messages:
        frame = context.message.frames[0]
        if not frame.event_id or not frame.raw:
            continue
        is_same = last_named is not None and last_named.event_id == frame.event_id
        if last_named is not None and is_same and frame.id_again and last_named.raw != frame.raw:
            repeats.append(RepeatedEventId(frame.seq, frame.t_ns, "changed", last_named.seq))
        if frame.id_again or not is_same:
            last_named = frame
    return repeats


def _retry_of(http: HttpExchange) -> int | None:
    """Returns the last `retry` of a stream, in this exchange or one that it resumes, or None if there is none."""
    exchange: HttpExchange | None = http
    for _ in range(_MAX_LINKS):
        if exchange is None or exchange.retry is not None:
            break
        exchange = exchange.resumed_exchange
    return None if exchange is None else exchange.retry


def _opening_post(http: HttpExchange) -> HttpExchange | None:
    """Returns the POST that opened a stream, directly or before it was resumed, or None if unknown."""
    exchange: HttpExchange | None = http
    for _ in range(_MAX_LINKS):
        if exchange is None or exchange.method == "POST":
            break
        exchange = exchange.resumed_exchange
    return exchange if exchange is not None and exchange.method == "POST" else None


def _is_alive(http: HttpExchange) -> bool:
    """Whether the session is still open."""
    session_id = None if http.session_id is None else http.session_ids.get(http.session_id)
    return session_id is None or (session_id.is_alive and not session_id.tried)
