"""ScriptBuilder: turns the steps of a reading into the items of a script.

The reading knows to which call a request, a response or progress belongs. For everything else that a server sends, the
stream that carried it decides: that of a request's exchange, or one that resumes it. Where all messages share a stream
(stdio, the older transport), it is the only call that was open then.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call import Call, MessageContext
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Notification, Request, Response
from analysis.conversation.subscriptions import LISTEN, ListenSubscription
from analysis.conversation.under_way import PROGRESS_METHODS
from analysis.facts import target_name
from analysis.playback.http_answers import MAX_NUMBER, HttpAnswers
from analysis.playback.matching import Matching
from analysis.playback.request_fields import text_of
from analysis.playback.script_table import (
    ANSWER,
    BATCH,
    CHANNEL_SHIFT,
    INVALID,
    KIND_SHIFT,
    MAX_TEXT_CHARS,
    MEMBER_ROW,
    NOTIFICATION,
    OWN_REQUEST,
    PIPE,
    PRIMING,
    REPEAT,
    REQUEST,
    RESPONSE,
    SERVER,
    STDERR,
    STREAM,
    Extras,
    ScriptTable,
    Terms,
)
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.reading import Reading, Step
from captures.frame import Frame
from captures.frames import stream_of
from captures.record import Record, raw_bytes

MAX_EVENT_ID_CHARS: Final = 1 << 16
"""The most characters of an event id that is kept."""
MAX_RESENT_EVENTS: Final = 50_000
"""The most events whose ids are remembered, so that they are recognised when they are sent again."""
MAX_OUTER_CALLS: Final = 10_000
"""The most requests of a server that are remembered with the call during which they were sent."""
MAX_OPEN_STREAM_CALLS: Final = 100
"""The most open calls among which the only one that can be meant is looked for."""
_CLIENT_REQUEST: Final = REQUEST << KIND_SHIFT
_SERVER_RESPONSE: Final = SERVER | RESPONSE << KIND_SHIFT
_SERVER_ANSWER: Final = _SERVER_RESPONSE | ANSWER


class ScriptBuilder:
    """Fills a table from the steps of one reading."""

    def __init__(self, reading: Reading, table: ScriptTable, matching: Matching) -> None:
        """Create a builder that has seen no steps."""
        self._reading, self._table, self._matching = reading, table, matching
        self._http = HttpAnswers(reading, table)
        self.segment = 0
        """The position of the segment from which the next step comes."""
        self.abridged_count = 0
        """How many messages an imported log holds only in part."""
        self.cut_count = 0
        """Of how many frames some bytes are lost."""
        self._parts: dict[tuple[object, ...], tuple[int, list[tuple[int, int]]]] = {}
        """The first record and the places of the parts of unfinished giant frames, by `stream_of`."""
        self._unfinished: dict[int, list[tuple[int, int]]] = {}
        """The places of the parts of frames that were never completed, by the number of the first part."""
        self._held: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {}
        """Segment and parts of the lines that may begin a message, by their numbers."""
        self._listens: dict[tuple[int, object], int] = {}
        """The calls of `subscriptions/listen`, by number of the frame and id."""
        self._event_ids: dict[int, str] = {}
        """The event id in force, by number of an open exchange."""
        self._sent_events: BoundedDict[tuple[int, str], int] = BoundedDict(MAX_RESENT_EVENTS)
        """The numbers of events that a client may have missed, by stream and event id."""
        self._outers: BoundedDict[int, int] = BoundedDict(MAX_OUTER_CALLS)
        """The client's calls during which the server's open requests were sent, where the reading knows none."""
        self._legacy_calls: dict[int, dict[int, None]] = {}
        """The open calls of sessions of the older transport."""

    def on_step(self, step: Step) -> None:
        """Add what a step adds."""
        messages, item, record = step.messages, step.item, step.record
        if type(item) is Frame:
            parts: tuple[tuple[int, int], ...] = ()
            if record is not item and (type(record) is not Record or "parts" in record.members or record.rec == "part"):
                parts = self._take_parts(item, record)
            message = messages[0].message if len(messages) == 1 else None
            if message is not None and message.seq == item.seq and message.index is None and len(message.frames) == 1:
                self._add(messages[0], item, self.segment, parts)
            else:
                self._held[item.seq] = self.segment, parts
                self._add_all(messages)
            return
        if messages:
            self._add_all(messages)
        if type(item) is Record:
            self._on_record(item)
        elif type(record) is Record and record.rec == "part":
            self._add_part(record)
        if item is None or type(item) is Record:
            for call in step.changed:
                if call.final_outcome is not None and call.response is None:
                    self._end_call(call)

    # ---- records

    def _on_record(self, record: Record) -> None:
        rec = record.rec
        if rec == "stderr" and raw_bytes(record.members) is not None:
            call = self._only_open_call()
            code = SERVER | STDERR << KIND_SHIFT | PIPE << CHANNEL_SHIFT
            place = max(0, record.offset)
            self._table.append(record.seq, record.t_ns, place, 0, 0, self.segment, 0, (call, -1, 0, 0, 0, code))
        elif rec in ("exchange", "stream"):
            number = self._http.on_record(record, self.segment)
            if number is not None and record.members.get("stage") == "end":
                self._event_ids.pop(number, None)

    def _add_part(self, part: Record) -> None:
        stream, number = stream_of(part.members), part.members.get("part")
        if number == 1:
            unfinished = self._parts.pop(stream, None)
            if unfinished is not None:
                self._unfinished[unfinished[0]] = unfinished[1]
            self._parts[stream] = part.seq, []
        parts = self._parts.get(stream)
        if parts is not None and number == len(parts[1]) + 1 and raw_bytes(part.members) is not None:
            parts[1].append((self.segment, part.offset))

    def _take_parts(self, frame: Frame, record: object) -> tuple[tuple[int, int], ...]:
        """Returns the places of the parts of a giant frame, and forgets them."""
        if type(record) is Record and record.rec == "frame":
            parts = self._parts.pop(stream_of(record.members), None)
            return () if parts is None else tuple(parts[1])
        if type(record) is Record:
            self._add_part(record)  # the first part of the next frame shows that this one was never completed
        for stream, (seq, _) in self._parts.items():
            if seq == frame.seq:
                self._unfinished[seq] = self._parts.pop(stream)[1]
                break
        return tuple(self._unfinished.pop(frame.seq, ()))

    # ---- messages

    def _add_all(self, messages: Sequence[MessageContext]) -> None:
        """Add messages that come with other ones of the same step: of a batch, or of lines that were held back."""
        for _, group in groupby(messages, lambda context: context.message.seq):
            contexts = [*group]
            frames = contexts[0].message.frames
            segment, parts = self._held.pop(frames[0].seq, (self.segment, ()))
            for frame in frames[1:]:
                further_segment, further_parts = self._held.pop(frame.seq, (self.segment, ()))
                parts += ((further_segment, max(0, frame.offset)), *further_parts)
            if len(contexts) == 1 and contexts[0].message.index is None:
                self._add(contexts[0], frames[0], segment, parts)
            else:
                self._add_batch(contexts, frames[0], segment, parts)

    def _add(self, context: MessageContext, frame: Frame, segment: int, parts: tuple[tuple[int, int], ...]) -> None:
        """Add one message that is a frame, or several lines."""
        message, call = context.message, context.call
        text_number, known = self._table.text_number, self._table.text_numbers.get  # most texts are known
        number, outer, method, name, key = -1, -1, 0, 0, 0
        if isinstance(message, Request):
            code = _CLIENT_REQUEST
            method = known(message.method) or text_number(message.method[:MAX_TEXT_CHARS])
            if call is not None:
                number = call.number
                if call.name is not None:
                    name = known(call.name) or text_number(call.name[:MAX_TEXT_CHARS])
            if message.sender == "server":
                code = SERVER | REQUEST << KIND_SHIFT
                outer = self._outer_call(call, context, frame)
            else:
                key = text_number(self._key_of(context))
        elif isinstance(message, Response):
            if call is not None and context.answered is call and message.sender == "server" and not self._legacy_calls:
                code, number = _SERVER_ANSWER, call.number  # nearly always
            else:
                code, number, outer = self._response_terms(context)
            if context.request is not None:
                asked = context.request.method
                method = known(asked) or text_number(asked[:MAX_TEXT_CHARS])
        else:
            if isinstance(message, Notification):
                kind, name = NOTIFICATION, self._name_number(context)
                method = text_number(message.method[:MAX_TEXT_CHARS])
            else:
                kind = PRIMING if frame.is_priming else INVALID
                self.cut_count += frame.is_partial
            code = kind << KIND_SHIFT
            if message.sender == "server":
                code |= SERVER
                number = self._server_call(context, frame)
        extras = None if not parts and frame.event is None else Extras(parts, b"", frame.event)
        terms = (number, outer, method, name, key, code)
        if frame.exchange is None and not frame.is_abridged:  # nearly all messages on a pipe
            place = max(frame.offset, 0)
            self._table.append(message.seq, message.t_ns, place, 0, context.session.number, segment, 0, terms, extras)
            return
        self._append(context, frame, terms, segment, extras)
        if context.http is not None and message.sender == "client":
            self._note_client_message(context.http, context, (number,) if isinstance(message, Request) and call else ())

    def _append(
        self,
        context: MessageContext,
        frame: Frame,
        terms: Terms,
        segment: int,
        extras: Extras | None,
    ) -> None:
        """Append the row of a message or batch: call, outer call, method, name, key and code are known."""
        call, outer, method, name, key, code = terms
        message, http, exchange, event_id, fields = context.message, context.http, 0, 0, 0
        if frame.is_abridged:
            self.abridged_count += 1
        if frame.exchange is not None:
            exchange = frame.exchange if 0 < frame.exchange <= MAX_NUMBER else 0
            is_lone = call < 0 and code == _SERVER_RESPONSE and frame.unit == "http_body"
            if is_lone and exchange and extras is None:  # it is only the text of its HTTP response
                self._table.response_texts[exchange] = segment, max(0, frame.offset)
            code |= self._channel(http, is_server=bool(code & SERVER)) << CHANNEL_SHIFT
            if http is not None and code & SERVER:
                self._http.note_server_message(http)
            elif http is not None and http.method:
                fields = self._table.text_number(text_of(http.field_lines))
            if context.is_repeat:
                code |= REPEAT
            own_id = self._own_event_id(frame) if frame.event_id is not None else None
            if own_id is not None and http is not None:
                self._table.event_ids.append(own_id)
                event_id = len(self._table.event_ids)
                call, outer, code = self._recognise(http, own_id, call, outer, code)
        self._table.append(
            message.seq,
            message.t_ns,
            max(0, frame.offset),
            exchange,
            context.session.number,
            segment,
            event_id,
            (call, outer, method, name, key, code),
            extras,
            fields,
        )

    def _add_batch(
        self, contexts: list[MessageContext], frame: Frame, segment: int, parts: tuple[tuple[int, int], ...]
    ) -> None:
        """Add several messages in one frame."""
        table, first = self._table, contexts[0]
        is_server = first.message.sender == "server"
        rows, calls = bytearray(), []
        for context in contexts:
            message, name, key = context.message, 0, 0
            kind, call, answer = INVALID, -1, 0
            method = table.text_number(context.method[:MAX_TEXT_CHARS])
            if isinstance(message, Request):
                kind, call = REQUEST, -1 if context.call is None else context.call.number
                name = self._name_number(context)
                if not is_server:
                    key = table.text_number(self._key_of(context))
                    calls.append(call)
            elif isinstance(message, Response):
                code, call, _ = self._response_terms(context)
                kind, answer = RESPONSE, code & ANSWER
            elif isinstance(message, Notification):
                kind, call = NOTIFICATION, self._server_call(context, frame) if is_server else -1
                name = self._name_number(context)
            rows += MEMBER_ROW.pack(call, method, name, key, kind << KIND_SHIFT | answer)
        code = BATCH << KIND_SHIFT | (SERVER if is_server else 0)
        self._append(first, frame, (-1, -1, 0, 0, 0, code), segment, Extras(parts, bytes(rows), frame.event))
        if first.http is not None and not is_server:
            self._note_client_message(first.http, first, tuple(calls))

    def _key_of(self, context: MessageContext) -> str:
        call, request = context.call, context.request
        method = "" if request is None else request.method
        name = "" if call is None or call.name is None else call.name
        params = context.body.get("params")
        if method == LISTEN and call is not None:
            self._listens[call.request.seq, call.request.id] = call.number
        try:
            return self._matching.key_of(method, name, params)
        except (ValueError, TypeError, RecursionError):
            return f"unreadable {context.message.seq}"  # it equals nothing

    def _name_number(self, context: MessageContext) -> int:
        name = target_name(context.body.get("params"))
        return 0 if name is None else self._table.text_number(name[:MAX_TEXT_CHARS])

    # ---- which call

    def _response_terms(self, context: MessageContext) -> tuple[int, int, int]:
        """Returns code, call and outer call of a response, and notes the end of its call."""
        call, is_answer = context.call, context.answered is not None
        number = -1 if call is None else call.number
        if context.message.sender == "server":
            if call is not None and is_answer:
                self._end_legacy_call(call)
                return _SERVER_ANSWER, number, -1
            return _SERVER_RESPONSE, number, -1
        outer = -1 if call is None or call.outer is None else call.outer.number
        if outer < 0 and call is not None:
            outer = self._outers.pop(call.number, -1)
        return RESPONSE << KIND_SHIFT | (ANSWER if is_answer else 0), number, outer

    def _server_call(self, context: MessageContext, frame: Frame) -> int:
        """Returns the client's call to which a server's notification or invalid frame belongs; -1 if to none."""
        message, subscription = context.message, context.subscription
        if isinstance(message, Notification) and message.method in PROGRESS_METHODS:
            call = self._reading.fold.under_way.reported_call(message, context.session)
            if call is not None and call.request.sender == "client":
                return call.number
        if isinstance(subscription, ListenSubscription):
            number = self._listens.get((subscription.seq, subscription.id), -1)
            if number >= 0:
                return number
        if frame.exchange is None or context.http is None:
            return self._only_open_call()
        return self._call_on(context.http, context.session.number)

    def _outer_call(self, call: Call | None, context: MessageContext, frame: Frame) -> int:
        """Returns the client's call during which a server's request was sent; -1 if unknown."""
        if call is not None and call.outer is not None:
            return call.outer.number
        outer = self._server_call(context, frame)
        if outer >= 0 and call is not None:
            self._outers.put(call.number, outer)
        return outer

    def _only_open_call(self) -> int:
        """Returns the client's only call that is open on a pipe; -1 if there is none, or several."""
        call = self._reading.fold.under_way.only_pipe_call()
        return -1 if call is None else call.number

    def _call_on(self, http: HttpExchange, session: int) -> int:
        """Returns the call to which a message on a stream over HTTP belongs; -1 if to none."""
        carrier = self._carrier(http)
        calls = self._http.calls_in(carrier.number)
        if not calls and carrier is not http:
            calls = self._http.calls_in(http.number)
        if calls:
            open_calls = [call for call in calls[:MAX_OPEN_STREAM_CALLS] if not self._table.has_ended(call)]
            return open_calls[0] if open_calls else calls[-1]
        legacy_calls = self._legacy_calls.get(session)
        return next(iter(legacy_calls)) if legacy_calls and len(legacy_calls) == 1 else -1

    def _carrier(self, http: HttpExchange) -> HttpExchange:
        """Returns the exchange that began the stream of an exchange: another one if that was resumed."""
        if http.stream == http.number:
            return http
        return self._reading.exchange(http.stream) or http

    def _channel(self, http: HttpExchange | None, *, is_server: bool) -> int:
        if http is None or not is_server:
            return OWN_REQUEST
        return STREAM if self._carrier(http).method == "GET" else OWN_REQUEST

    def _note_client_message(self, http: HttpExchange, context: MessageContext, calls: tuple[int, ...]) -> None:
        """Note what an exchange carried."""
        self._http.add_calls(http, calls)
        if calls and context.session.is_legacy and not context.is_repeat and context.method not in ENDLESS_METHODS:
            self._legacy_calls.setdefault(context.session.number, {}).update(dict.fromkeys(calls))

    def _end_call(self, call: Call) -> None:
        self._table.note_end(call.number)
        self._end_legacy_call(call)

    def _end_legacy_call(self, call: Call) -> None:
        if self._legacy_calls and call.session is not None:
            self._legacy_calls.get(call.session.number, {}).pop(call.number, None)

    # ---- events

    def _own_event_id(self, frame: Frame) -> str | None:
        """Returns the id that an event has itself; None if it only is in the stream of an earlier one."""
        event_id, exchange = frame.event_id, frame.exchange
        assert event_id is not None
        assert exchange is not None
        if self._event_ids.get(exchange) == event_id and not frame.id_again:
            return None
        self._event_ids[exchange] = event_id
        return event_id if len(event_id) <= MAX_EVENT_ID_CHARS else None

    def _recognise(self, http: HttpExchange, event_id: str, call: int, outer: int, code: int) -> tuple[int, int, int]:
        """Returns call, outer call and code of an event with an id: those of the original if it is sent again."""
        key = http.stream, event_id
        original = self._sent_events.get(key)
        if original is None:
            self._sent_events.put(key, self._table.next_number)
        elif self._table.row(original)[3] != http.number and http.resumption == "known":
            row = self._table.row(original)
            # An answer is given once: the client has it already, or takes it from here.
            call, outer, code = row[4], row[5], (code & ~ANSWER) | REPEAT
        return call, outer, code
