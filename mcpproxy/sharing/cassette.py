"""Cassettes: redacted copies for version control. The same conversation, recorded again, gives the same bytes.

A capture is first written to a private file as a steady one: in an order that does not depend on how concurrent
messages interleaved, and without what is different each time. That file is then redacted like any other capture, with
numbered pseudonyms. The sizes are those of the result, because a token may be longer in the next recording.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from analysis.conversation.call import Call, MessageContext, Outcome, token_of
from analysis.conversation.message import Notification, Request
from analysis.conversation.under_way import PROGRESS_METHODS
from analysis.reading import Reading, Step
from captures.cutting import record_in
from captures.file import CaptureFile
from captures.frame import Frame
from captures.heads import Head
from captures.record import MAX_LINE_BYTES, Record, members, seal
from mcpproxy.sharing.records import KNOWN_TYPES
from mcpproxy.sharing.steady_order import Mover, RecordFacts, steady_order
from mcpproxy.sharing.steady_records import SteadyRecords

BATCH_BYTES: Final = 1 << 20
_REDACTIONS: Final = ("headers", "path", "query", "bodies", "stderr", "key-not-kept")
_SENDERS: Final[dict[object, Mover]] = {"c2s": "client", "s2c": "server"}
_LISTS: Final = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
_INDEPENDENT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete", "ping"})
"""Methods of requests that no other request depends on while both are under way. The same is true of lists among
themselves, but not of a list and a call of what it lists."""
_MAX_RACE_NS: Final = 1_000_000_000
"""How long after the last answer it is a matter of chance who ends an exchange."""
_MAX_ID: Final = 1 << 62
_ID_BYTES: Final = 16
_NO_ID: Final = "0" * (2 * _ID_BYTES)


class SteadyWriter:
    """Collects the records of a capture, and writes them to a file as a steady capture."""

    def __init__(self, lines: BinaryIO, *, keeps_times: bool, keeps_stderr: bool) -> None:
        """Begin without a record.

        Args:
            lines: an empty private file for the recorded lines.
            keeps_times: whether the recorded times stay.
            keeps_stderr: whether lines of stderr stay, which come at any time.
        """
        self._lines = lines
        self._keeps_times = keeps_times
        self._keeps_stderr = keeps_stderr
        self._entries: list[RecordFacts] = []
        self._sessions: dict[int, str] = {}
        """The hash of the session id by exchange."""
        self._carrying: set[int] = set()
        """The exchanges whose responses are streams or carry messages."""
        self._ended: set[int] = set()
        self._gets: set[int] = set()
        self._streams: set[int] = set()
        self._unanswered_counts: Counter[int] = Counter()
        """By exchange, the number of its requests that have not been answered yet."""
        self._independent_calls: set[int] = set()
        """The numbers of the client's calls whose messages may change places with others."""
        self._exchange_calls: dict[int, tuple[int, bool]] = {}
        """By exchange, the call that it carries if that may change places, and whether it is for a list."""
        self._progress_tokens: set[object] = set()
        self._last_answers: dict[int, int] = {}
        """By exchange, when its last request was answered."""
        self.left_out_unknown_count = 0
        """How many records have a type that this version does not know; they are left out."""

    def add_all(self, records: Iterable[Record]) -> None:
        """Add all records of a capture in order."""
        reading = Reading()
        offset = 0
        for record in records:
            step = reading.feed(record)
            if not self._is_kept(record):
                continue
            line = record.line or _line(record)
            self._lines.write(line + b"\n")
            self._entries.append(self._entry(record, step, offset, len(line)))
            offset += len(line) + 1
        self._lines.flush()

    def _is_kept(self, record: Record) -> bool:
        if record.rec not in KNOWN_TYPES:
            self.left_out_unknown_count += 1
            return False
        if record.rec == "stderr":
            return self._keeps_stderr
        if record.rec == "header":
            return not self._entries
        return record.rec != "stall" and not (record.rec == "close" and record.members.get("ending") == "segment")

    def _entry(self, record: Record, step: Step, offset: int, size: int) -> RecordFacts:
        values = record.members
        exchange = values.get("exchange")
        number = exchange if type(exchange) is int and exchange > 0 else 0
        entry = RecordFacts(record.rec, record.t_ns, offset, size, exchange=number)
        if record.rec in ("frame", "part"):
            entry.sender = _SENDERS.get(values.get("dir"), "neither")
            if isinstance(step.item, Frame):
                self._describe_frame(entry, step)
            if entry.sender == "server":
                self._carrying.add(number)
            self._count_requests(step)
        elif record.rec == "exchange":
            self._describe_exchange(entry, record)
        elif record.rec in ("stream", "process"):
            entry.stage = str(values.get("event"))
            entry.ended_by = self._who_ended(number, record)
            if record.rec == "stream":
                self._carrying.add(number)
                self._streams.add(number)
        elif record.rec == "eof":
            entry.stage = str(values.get("dir"))
        return entry

    def _describe_frame(self, entry: RecordFacts, step: Step) -> None:
        entry.has_request = any(isinstance(context.message, Request) for context in step.messages)
        if entry.sender == "server" and isinstance(step.item, Frame) and not step.item.raw:
            # An event without data, which gives a stream its first id, comes as soon as the stream is open.
            entry.call, entry.is_list = self._exchange_calls.get(entry.exchange, (-1, False))
            return
        if len(step.messages) != 1:
            return
        (context,) = step.messages
        entry.is_legacy = context.session.is_legacy
        if entry.sender == "server":
            call = _call_of(context, step)
            is_elsewhere = call is not None and call.http is not context.http and not entry.is_legacy
            if call is not None and call.number in self._independent_calls and not is_elsewhere:
                entry.call, entry.is_list = call.number, call.request.method in _LISTS
        elif isinstance(context.message, Request):
            request_id = context.body.get("id")
            entry.request_id = request_id if type(request_id) is int and 0 <= request_id < _MAX_ID else -1
            token = _progress_token(context)
            if context.call is not None and _is_independent(context) and token not in self._progress_tokens:
                entry.call, entry.is_list = context.call.number, context.method in _LISTS
                self._exchange_calls[entry.exchange] = entry.call, entry.is_list
                self._independent_calls.add(entry.call)
            if token is not None:
                self._progress_tokens.add(token)
        elif isinstance(context.message, Notification):
            entry.is_initialized = context.message.method == "notifications/initialized"

    def _describe_exchange(self, entry: RecordFacts, record: Record) -> None:
        values = record.members
        entry.stage, entry.ended_by = str(values.get("stage")), self._who_ended(entry.exchange, record)
        entry.is_settled = self._is_settled(entry.exchange)
        if entry.stage == "end":
            self._ended.add(entry.exchange)
        for name in ("request", "response"):
            head = values.get(name)
            if isinstance(head, dict):
                fields = head if isinstance(head, Head) else Head(head)
                if name == "request":
                    if fields.session_id:
                        self._sessions.setdefault(entry.exchange, fields.session_id)
                    entry.wants_stream = "text/event-stream" in fields.fields.get("accept", "").lower()
                    entry.is_get = head.get("method") == "GET" and "last-event-id" not in fields.fields
                    entry.is_delete = head.get("method") == "DELETE"
                    if entry.is_get:
                        self._gets.add(entry.exchange)
        entry.is_announcing = entry.stage == "response" and "endpoints" in values
        entry.session = self._sessions.get(entry.exchange, "")

    def _count_requests(self, step: Step) -> None:
        for context in step.messages:
            call = context.call if isinstance(context.message, Request) else context.answered
            if call is not None and call.http is not None and call.http is context.http:
                self._unanswered_counts[call.http.number] += 1 if call is not context.answered else -1
                self._last_answers[call.http.number] = context.message.t_ns

    def _is_settled(self, exchange: int) -> bool:
        """Return whether an exchange had requests, and has answered all of them so far."""
        return exchange in self._last_answers and self._unanswered_counts[exchange] == 0

    def _who_ended(self, exchange: int, record: Record) -> str:
        """Return who ended an exchange; right after its last answer, it may be the client or the server by chance."""
        ended_by = str(record.members.get("ended_by"))
        if self._is_settled(exchange) and ended_by in ("client", "server"):
            return "complete" if record.t_ns - self._last_answers[exchange] <= _MAX_RACE_NS else ended_by
        return ended_by

    def _close_streams(self) -> None:
        """Let the client end the streams that end after everything else: it does, unless the server is faster."""
        for entry in reversed(self._entries):
            is_request = entry.rec == "exchange" and entry.stage == "request"
            if entry.sender == "client" or (is_request and not entry.is_delete):
                return
            if entry.exchange in self._gets & self._streams and entry.ended_by in ("complete", "server"):
                entry.ended_by = "client"

    def lines(self) -> Iterator[bytes]:
        """Yields the lines of the steady capture, each with its LF."""
        steady = SteadyRecords(keeps_times=self._keeps_times)
        entries = self._entries
        self._close_streams()
        order = range(len(entries)) if self._keeps_times else steady_order(entries)
        for index in order:
            entry = entries[index]
            if self._is_repeated_head(entry):
                continue
            record = record_in(os.pread(self._lines.fileno(), entry.size, entry.offset), entry.offset)
            if record is None:
                continue  # the private file has been damaged
            if not self._keeps_times and record.members.get("ended_by") not in (None, entry.ended_by):
                record.members["ended_by"] = entry.ended_by
                record.members.pop("error", None)
            line = _line(steady.record(record, self._sessions.get(entry.exchange, ""))) + b"\n"
            if len(line) <= MAX_LINE_BYTES:
                yield line

    def _is_repeated_head(self, entry: RecordFacts) -> bool:
        """Whether a record has only the head of a response that the record of its end repeats.

        A recorder writes it only if the end does not come at once.
        """
        return entry.stage == "response" and entry.exchange in self._ended and entry.exchange not in self._carrying


