"""Fold: turns the items of a capture, one by one, into messages with their meaning, and tracks their sessions.

The fold is sans-IO and streaming: `feed` accepts the items of captures.reader, one at a time, and returns the messages
that each completes; `open_calls` returns the calls without a response. Nothing here raises, and all results depend only
on the bytes and stamps of the capture, so reading a file and following the same file live give the same results.

One connection may carry both eras. Up to 2025-11-25 a handshake names the peers and the revision for everything that
follows; since 2026-07-28 each request names its own, and never changes the state of a handshake.
"""

from collections.abc import Mapping
from typing import Any, Final
from weakref import ref

from analysis.conversation.addressing import Addressing
from analysis.conversation.assembly import Assembly
from analysis.conversation.bounded_dict import ForgottenEntries
from analysis.conversation.call import Call, MessageContext, Outcome, context_of
from analysis.conversation.call_table import MAX_OPEN_BYTES, MAX_OPEN_HTTP_REQUESTS, MAX_OPEN_REQUESTS, CallTable
from analysis.conversation.cancellations import Cancellations
from analysis.conversation.exchange_ends import ExchangeEnds
from analysis.conversation.handshake import advance_state, is_modern, text_of
from analysis.conversation.http_exchange import MAX_OPEN_HTTP_EXCHANGES, HttpExchange
from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.http_shortcut import HttpShortcut
from analysis.conversation.links import Links
from analysis.conversation.logins import MAX_LOGINS, Logins
from analysis.conversation.meaning import ContextBuilder, is_unjudged
from analysis.conversation.message import (
    InvalidMessage,
    Message,
    Request,
    Side,
    flawless_message,
)
from analysis.conversation.multi_round import MAX_CHAINS
from analysis.conversation.pairing import Pairing
from analysis.conversation.pipe_shortcut import PipeShortcut
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.resumption import EventIds
from analysis.conversation.routing import MAX_SESSIONS, Routing
from analysis.conversation.session import Peer, Session
from analysis.conversation.subscriptions import MAX_SUBSCRIPTIONS
from analysis.conversation.tasks import MAX_TASKS
from analysis.conversation.under_way import CallsUnderWay
from captures.damage import Damage
from captures.frame import Frame
from captures.gaps import MAX_LOST_RECORDS, lost_count, lost_range, skipped_range
from captures.record import Record

# Enumeration members are slow to look up.
_CANCELLED: Final = Outcome.CANCELLED
_NOT_RECORDED: Final = Outcome.NOT_RECORDED
_UNANSWERED: Final = Outcome.UNANSWERED


