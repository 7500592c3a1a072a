"""Fold: turns the items of a capture, one by one, into messages with their meaning and the state of their sessions.

Sans-IO and streaming: `feed` accepts the items of captures.reader, one at a time, and returns the messages that each
completes; `open_calls` returns the calls without a response. Nothing here raises, and everything is decided by the
bytes and stamps of the capture, so reading a file and following the same file live give the same result.

Both eras are understood on one connection. Up to 2025-11-25 a handshake names peers and revision for everything that
follows; since 2026-07-28 each request names its own, and never changes the state of a handshake.
"""

from typing import Final
from weakref import ref

from analysis.conversation.addressing import Addressing
from analysis.conversation.assembly import Assembly
from analysis.conversation.bounded_dict import Forgotten
from analysis.conversation.call import Call, MessageContext, Outcome, context_of
from analysis.conversation.call_table import MAX_OPEN_HTTP_REQUESTS, MAX_OPEN_REQUESTS, OPEN_BYTES, CallTable
from analysis.conversation.cancellations import Cancellations
from analysis.conversation.exchange_ends import ExchangeEnds
from analysis.conversation.handshake import advance_state, is_modern, text_of
from analysis.conversation.http_exchange import MAX_OPEN_HTTP_EXCHANGES, HttpExchange
from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.http_shortcut import HttpShortcut
from analysis.conversation.links import Links
from analysis.conversation.meaning import ContextBuilder, is_unjudged
from analysis.conversation.message import (
    Invalid,
    Message,
    Request,
    Side,
    flawless,
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
from analysis.conversation.under_way import UnderWay
from captures.damage import Damage
from captures.frame import Frame
from captures.gaps import MAX_LOST_RECORDS, lost_count
from captures.record import Record

# Enumeration members are slow to look up.
_CANCELLED: Final = Outcome.CANCELLED
_NOT_RECORDED: Final = Outcome.NOT_RECORDED
_UNANSWERED: Final = Outcome.UNANSWERED


class Fold:
    """The fold of one capture. Its attributes hold what is known so far about the capture as a whole."""

    def __init__(self) -> None:
        """Create a fold that knows nothing yet."""
        self.name: str | None = None
        """The server's name in the capture: given by the user, or guessed from the command."""
        self.capture: str | None = None
        """Id of the capture."""
        self.transport: str | None = None
        """`stdio`, `http` or `import`."""
        self.wall_ns: int | None = None
        """Wall clock when the capture opened."""
        self.observed_start = False
        self.is_verbatim = True
        """Whether frames are the bytes that crossed; False for imported logs that have text or objects instead."""
        self.has_inexact_times = False
        """Whether the time of any frame so far is not exact."""
        """Whether the recording began before the server's first byte."""
        self.ending: str | None = None
        """How the recording ended; None until a `close` record has been read."""
        self.closed_ns: int | None = None
        """Stamp of that record."""
        self.server_ended_ns: int | None = None
        """When the server's process ended; None if no record so far says so."""
        self.failed = 0
        """Requests whose HTTP exchange failed before a response came."""
        self.unjudged = 0
        """Frames that could not be examined: a response may be among them."""
        self.begins_at = 0
        """Number of the first record, if the recorder's ring has deleted those before it; else 0."""
        self.unrecorded = 0
        """Bodies over HTTP that may hold messages and are not in the capture; see `HttpExchange.unrecorded`."""
        self.lost = 0
        """Records known to be lost, and stretches of damage, which may also hold a response."""
        self.tables: dict[Side, CallTable] = {"client": CallTable(), "server": CallTable()}
        """Requests, by the side that sent them."""
        self.links = Links()
        """Multi-round calls, tasks and subscriptions."""
        self.event_ids = EventIds()
        """The event ids of streams over HTTP."""
        self.routing = Routing(self.tables)
        """The sessions."""
        self.exchanges = HttpExchanges()
        self.t_ns = 0
        """Stamp of the last item."""
        self._segment = self._segment_end = 0
        self._last: Session | None = None
        # The peers that earlier sessions named, for a session that does not name its own.
        self._client: Peer | None = None
        self._server: Peer | None = None
        self.addressing = Addressing()
        """Which requests a response over HTTP can answer."""
        self.under_way = UnderWay(self.tables, self.addressing)
        """The calls between their request and their end, and which of them the last item changed."""
        pairing = Pairing(self.tables, self.addressing, self.routing)
        cancellations = Cancellations(self.tables, pairing, self.under_way)
        self._meaning = ContextBuilder(
            self.tables, self.under_way, self.addressing, self.routing, pairing, cancellations
        )
        self._ends = ExchangeEnds(self.tables, self.under_way, self.addressing, self.links.chains)
        self._assembly = Assembly()
        self._pipe_shortcut = PipeShortcut(self.tables, self.under_way, self.links, cancellations, self._assembly)
        self._http_shortcut = HttpShortcut(
            self.tables, self.under_way, self.links, self.addressing, pairing, self.routing.used
        )
        self._prepared: PipeShortcut | HttpShortcut | None = None
        """The shortcut that is prepared; None if something that it depends on has changed."""

    @property
    def client(self) -> Peer | None:
        """The client that was named last; each session knows its own."""
        return (self._last and self._last.client) or self._client

    @property
    def server(self) -> Peer | None:
        """The server named last."""
        return (self._last and self._last.server) or self._server

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions of its sessions, each once, in the order of the sessions. Untrusted texts."""
        return tuple(dict.fromkeys(session.revision for session in self.routing.open() if session.revision))

    @property
    def is_clear(self) -> bool:
        """Whether every frame was seen and understood, so that a missing answer is really missing."""
        evicted = any(table.evicted for table in self.tables.values())
        return not (self.unjudged or self.lost or self.unrecorded or evicted)

    @property
    def forgotten(self) -> list[Forgotten]:
        """The entries that had to be forgotten because there were too many at once, or an empty list if none were."""
        chains, tasks, subscriptions = self.links.chains, self.links.tasks, self.links.subscriptions
        requests = sum(table.evicted for table in self.tables.values())
        tables = []
        if requests:
            most = MAX_OPEN_HTTP_REQUESTS if self.transport == "http" else MAX_OPEN_REQUESTS
            limit = f"more than {most:,}, or {OPEN_BYTES >> 20} MiB, were open at once"
            tables.append(Forgotten("requests", requests, limit, "responses to them count as unknown"))
        if self.exchanges.forgotten:
            limit = f"more than {MAX_OPEN_HTTP_EXCHANGES:,} were open at once"
            effect = "what comes in them reads as if it were of others"
            tables.append(Forgotten("exchanges of HTTP", self.exchanges.forgotten, limit, effect))
        if self.routing.forgotten:
            limit = f"there are more than {MAX_SESSIONS:,}"
            effect = "what only their end shows is not told of these"
            tables.append(Forgotten("sessions", self.routing.forgotten, limit, effect))
        for what, count, most in (
            ("calls of several rounds", chains.forgotten, MAX_CHAINS),
            ("tasks", tasks.forgotten, MAX_TASKS),
            ("subscriptions", subscriptions.forgotten, MAX_SUBSCRIPTIONS),
        ):
            if count:
                limit = f"more than {most:,}, or 8 MiB, were remembered at once"
                tables.append(Forgotten(what, count, limit, "what goes on with them reads as new"))
        return tables

    def feed(self, item: object) -> tuple[MessageContext, ...]:
        """Process the next item of a capture.

        Args:
            item: a Frame, a Record, or damage.

        Returns:
            The messages that it completes, with their meaning; a message that spans lines comes with the last of them.
        """
        if self.under_way.changed:
            self.under_way.changed = {}
        if isinstance(item, Frame):
            if item.skipped:
                self.note_loss(item.skipped)
            self.t_ns = item.t_ns
            if not item.time_is_exact:
                self.has_inexact_times = True
            body, exchange = item.body, item.exchange
            if exchange is not None and item.event_id is not None:
                self.event_ids.on_event(
                    self.exchanges.get_or_create(exchange), item.event_id, item.seq, item.t_ns, item.raw
                )
            if body is None:
                return self._assembled(item)
            if exchange is not None:
                return (self._see(flawless(item, body)),)
            shortcut = self._pipe_shortcut
            if self._prepared is not shortcut:
                shortcut.prepare(self._last if self._last is self.routing.of_pipe else None)
                self._prepared = shortcut
            plain = shortcut.try_frame(item, body) if shortcut.is_open else None
            return self._assembled(item) if plain is None else (plain,)
        if isinstance(item, Record):
            if item.skipped:
                self.note_loss(item.skipped)
            self.t_ns = item.t_ns
            return self._note(item)
        self.note_loss(1, is_torn=isinstance(item, Damage) and item.cause == "torn")
        return ()

    def flush(self) -> tuple[MessageContext, ...]:
        """Release the lines held back as the beginning of a message that was never completed; return their messages."""
        self.under_way.changed = {}
        return tuple([self._see(message) for message in self._assembly.finish()])

    def open_calls(self) -> tuple[Call, ...]:
        """The calls without a response, with what became of them so far, in the order of their requests."""
        left = [call for table in self.tables.values() for call in table.waiting()]
        left.sort(key=lambda call: call.request.seq)
        for call in left:
            self.under_way.measure(call)
        return tuple(left)

    def open_until_ns(self, call: Call, last_ns: int | None = None) -> int:
        """Until when a call was open, as `calls.until_ns` in SQL says for stdio.

        A call that is over was open until then. Another one was open until its server ended, or else until the end of
        the capture: after its server had ended, it could not be answered, even if it was cancelled only later.

        Args:
            call: the call.
            last_ns: the stamp at which the capture ends; None for that of its last item.
        """
        over = call.over
        until_ns = (self.t_ns if last_ns is None else last_ns) if over is None else over.t_ns
        is_left_waiting = call.http is None and (over is None or call.outcome is _UNANSWERED)
        if is_left_waiting and self.server_ended_ns is not None:
            until_ns = min(until_ns, self.server_ended_ns)
        return max(call.request.t_ns, until_ns)

    def is_waiting_in(self, exchange: int) -> bool:
        """Whether a client request that an HTTP exchange carried has no response yet."""
        return any(self.tables["client"].get(key) is not None for key in self.addressing.requests_in(exchange))

    # ---- messages

    def _assembled(self, frame: Frame) -> tuple[MessageContext, ...]:
        """The messages that a frame completes; none if it may be part of one."""
        if frame.exchange is None:
            self._prepared = None  # a line may be held back
        assembled = self._assembly.feed(frame)
        if isinstance(assembled, tuple) and len(assembled) == 1:
            return (self._see(assembled[0]),)  # the usual case
        return tuple([self._see(message) for message in assembled])

    def _see(self, message: Message) -> MessageContext:
        number = message.frames[0].exchange
        if number is None:
            http, session, context = None, self.routing.begin(message.t_ns), None
        else:
            http = self.exchanges.get_or_create(number)
            if message.sender == "client" and self._is_repeated(message, http):
                return self._again(message, http)
            if http.session is None:
                by_itself = isinstance(message, Request) and message.sender == "client" and is_modern(message, http)
                http.session = self.routing.session_of(message, http, is_modern=by_itself)
            session = http.session
            context = self._plainly(message, session, http)
        if context is None:
            if number is None or not isinstance(message, Invalid):
                self._prepared = None
            context = self._meaning.context_of(message, session, http)
            if isinstance(message, Invalid) and is_unjudged(message):
                self.unjudged += 1
            self.links.follow(context)
            advance_state(context)
        session.last_seq[message.sender] = message.seq
        if session not in self.routing.stirred:
            self.routing.stir(session)
        if http is not None:
            self.exchanges.add(http, context)
            session.last_ns = message.t_ns
        if session is not self._last:
            self._client, self._server = self.client, self.server
            self._last = session
        return context

    def _plainly(self, message: Message, session: Session, http: HttpExchange) -> MessageContext | None:
        """Returns a plain message over HTTP with its meaning, or None if it is not plain."""
        if isinstance(message, Invalid) or message.frames[0].body is None:
            return None
        shortcut = self._http_shortcut
        if self._prepared is not shortcut or shortcut.session is not session:
            shortcut.prepare(session)
            self._prepared = shortcut
        return shortcut.try_message(message, http) if shortcut.is_open else None

    def _is_repeated(self, message: Message, http: HttpExchange) -> bool:
        """Whether a message comes again because the exchange that carried it was redirected."""
        if http.origin is None:
            if not self.exchanges.is_redirecting:
                return False
            earlier = self.exchanges.redirected(http, message.frames[0].raw, message.t_ns)
            if earlier is None:
                return False
            http.origin, http.session = earlier.first, earlier.session
            earlier.first.repeated = ref(http)
            self.addressing.repeat(http.number, earlier.number)
            self.exchanges.share(earlier, http)
            for key in self.addressing.requests_in(http.number):
                waiting = self.tables["client"].get(key)
                if waiting is not None:
                    waiting.http, waiting.exchange_end = http, None
                    waiting.redirects += 1
                    self.under_way.changed[waiting] = None
        return True

    def _again(self, message: Message, http: HttpExchange) -> MessageContext:
        """A repeated message, which belongs to the request or notification that it repeats."""
        first = next((context for context in http.sent if context.message.index == message.index), None)
        session = http.session or self.routing.session_of(message, http, is_modern=False)
        session.last_ns = message.t_ns
        context = context_of(message, session, state=session.state, http=http)
        context.is_repeat = True
        if first is not None:
            context.revision, context.rank, context.era, context.request = (
                first.revision,
                first.rank,
                first.era,
                first.request,
            )
            context.call = first.call
        return context

    # ---- other records

    def _note(self, record: Record) -> tuple[MessageContext, ...]:
        members = record.members
        if record.rec == "header":
            self._note_segment(record)
            if self.capture is None:
                self._open(record)
        elif record.rec == "exchange":
            self._note_exchange(record)
        elif record.rec == "stream":
            self._note_stream(record)
        elif record.rec == "stall" and members.get("dir") == "c2s":
            self.under_way.stalls.add(members, record.t_ns)
        elif record.rec in ("gap", "frame", "part"):
            # The reader could not turn a frame or a part of one into a frame.
            self.note_loss(lost_count(record) if record.rec == "gap" else 1)
        elif record.rec == "eof":
            return self._end_of_stream(record)
        elif record.rec == "process" and members.get("event") == "ended":
            self.server_ended_ns = record.t_ns
            for session in self.routing.open():
                session.process = members
        elif record.rec == "close":
            self._close(record)
        return ()

    def note_loss(self, count: int, *, is_torn: bool = False) -> None:
        """Note lost records: messages before them prove nothing about what comes after them.

        Args:
            count: how many.
            is_torn: whether it is the incomplete last record that a kill leaves.
        """
        self.lost = min(MAX_LOST_RECORDS, self.lost + count)
        if not is_torn:
            self._distrust()

    def _distrust(self, sessions: list[Session] | None = None) -> None:
        """Note that messages are missing: those before them prove nothing about what comes after them.

        Args:
            sessions: the sessions that lack messages; None if unknown.
        """
        self._prepared = None
        for table in self.tables.values():
            table.note_loss()
        self.exchanges.is_whole = False
        self.exchanges.losses += 1
        self.routing.note_loss()
        self._assembly.note_loss()
        for session in self.routing.stirred if sessions is None else sessions:
            session.note_loss()
            self.routing.used_by(session).clear()
        if sessions is None:
            self.routing.stirred.clear()

    def _note_exchange(self, record: Record) -> None:
        members = record.members
        http = self.exchanges.on_record(members, RecordRef(record.seq, record.t_ns))
        if http is None:
            return
        if http.has_news or not self.addressing.is_of_session(http.number):
            self.addressing.on_exchange(members)
        self.routing.on_exchange(http, record.t_ns)
        if http.unrecorded or http.missed:
            self._miss(http)
        if members.get("stage") == "end":
            http.unawaited = self._ends.on_exchange_end(record, http)
            self.failed += sum(call.settled not in (_CANCELLED, _NOT_RECORDED) for call in http.unawaited)
            if http.session is not None:
                self.routing.stir(http.session)  # rules remember how it ended
            if not http.is_redirect:
                self.links.subscriptions.stream_ended(http.first.number, record.t_ns, http.ended_by)

    def _miss(self, http: HttpExchange) -> None:
        """Note that messages may be missing in an exchange; called again at its end, as a stream may hold more then."""
        if http.over is None and len(http.unrecorded) == http.missed:
            return  # known since the last record of the exchange
        self.unrecorded += len(http.unrecorded) - http.missed
        http.missed = len(http.unrecorded)
        session = http.session or self.routing.session_of_exchange(http)
        self._distrust(None if session is None else [session])

    def _note_stream(self, record: Record) -> None:
        members = record.members
        number, last = _integer(members.get("exchange")), text_of(members.get("last_event_id"))
        if number is None:
            return
        if members.get("event") == "opened" and last is not None:
            http = self.exchanges.get_or_create(number)
            self.event_ids.on_stream_opened(http, last)
            for key in self.addressing.requests_in(http.stream) if http.stream != number else ():
                waiting = self.tables["client"].get(key)
                if waiting is not None and waiting.cancellation is None:
                    waiting.exchange_end, waiting.client_closed = None, False
                    self.under_way.changed[waiting] = None
        elif members.get("event") == "ended":
            http, id_ = self.exchanges.get_or_create(number), text_of(members.get("event_id"))
            http.retry = _integer(members.get("retry"))
            if id_ is not None:
                http.is_retry_known = True
                self.event_ids.on_event(http, id_, record.seq)
            elif http.event_id is not None:
                self.event_ids.unseen += 1  # earlier versions do not record a last event without data

    def _note_segment(self, record: Record) -> None:
        """Note the records of segments that are missing before the one that begins here."""
        number = _integer(record.members.get("segment"))
        if self._segment and number is not None and number > self._segment + 1:
            self.note_loss(max(1, record.seq - self._segment_end - 1))
        self._segment = number or 0

    def _open(self, record: Record) -> None:
        members = record.members
        self.name, self.capture = text_of(members.get("name")), text_of(members.get("capture"))
        self.transport, self.wall_ns = text_of(members.get("transport")), _integer(members.get("wall_ns"))
        is_first = self._segment <= 1
        self.begins_at = 0 if is_first else record.seq
        self.observed_start = self.routing.observed_start = is_first and members.get("observed_start") is True
        self.is_verbatim = members.get("verbatim") is not False
        self.exchanges.is_whole = self.observed_start
        self.exchanges.upstream = text_of(members.get("public")) or text_of(members.get("upstream")) or ""
        self.routing.transport = self.transport
        if self.transport == "stdio":
            self.routing.begin(record.t_ns)

    def _close(self, record: Record) -> None:
        if record.members.get("ending") == "segment":
            self._segment_end = record.seq
        else:
            self.ending, self.closed_ns = text_of(record.members.get("ending")) or "unknown", record.t_ns

    def _end_of_stream(self, record: Record) -> tuple[MessageContext, ...]:
        direction = record.members.get("dir")
        left = tuple([self._see(message) for message in self._assembly.finish(direction)])
        if direction in ("c2s", "s2c") and record.members.get("by") != "receiver":
            for session in self.routing.open():
                session.closed_ns.setdefault("client" if direction == "c2s" else "server", record.t_ns)
        return left


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