def _call_of(context: MessageContext, step: Step) -> Call | None:
    """Returns the call that a message of the server answers or reports progress of; None if that is not certain."""
    if isinstance(context.message, Notification):
        is_progress = context.message.method in PROGRESS_METHODS and len(step.changed) == 1
        return next(iter(step.changed)) if is_progress else None
    call = context.answered
    return None if call is None or call.outcome is Outcome.INPUT_REQUIRED else call


def _progress_token(context: MessageContext) -> object:
    """Returns the progress token of a request in a form that can be compared; None if it has none."""
    params = context.body.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return token_of(meta["progressToken"]) if isinstance(meta, dict) and "progressToken" in meta else None


def _is_independent(context: MessageContext) -> bool:
    """Whether no other message depends on when a request came, or on when it was answered.

    A cursor, and the input for an earlier round, come from another answer. Where an id is used again, or a message
    repeated, the order shows which request an answer belongs to.
    """
    params = context.body.get("params")
    has_cursor = isinstance(params, dict) and "cursor" in params
    is_again = context.earlier is not None or context.is_repeat or context.round is not None
    is_clients = context.message.sender == "client" and context.call is not None
    return is_clients and context.method in _INDEPENDENT_METHODS | _LISTS and not is_again and not has_cursor


def _line(record: Record) -> bytes:
    """Returns the line of a record, without its LF."""
    values = {name: value for name, value in record.members.items() if name not in ("seq", "rec", "t_ns", "crc")}
    return seal(record.seq, record.t_ns, record.rec, members(**values))[:-1]