class Fold:
    """The fold of one capture. Its attributes describe the capture as a whole, as far as it has been read."""

    def __init__(self) -> None:
        """Create a fold that has read nothing yet."""
        self.name: str | None = None
        """The server's name in the capture: given by the user, or guessed from the command."""
        self.capture: str | None = None
        """Id of the capture."""
        self.transport: str | None = None
        """The transport: `stdio`, `http` or `import`."""
        self.environment: Mapping[str, Any] = {}
        """The environment that the client gave to the server: name → keyed hash, as the header has them. Empty unless
        `run` recorded it: what `serve -- COMMAND` starts has the environment of the user, not of a client."""
        self.wall_ns: int | None = None
        """Wall clock when the capture opened."""
        self.observed_start = False
        """Whether the recording began before the server's first byte."""
        self.is_verbatim = True
        """Whether frames are the bytes that crossed; False for imported logs that contain text or objects instead."""
        self.is_redacted = False
        """Whether the capture is a redacted copy, in which other values replace secrets."""
        self.has_inexact_times = False
        """Whether the time of any frame so far is not exact."""
        self.ending: str | None = None
        """How the recording ended; None until a `close` record has been read."""
        self.closed_ns: int | None = None
        """Stamp of the `close` record."""
        self.server_ended_ns: int | None = None
        """When the server's process ended; None if no record so far says so."""
        self.failed_count = 0
        """How many requests had an HTTP exchange that failed before a response came."""
        self.unjudged_count = 0
        """How many frames could not be examined: a response may be among them."""
        self.first_seq = 0
        """Number of the first record if the recorder's ring has deleted earlier ones; else 0."""
        self.unrecorded_count = 0
        """How many HTTP bodies that may contain messages are not in the capture; see
        `HttpExchange.unrecorded_count`."""
        self.lost_count = 0
        """How many records are known to be lost, plus the stretches of damage, which may also contain a response."""
        self.tables: dict[Side, CallTable] = {"client": CallTable(), "server": CallTable()}
        """Requests, by the side that sent them."""
        self.links = Links()
        """Multi-round calls, tasks and subscriptions."""
        self.event_ids = EventIds()
        """The event ids of streams over HTTP."""
        self.routing = Routing(self.tables)
        """The sessions."""
        self.exchanges = HttpExchanges()
        self.logins = Logins()
        self.t_ns = 0
        """Stamp of the last item."""
        self._segment_number = self._segment_end_seq = 0
        self._last_session: Session | None = None
        # The peers that earlier sessions named, for a session that names none.
        self._client: Peer | None = None
        self._server: Peer | None = None
        self.addressing = Addressing()
        """Finds the requests that a response over HTTP can answer."""
        self.under_way = CallsUnderWay(self.tables, self.addressing)
        """The calls between their request and their end, and which of them the last item changed."""
        pairing = Pairing(self.tables, self.addressing, self.routing)
        cancellations = Cancellations(self.tables, pairing, self.under_way)
        self._context_builder = ContextBuilder(
            self.tables, self.under_way, self.addressing, self.routing, pairing, cancellations
        )
        self._exchange_ends = ExchangeEnds(self.tables, self.under_way, self.addressing, self.links.chains)
        self._assembly = Assembly()
        self._pipe_shortcut = PipeShortcut(self.tables, self.under_way, self.links, cancellations, self._assembly)
        self._http_shortcut = HttpShortcut(
            self.tables, self.under_way, self.links, self.addressing, pairing, self.routing.ids_in_exchanges
        )
        self._prepared_shortcut: PipeShortcut | HttpShortcut | None = None
        """The shortcut that is prepared; None if anything that it depends on has changed."""

    @property
    def client(self) -> Peer | None:
        """The client that was named last, in any session; see also `Session.client`."""
        return (self._last_session and self._last_session.client) or self._client

    @property
    def server(self) -> Peer | None:
        """The server that was named last, in any session."""
        return (self._last_session and self._last_session.server) or self._server

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions of the sessions, each once, in the order of the sessions. Untrusted texts."""
        return tuple(dict.fromkeys(session.revision for session in self.routing.sessions() if session.revision))

    @property
    def is_complete(self) -> bool:
        """Whether every frame was recorded and examined: a missing response was then never sent."""
        has_evicted = any(table.evicted_count for table in self.tables.values())
        return not (self.unjudged_count or self.lost_count or self.unrecorded_count or has_evicted)

    @property
    def forgotten_entries(self) -> list[ForgottenEntries]:
        """The entries that had to be forgotten because there were too many at once; empty if there were none."""
        chains, tasks, subscriptions = self.links.chains, self.links.tasks, self.links.subscriptions
        requests = sum(table.evicted_count for table in self.tables.values())
        forgotten = []
        if requests:
            max_count = MAX_OPEN_HTTP_REQUESTS if self.transport == "http" else MAX_OPEN_REQUESTS
            limit = f"more than {max_count:,}, or {MAX_OPEN_BYTES >> 20} MiB, were open at once"
            forgotten.append(ForgottenEntries("requests", requests, limit, "responses to them count as unknown"))
        if self.exchanges.forgotten_count:
            limit = f"more than {MAX_OPEN_HTTP_EXCHANGES:,} were open at once"
            effect = "messages in them may be assigned to other exchanges"
            forgotten.append(ForgottenEntries("HTTP exchanges", self.exchanges.forgotten_count, limit, effect))
        if self.routing.forgotten_count:
            limit = f"there are more than {MAX_SESSIONS:,}"
            effect = "findings that depend on their end are missing"
            forgotten.append(ForgottenEntries("sessions", self.routing.forgotten_count, limit, effect))
        if self.logins.forgotten_open_count:
            limit, effect = f"more than {MAX_LOGINS:,} began at once", "later legs of them count as new logins"
            forgotten.append(ForgottenEntries("logins", self.logins.forgotten_open_count, limit, effect))
        for kind, count, max_count in (
            ("calls of several rounds", chains.forgotten_count, MAX_CHAINS),
            ("tasks", tasks.forgotten_count, MAX_TASKS),
            ("subscriptions", subscriptions.forgotten_count, MAX_SUBSCRIPTIONS),
        ):
            if count:
                limit = f"more than {max_count:,}, or 8 MiB, were remembered at once"
                forgotten.append(ForgottenEntries(kind, count, limit, "later messages about them count as new"))
        return forgotten

    def feed(self, item: object) -> tuple[MessageContext, ...]:
        """Process the next item of a capture.

        Args:
            item: a Frame, a Record, or damage.

        Returns:
            The messages that the item completes, with their meaning; a message that spans lines comes with its last
            line.
        """
        if self.under_way.changed_calls:
            self.under_way.changed_calls = {}
        if self.logins.changed:
            self.logins.changed = {}
        if isinstance(item, Frame):
            if item.skipped:
                self.note_loss(item.skipped, skipped_range(item))
            self.t_ns = item.t_ns
            if not item.time_is_exact:
                self.has_inexact_times = True
            body, exchange = item.body, item.exchange
            if exchange is not None and item.event_id is not None:
                self.event_ids.on_event(
                    self.exchanges.get_or_create(exchange), item.event_id, item.seq, item.t_ns, item.raw
                )
            if body is None:
                return self._on_frame(item)
            if exchange is not None:
                return (self._on_message(flawless_message(item, body)),)
            shortcut = self._pipe_shortcut
            if self._prepared_shortcut is not shortcut:
                shortcut.prepare(self._last_session if self._last_session is self.routing.pipe_session else None)
                self._prepared_shortcut = shortcut
            context = shortcut.try_frame(item, body) if shortcut.is_open else None
            return self._on_frame(item) if context is None else (context,)
        if isinstance(item, Record):
            if item.skipped:
                self.note_loss(item.skipped, skipped_range(item))
            self.t_ns = item.t_ns
            return self._on_record(item)
        self.note_loss(1, is_torn=isinstance(item, Damage) and item.cause == "torn")
        return ()

    def flush(self, *, is_open: bool = False) -> tuple[MessageContext, ...]:
        """Release the lines held back as the beginning of a message that was never completed; return their messages.

        Args:
            is_open: whether the capture goes on, and its logins with it.
        """
        self.under_way.changed_calls = {}
        self.logins.changed = {}
        if not is_open:
            self.logins.finish(self.t_ns)
        return tuple([self._on_message(message) for message in self._assembly.finish()])

    def open_calls(self) -> tuple[Call, ...]:
        """Returns the calls without a response, with their outcomes so far, in the order of their requests."""
        calls = [call for table in self.tables.values() for call in table.waiting_calls()]
        calls.sort(key=lambda call: call.request.seq)
        for call in calls:
            self.under_way.measure_stall(call)
        return tuple(calls)

    def open_until_ns(self, call: Call, last_ns: int | None = None) -> int:
        """Returns the stamp until which a call was open, as `calls.until_ns` in SQL does for stdio.

        A call that has ended was open until its end. Any other call was open until its server ended, or else until the
        end of the capture. After the server had ended, a call could not be answered, even if it was cancelled only
        later.

        Args:
            call: the call.
            last_ns: the stamp at which the capture ends; None for the stamp of the last item.
        """
        end = call.end_ref
        until_ns = (self.t_ns if last_ns is None else last_ns) if end is None else end.t_ns
        is_left_waiting = call.http is None and (end is None or call.outcome is _UNANSWERED)
        if is_left_waiting and self.server_ended_ns is not None:
            until_ns = min(until_ns, self.server_ended_ns)
        return max(call.request.t_ns, until_ns)

    def is_waiting_in(self, exchange: int) -> bool:
        """Whether any client request that an HTTP exchange carried has no response yet."""
        return any(self.tables["client"].get(key) is not None for key in self.addressing.requests_in(exchange))

    # ---- messages

    def _on_frame(self, frame: Frame) -> tuple[MessageContext, ...]:
        """Returns the messages that a frame completes: none if the frame may be part of a longer message."""
        if frame.exchange is None:
            self._prepared_shortcut = None  # a line may be held back
        messages = self._assembly.feed(frame)
        if isinstance(messages, tuple) and len(messages) == 1:
            return (self._on_message(messages[0]),)  # nearly always
        return tuple([self._on_message(message) for message in messages])

    def _on_message(self, message: Message) -> MessageContext:
        number = message.frames[0].exchange
        if number is None:
            http, session, context = None, self.routing.begin_pipe(message.t_ns), None
        else:
            http = self.exchanges.get_or_create(number)
            if message.sender == "client" and self._check_repeated(message, http):
                return self._repeated_context(message, http)
            if http.session is None:
                declares_modern = (
                    isinstance(message, Request) and message.sender == "client" and is_modern(message, http)
                )
                http.session = self.routing.session_of(message, http, is_modern=declares_modern)
            session = http.session
            context = self._try_http_shortcut(message, session, http)
        if context is None:
            if number is None or not isinstance(message, InvalidMessage):
                self._prepared_shortcut = None
            context = self._context_builder.process(message, session, http)
            if isinstance(message, InvalidMessage) and is_unjudged(message):
                self.unjudged_count += 1
            self.links.link(context)
            advance_state(context)
        session.last_seq[message.sender] = message.seq
        if session not in self.routing.stirred_sessions:
            self.routing.note_news(session)
        if http is not None:
            self.exchanges.add_message(http, context)
            session.last_ns = message.t_ns
        if session is not self._last_session:
            self._client, self._server = self.client, self.server
            self._last_session = session
        return context

    def _try_http_shortcut(self, message: Message, session: Session, http: HttpExchange) -> MessageContext | None:
        """Process a plain message over HTTP; return it with its meaning, or None if it is not plain."""
        if isinstance(message, InvalidMessage) or message.frames[0].body is None:
            return None
        shortcut = self._http_shortcut
        if self._prepared_shortcut is not shortcut or shortcut.session is not session:
            shortcut.prepare(session)
            self._prepared_shortcut = shortcut
        return shortcut.try_message(message, http) if shortcut.is_open else None

    def _check_repeated(self, message: Message, http: HttpExchange) -> bool:
        """Check whether a message is repeated because the exchange that carried it was redirected.

        The first message of an exchange links the exchange to the redirected one.

        """
        if http.origin is None:
            if not self.exchanges.is_redirecting:
                return False
            earlier = self.exchanges.take_redirected(http, message.frames[0].raw, message.t_ns)
            if earlier is None:
                return False
            http.origin, http.session = earlier.first_carrier, earlier.session
            earlier.first_carrier.repeated_by = ref(http)
            self.addressing.note_repeat(http.number, earlier.number)
            self.exchanges.share_messages(earlier, http)
            for key in self.addressing.requests_in(http.number):
                call = self.tables["client"].get(key)
                if call is not None:
                    call.http, call.exchange_end = http, None
                    call.redirects += 1
                    self.under_way.changed_calls[call] = None
        return True

    def _repeated_context(self, message: Message, http: HttpExchange) -> MessageContext:
        """Returns the context of a repeated message, which belongs to the request or notification that it repeats."""
        original = next((context for context in http.client_messages if context.message.index == message.index), None)
        session = http.session or self.routing.session_of(message, http, is_modern=False)
        session.last_ns = message.t_ns
        context = context_of(message, session, state=session.state, http=http)
        context.is_repeat = True
        if original is not None:
            context.revision, context.rank, context.era, context.request = (
                original.revision,
                original.rank,
                original.era,
                original.request,
            )
            context.call = original.call
        return context

    # ---- other records

    def _on_record(self, record: Record) -> tuple[MessageContext, ...]:
        members = record.members
        if record.rec == "header":
            self._note_segment(record)
            if self.capture is None:
                self._on_header(record)
        elif record.rec == "exchange":
            self._note_exchange(record)
        elif record.rec == "stream":
            self._note_stream(record)
        elif record.rec == "stall" and members.get("dir") == "c2s":
            self.under_way.stalls.add(members, record.t_ns)
        elif record.rec in ("gap", "frame", "part"):
            # The reader could not decode a frame or a part of one.
            is_gap = record.rec == "gap"
            self.note_loss(lost_count(record) if is_gap else 1, lost_range(record) if is_gap else None)
        elif record.rec == "eof":
            return self._on_eof(record)
        elif record.rec == "process" and members.get("event") == "ended":
            self.server_ended_ns = record.t_ns
            for session in self.routing.sessions():
                session.process = members
        elif record.rec == "close":
            self._on_close(record)
        return ()

    def note_loss(self, count: int, lost_numbers: tuple[int, int] | None = None, *, is_torn: bool = False) -> None:
        """Note lost records: earlier messages prove nothing about later ones.

        Args:
            count: how many records were lost.
            lost_numbers: the first and the last of their numbers; None if they are unknown.
            is_torn: whether the loss is the incomplete last record that a kill leaves.
        """
        self.lost_count = min(MAX_LOST_RECORDS, self.lost_count + count)
        if not is_torn:
            self._distrust(lost_numbers=lost_numbers)

    def _distrust(self, sessions: list[Session] | None = None, lost_numbers: tuple[int, int] | None = None) -> None:
        """Note that messages are missing: earlier messages prove nothing about later ones.

        Args:
            sessions: the sessions that lack messages; None if unknown.
            lost_numbers: the first and the last number of the records that are lost; None if they are unknown.
        """
        self._prepared_shortcut = None
        for table in self.tables.values():
            table.note_loss(lost_numbers)
        self.exchanges.is_whole = False
        self.exchanges.loss_count += 1
        self.routing.note_loss()
        self._assembly.note_loss()
        for session in self.routing.stirred_sessions if sessions is None else sessions:
            session.note_loss()
            self.routing.used_ids(session).clear()
        if sessions is None:
            self.routing.stirred_sessions.clear()

    def _note_exchange(self, record: Record) -> None:
        members = record.members
        http = self.exchanges.on_record(members, RecordRef(record.seq, record.t_ns))
        if http is None:
            return
        if http.has_news or not self.addressing.is_of_session(http.number):
            self.addressing.on_exchange(members)
        self.routing.on_exchange(http, record.t_ns)
        if http.unrecorded_sides or http.counted_unrecorded:
            self._note_unrecorded(http)
        if members.get("stage") == "end":
            http.ended_calls = self._exchange_ends.on_exchange_end(record, http)
            self.failed_count += sum(call.final_outcome not in (_CANCELLED, _NOT_RECORDED) for call in http.ended_calls)
            if http.session is not None:
                self.routing.note_news(http.session)  # rules remember how the exchange ended
            if not http.is_redirect:
                self.links.subscriptions.on_stream_ended(http.first_carrier.number, record.t_ns, http.ended_by)
            self.logins.on_exchange_end(http)

    def _note_unrecorded(self, http: HttpExchange) -> None:
        """Note that messages may be missing in an exchange; called again at its end, when more may be missing."""
        if http.end_ref is None and len(http.unrecorded_sides) == http.counted_unrecorded:
            return  # counted at an earlier record of the exchange
        self.unrecorded_count += len(http.unrecorded_sides) - http.counted_unrecorded
        http.counted_unrecorded = len(http.unrecorded_sides)
        session = http.session or self.routing.session_of_exchange(http)
        self._distrust(None if session is None else [session])

    def _note_stream(self, record: Record) -> None:
        members = record.members
        number, last_event_id = _integer(members.get("exchange")), text_of(members.get("last_event_id"))
        if number is None:
            return
        if members.get("event") == "opened" and last_event_id is not None:
            http = self.exchanges.get_or_create(number)
            self.event_ids.on_stream_opened(http, last_event_id)
            for key in self.addressing.requests_in(http.stream) if http.stream != number else ():
                call = self.tables["client"].get(key)
                if call is not None and call.cancellation is None:
                    call.exchange_end, call.has_client_closed = None, False
                    self.under_way.changed_calls[call] = None
        elif members.get("event") == "ended":
            http, id_ = self.exchanges.get_or_create(number), text_of(members.get("event_id"))
            http.retry = _integer(members.get("retry"))
            if id_ is not None:
                http.is_retry_known = True
                self.event_ids.on_event(http, id_, record.seq)
            elif http.event_id is not None:
                self.event_ids.unrecorded_count += 1  # earlier versions do not record a last event without data

    def _note_segment(self, record: Record) -> None:
        """Note the loss of any segments that are missing before the one that begins here."""
        number = _integer(record.members.get("segment"))
        if self._segment_number and number is not None and number > self._segment_number + 1:
            first, last = self._segment_end_seq + 1, record.seq - 1
            self.note_loss(max(1, last - first + 1), (first, last) if first <= last else None)
        self._segment_number = number or 0

    def _on_header(self, record: Record) -> None:
        members = record.members
        self.name, self.capture = text_of(members.get("name")), text_of(members.get("capture"))
        self.transport, self.wall_ns = text_of(members.get("transport")), _integer(members.get("wall_ns"))
        environment = members.get("env")
        self.environment = environment if self.transport == "stdio" and isinstance(environment, dict) else {}
        is_first = self._segment_number <= 1
        self.first_seq = 0 if is_first else record.seq
        self.observed_start = self.routing.observed_start = is_first and members.get("observed_start") is True
        self.is_verbatim = members.get("verbatim") is not False
        self.is_redacted = "redacted_by" in members
        self.exchanges.is_whole = self.observed_start
        self.exchanges.has_public_url = bool(text_of(members.get("public")))
        self.exchanges.upstream = text_of(members.get("public")) or text_of(members.get("upstream")) or ""
        self.routing.transport, self.routing.environment = self.transport, self.environment
        if self.transport == "stdio":
            self.routing.begin_pipe(record.t_ns)

    def _on_close(self, record: Record) -> None:
        if record.members.get("ending") == "segment":
            self._segment_end_seq = record.seq
        else:
            self.ending, self.closed_ns = text_of(record.members.get("ending")) or "unknown", record.t_ns

    def _on_eof(self, record: Record) -> tuple[MessageContext, ...]:
        direction = record.members.get("dir")
        contexts = tuple([self._on_message(message) for message in self._assembly.finish(direction)])
        if direction in ("c2s", "s2c") and record.members.get("by") != "receiver":
            for session in self.routing.sessions():
                session.closed_ns.setdefault("client" if direction == "c2s" else "server", record.t_ns)
        return contexts


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
