"""Records one body of an HTTP exchange: decodes it, and decides which parts of it are stored.

Stored are JSON-RPC, the events of a stream, and `.well-known` documents. Where a message was expected, the text of a
response that is not one is stored, too (`mcpproxy.recorder.response_text`). Of all other bodies, only the size and the
hash are stored. Where no message was expected, a body may be part of a login, so only its size is stored, and what
`mcpproxy.recorder.oauth_exchange` keeps of it. Bodies are copies of bytes that were already forwarded, so this module
cannot delay traffic.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from captures.addresses import escaped_text
from captures.envelope import judge_before_forwarding
from captures.limits import MAX_ENVELOPE_TEXT_BYTES
from captures.loss import PendingRecord
from captures.record import MAX_RAW_BYTES, frame_members, members, part_members
from captures.verdict import UNJUDGED, Direction, Unit
from mcpproxy.recorder.exchange_context import BodyContext
from mcpproxy.recorder.oauth_parameters import FORM, FORMS, MAX_CONTENT_BYTES
from mcpproxy.recorder.response_text import MAX_BODY_TEXT_BYTES
from mcpproxy.wire.content import MAX_DECODED_BYTES, Decoder, Undecodable, new_decoder
from mcpproxy.wire.framing import Fields
from mcpproxy.wire.lines import character_border
from mcpproxy.wire.portions import portions
from mcpproxy.wire.sse import Event, EventSplitter

MAX_CODING_CHARS: Final = 64
MAX_STREAM_BYTES: Final = 1 << 40
"""The maximum decoded size of a stream with a content coding."""
JSONRPC_NAME: Final = b'"jsonrpc"'
MAX_SNIFFED_BYTES: Final = 1 << 20
_STREAM_MEDIA_TYPE: Final = b"text/event-stream"
_JSON_MEDIA_TYPES: Final = (b"application/json", b"application/json-rpc", b"")
_FIRST_ERROR_STATUS: Final = 400
_MESSAGE_KINDS: Final = frozenset({"request", "notification", "response", "error", "batch"})


class BodyRecorder:
    """Records one body of an exchange: as frames, or as its size and hash."""

    __slots__ = (
        "_coding",
        "_decoder",
        "_direction",
        "_event_count",
        "_event_id",
        "_event_parts_size",
        "_events",
        "_exchange",
        "_form",
        "_hash",
        "_is_always_stored",
        "_is_broken",
        "_is_hashed",
        "_is_opaque",
        "_is_over",
        "_is_recorded",
        "_last_frame_event_id",
        "_media_type",
        "_part_count",
        "_parts_size",
        "_pending",
        "_retry",
        "last_event_id",
        "size",
    )

    def __init__(
        self,
        exchange: BodyContext,
        direction: Direction,
        fields: Fields,
        *,
        last_event_id: str | None,
        status: int | None = None,
    ) -> None:
        """Begin a body.

        Args:
            exchange: the exchange.
            direction: the direction of the body.
            fields: the fields of its head.
            last_event_id: the id of the event after which a stream continues, if the request names one.
            status: the status of the response; None for the body of a request.
        """
        self.size = 0
        self.last_event_id = last_event_id
        self._exchange = exchange
        self._direction: Direction = direction
        self._media_type = fields.media_type
        codings = fields.values_of(b"content-encoding")
        self._coding = escaped_text(b", ".join(codings))[:MAX_CODING_CHARS]
        # A stream may last for days, but how far a few bytes can expand is bounded.
        max_decoded_bytes = MAX_STREAM_BYTES if self._media_type == _STREAM_MEDIA_TYPE else MAX_DECODED_BYTES
        self._decoder: Decoder | None = new_decoder(codings, max_decoded_bytes) if codings else None
        self._is_opaque = bool(codings) and self._decoder is None
        self._is_broken = False
        is_events = status is not None and self._media_type == _STREAM_MEDIA_TYPE and not exchange.is_private()
        self._events = EventSplitter(MAX_RAW_BYTES) if is_events else None
        self._event_count = 0
        self._event_id: str | None = None
        self._last_frame_event_id: str | None = None
        """The event id that applied to the last event stored as a frame."""
        self._retry: int | None = None
        self._pending = bytearray()
        self._part_count = 0
        self._parts_size = 0
        self._event_parts_size = 0
        is_json = self._media_type in _JSON_MEDIA_TYPES or self._media_type.endswith(b"+json")
        # OAuth errors and gateway errors are JSON, too, but they are not messages.
        expects_message = (
            exchange.expects_messages() if status is None else exchange.is_endpoint() and status < _FIRST_ERROR_STATUS
        )
        self._is_always_stored = is_json and expects_message
        self._is_hashed = self._may_be_hashed(is_encoded=bool(codings))
        self._hash: hashlib._Hash | None = None  # made with the first piece, as it takes 250 bytes
        self._is_recorded = False
        """Whether the capture contains the body, as frames or as a document about the server."""
        self._is_over = False
        self._form: bytes | None = None

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self._events is not None

    @property
    def form(self) -> bytes | None:
        """The form that the body is; empty if the body is stored, or there is none; None if it is anything else."""
        is_stored = self._is_recorded or (self._is_always_stored and not self._is_opaque)
        return b"" if is_stored or not self.size else self._form

    def _may_be_hashed(self, *, is_encoded: bool) -> bool:
        """Returns whether to hash the body: the hash is useful, and no one can guess from it a password in the body."""
        if self._exchange.authorization is None:
            # Content that is stored in any case needs no hash.
            return self._media_type not in FORMS and (is_encoded or not self._is_always_stored)
        return self._direction == "s2c" and self._exchange.is_metadata() and self._media_type in _JSON_MEDIA_TYPES

    def record_begin(self) -> None:
        """Record that the event stream begins."""
        self._add_record("stream", event="opened", last_event_id=self.last_event_id)

    def feed(self, payload: bytes) -> Iterator[None] | None:
        """Process a piece of the body, as transferred.

        Returns:
            The remaining work on the piece, in small steps, for a body with a content coding; otherwise None.
        """
        self.size += len(payload)
        self._exchange.recorder.byte_counts[self._direction] += len(payload)
        if self._is_hashed:
            self._hash = self._hash or hashlib.sha256()
            self._hash.update(payload)
        if self._decoder is not None:
            return self._decode(self._decoder, payload)
        self._process_content(payload)
        return None

    def _decode(self, coding: Decoder, payload: bytes) -> Iterator[None]:
        """Decode a piece and process its content, one portion per step of the iterator.

        If a piece is damaged or expands out of proportion, the part of it that can be decoded is processed only for a
        stream, not for other bodies.
        """
        output = bytearray()
        try:
            for decoded_slice in coding.decode_slices(payload):
                for content in portions(decoded_slice) if self.is_stream else ():
                    self._process_content(content)
                    yield
                if not self.is_stream:
                    output += decoded_slice
                if not (decoded_slice and self.is_stream):
                    yield
        except Undecodable:
            output.clear()
            self._decoder = None
            self._is_opaque = self._is_broken = True
            if not self._part_count:
                self._drop_content()
        for start in range(0, len(output), MAX_RAW_BYTES):
            self._process_content(bytes(output[start : start + MAX_RAW_BYTES]))
            yield

    def _process_content(self, payload: bytes) -> None:
        """Process a piece of the decoded content."""
        if self._is_opaque or not payload:
            return
        if self._events is not None:
            for event in self._events.feed(payload):
                self._record_event(event)
            return
        self._pending += payload
        while len(self._pending) > MAX_RAW_BYTES:
            if not self._part_count and not self._is_stored():
                self._keep_text(is_cut=True)
                self._drop_content()
                return
            piece = bytes(self._pending[: MAX_RAW_BYTES + 1])
            cut_index = character_border(piece, MAX_RAW_BYTES)
            self._add_part_record(piece[:cut_index])
            del self._pending[:cut_index]

    def _drop_content(self) -> None:
        """Drop the content, so only the size and the hash are stored."""
        self._pending = bytearray()
        self._is_opaque = True

    def end_body(self, *, whole: bool, ended_by: str | None = None) -> None:
        """Records the end of the body."""
        if self._is_over:
            return
        self._is_over = True
        whole = whole and not self._is_broken
        if self._decoder is not None:
            try:
                self._decoder.finish()
            except Undecodable:
                whole = False
        if self._events is not None:
            for event in self._events.finish():
                self._record_event(event)
            stream_fields = {"events": self._event_count, "event_id": self._event_id, "retry": self._retry}
            self._add_record("stream", event="ended", **stream_fields, ended_by=ended_by)
        elif self._read_authorization(whole=whole):
            pass  # only named facts are kept of the body
        elif self._part_count:
            if self._pending:
                self._add_part_record(bytes(self._pending))
            self._add_frame_record(b"", whole=whole, parts=(self._part_count, self._parts_size))
        elif self._pending and self._exchange.is_metadata() and self._direction == "s2c":
            self._is_recorded = self._exchange.keep_metadata(bytes(self._pending))
        elif self._pending and self._is_stored():
            self._add_frame_record(bytes(self._pending), whole=whole)
        elif self._pending:
            self._keep_text(is_cut=not whole)
        self._pending = bytearray()

    def _read_authorization(self, *, whole: bool) -> bool:
        """Read what the body says about an authorization; returns whether nothing else may be kept of it."""
        authorization = self._exchange.authorization
        if authorization is None:
            return False
        is_readable = whole and not self._is_opaque and not self._has_skipped
        with suppress(Exception):  # a bug in mcpproxy loses facts, but never a record
            if self._direction == "c2s" and self.size:
                authorization.read_request(bytes(self._pending) if is_readable else None, self._media_type)
            elif self._direction == "s2c" and is_readable:
                authorization.read_response(bytes(self._pending))
        return self._exchange.is_private()

    @property
    def _has_skipped(self) -> bool:
        """Whether the body goes on after the end of its coding, which servers may read."""
        return self._decoder is not None and self._decoder.has_skipped

    def _keep_text(self, *, is_cut: bool) -> None:
        """Keep the text of a response; of a request, keep a form until it is known what the response repeats of it."""
        if self._direction == "c2s":
            is_form = (
                self._media_type == FORM
                and not (is_cut or self._has_skipped)
                and len(self._pending) <= MAX_CONTENT_BYTES
            )
            self._form = bytes(self._pending) if is_form else None
        else:
            # A bug in mcpproxy loses this text, but never the record of the exchange.
            with suppress(Exception):
                self._exchange.keep_text(bytes(self._pending[: MAX_BODY_TEXT_BYTES + 1]), is_cut=is_cut)

    def _is_stored(self) -> bool:
        """Returns whether to store the body: JSON where messages are expected, or a message of any media type."""
        return self._is_always_stored or (JSONRPC_NAME in self._pending and _is_message(bytes(self._pending)))

    def unstored_members(self) -> dict[str, object] | None:
        """Returns the size of a body that the capture does not contain, and its hash if made; None if it does."""
        if not self.size or self._is_recorded:
            return None
        hash_member = {} if self._hash is None else {"sha256": self._hash.hexdigest()}
        coding_member = {"undecoded": self._coding} if self._is_opaque and self._coding else {}
        return {"size": self.size, **hash_member, **coding_member}

    def _record_event(self, event: Event) -> None:
        self._event_count += event.is_last
        # A giant id is not stored: it applies to all later events, and would be stored with each of them.
        event_id = (
            None if event.id is None or len(event.id) > MAX_ENVELOPE_TEXT_BYTES else event.id.decode("utf-8", "replace")
        )
        if event.is_last:
            self._event_id, self._retry = event_id, self._retry if event.retry is None else event.retry
        if event.event == b"endpoint" and event.data is not None:
            self._exchange.record_endpoint(event.data)
            return
        if event.data is None:
            return
        if event.part_number:
            self._event_parts_size += len(event.data)
            self._add_part_record(event.data, event.part_number)
            if event.is_last:
                parts = (event.part_number, self._event_parts_size)
                self._event_parts_size = 0
                self._add_frame_record(b"", event=event, event_id=event_id, parts=parts)
        else:
            self._add_frame_record(event.data, event=event, event_id=event_id)

    def _add_frame_record(
        self,
        raw: bytes,
        *,
        whole: bool = True,
        event: Event | None = None,
        event_id: str | None = None,
        parts: tuple[int, int] | None = None,
    ) -> None:
        recorder, exchange = self._exchange.recorder, self._exchange
        unit: Unit = "http_body" if event is None else "sse_event"
        whole = whole if event is None else event.is_whole
        # MCP clients read only events of type `message`. The record of any other event contains its type, cut to a
        # limit.
        event_type = (
            None
            if event is None or event.event in (b"", b"message")
            else escaped_text(event.event[:MAX_ENVELOPE_TEXT_BYTES])
        )
        repeats_id = (
            event is not None and event.has_id and event_id is not None and event_id == self._last_frame_event_id
        )
        self._last_frame_event_id = event_id
        verdict, fault = UNJUDGED, None
        try:
            if not (parts or event_type):
                verdict = judge_before_forwarding(raw, self._direction, unit, whole=whole)
        except Exception as error:  # noqa: BLE001 - because of a bug, a frame may lack its verdict, never its record
            fault = type(error).__name__
            recorder.on_verdict_fault(error)
        self._is_recorded = True
        if verdict.kind in _MESSAGE_KINDS:
            exchange.note_message()
            if self._direction == "c2s":
                exchange.note_method(verdict.method or "")
        recorder.frame_counts[self._direction] += 1
        frame_text = frame_members(
            self._direction,
            raw,
            verdict,
            whole=whole,
            parts=parts,
            conn=exchange.connection.number,
            exchange=exchange.number,
            unit=unit,
            event_id=event_id,
            event=event_type,
            id_again=repeats_id,
            fault=fault,
        )
        exchange.connection.entries.append(PendingRecord("frame", frame_text, self._direction, len(raw)))

    def _add_part_record(self, raw: bytes, number: int = 0) -> None:
        if not number:
            self._part_count += 1
            self._parts_size += len(raw)
        exchange = self._exchange
        text = part_members(
            self._direction, number or self._part_count, raw, conn=exchange.connection.number, exchange=exchange.number
        )
        exchange.connection.entries.append(PendingRecord("part", text, self._direction, len(raw)))

    def _add_record(self, kind: str, **fields: object) -> None:
        exchange = self._exchange
        text = members(conn=exchange.connection.number, exchange=exchange.number, dir=self._direction, **fields)
        exchange.connection.entries.append(PendingRecord(kind, text))


def _is_message(body: bytes) -> bool:
    """Returns whether a body of an unusual media type is exactly one JSON-RPC message or batch."""
    from orjson import JSONDecodeError, loads

    if len(body) > MAX_SNIFFED_BYTES:
        return False
    try:
        document = loads(body)
    except JSONDecodeError:
        return False
    messages = document if isinstance(document, list) else [document]
    return bool(messages) and all(isinstance(message, dict) and message.get("jsonrpc") == "2.0" for message in messages)