class CassetteLines:
    """Completes the lines of a redacted steady capture: header, sizes and totals, and finally its id."""

    def __init__(self) -> None:
        self._frames: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._stderr_bytes = 0
        self._body_bytes: dict[tuple[object, str], int] = {}

    def complete(self, line: bytes) -> bytes:
        """Returns a line as it is in the cassette."""
        record = record_in(line[:-1], 0)
        if record is None:
            return line
        values = record.members
        match record.rec:
            case "header":
                values = {
                    name: value for name, value in values.items() if name not in ("redactions", "redacted_by", "crc")
                }
                values |= {"redactions": _REDACTIONS, "redacted_by": "mcpproxy", "cassette": True}
                values["capture"] = _NO_ID
            case "frame" | "part" | "stderr":
                self._count(record)
                return line
            case "exchange":
                for name, side in (("request_size", "c2s"), ("response_size", "s2c")):
                    size = self._body_bytes.get((values.get("exchange"), side))
                    if name in values and size is not None:
                        values[name] = size
            case "eof" if "bytes" in values:
                values["bytes"] = self._bytes[str(values.get("dir"))]
            case "close" if isinstance(values.get("totals"), dict):
                values["totals"] = values["totals"] | {
                    "c2s": self._totals("c2s"),
                    "s2c": self._totals("s2c"),
                }
                if "stderr" in values["totals"]:
                    values["totals"]["stderr"] = {"bytes": self._stderr_bytes, "recorded": self._stderr_bytes}
            case _:
                return line
        return _line(record._replace(members=values)) + b"\n"

    def _count(self, record: Record) -> None:
        values = record.members
        size, side = values.get("size"), str(values.get("dir"))
        size = size if type(size) is int else 0
        delimiter = values.get("delim", "\n") if values.get("exchange") is None else ""
        size += len(delimiter) if isinstance(delimiter, str) else 1
        if record.rec == "stderr":
            self._stderr_bytes += size
        elif record.rec == "frame":
            self._frames[side] += 1
            self._bytes[side] += size
            key = (values.get("exchange"), side)
            self._body_bytes[key] = self._body_bytes.get(key, 0) + size

    def _totals(self, side: str) -> dict[str, int]:
        return {"frames": self._frames[side], "bytes": self._bytes[side]}


def finish_cassette(file: CaptureFile) -> None:
    """Give a complete cassette its id, which is a hash of its content, and the permissions of any new file.

    Raises:
        OSError: the file cannot be read or written.
    """
    digest = blake2b(digest_size=_ID_BYTES)
    with open(file.path, "r+b") as content:
        header = content.readline()
        digest.update(header)
        while chunk := content.read(BATCH_BYTES):
            digest.update(chunk)
        record = record_in(header[:-1], 0)
        if record is not None and record.rec == "header":
            content.seek(0)
            content.write(_line(record._replace(members=record.members | {"capture": digest.hexdigest()})) + b"\n")
    os.fchmod(file.fd, 0o666 & ~_umask())


def _umask() -> int:
    """Returns the process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def is_same_file(first: Path, second: Path) -> bool:
    """Returns whether two files have the same bytes; False if one cannot be read."""
    try:
        if first.stat().st_size != second.stat().st_size:
            return False
        with first.open("rb") as one, second.open("rb") as other:
            while chunk := one.read(BATCH_BYTES):
                if other.read(BATCH_BYTES) != chunk:
                    return False
    except OSError:
        return False
    return True
