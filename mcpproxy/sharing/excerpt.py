"""Leaves out what a user does not want to share, always whole exchanges, and puts gaps in its place.

A request and its response stay together, and the handshake always stays, because everything else depends on it. Records
that are not traffic (processes, signals, ends of streams) stay, too. Stderr stays only if the excerpt is by time. The
same applies to records of unknown type, which can contain anything.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from analysis.conversation.call import Call, MessageContext
from analysis.conversation.message import Message, Notification, Request
from analysis.filter import Filter, facts_of, facts_of_call
from analysis.reading import Reading, Step
from captures.frame import Frame
from captures.frames import stream_of
from captures.reader import Capture
from captures.record import Record
from captures.repair import gap_record
from mcpproxy.sharing.records import KNOWN_TYPES

_OPENING: Final = frozenset({"initialize", "notifications/initialized", "server/discover"})
_NOT_TRAFFIC: Final = frozenset({"header", "eof", "process", "signal", "gap", "close"})


@dataclass
class Excerpt:
    """Selects the records of a capture that stay."""

    frames: set[int] = field(default_factory=set)
    """Numbers of frames."""
    exchanges: set[int] = field(default_factory=set)
    """Numbers of HTTP exchanges."""
    parts: dict[int, int] = field(default_factory=dict)
    """The number of each part, and the number of its frame."""
    since_ns: int = 0
    """Stderr and records of unknown type before this stamp are left out."""
    is_by_time: bool = True
    """Whether only the time selects, and no filter. Then stderr and records of unknown type can stay."""
    left_out_count: int = 0
    """The number of records left out so far."""
    left_out_unknown_count: int = 0
    """The number of these records that have an unknown type."""

    def __call__(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yields the records that stay, and gaps in place of the others."""
        gap_records: list[Record] = []
        for record in records:
            if not self._includes(record):
                self.left_out_count += 1
                self.left_out_unknown_count += record.rec not in KNOWN_TYPES
                gap_records.append(record._replace(line=b"", members=_gap_members(record)))
                continue
            if gap_records:
                yield _gap(gap_records)
                gap_records = []
            yield record
        if gap_records:
            yield _gap(gap_records)

    def _includes(self, record: Record) -> bool:
        values = record.members
        if record.rec in _NOT_TRAFFIC:
            return True
        if record.rec == "frame":
            return record.seq in self.frames
        if record.rec == "part":
            return self.parts.get(record.seq) in self.frames
        if record.rec in ("exchange", "stream"):
            number = values.get("exchange")
            return type(number) is int and number in self.exchanges
        if record.rec == "stall":
            number = values.get("of")
            return type(number) is int and number in self.frames
        return self.is_by_time and record.t_ns >= self.since_ns


def _gap_members(record: Record) -> dict[str, object]:
    """Returns the members of a record that are needed to count it in a gap."""
    size = record.members.get("size")
    return {"dir": record.members.get("dir"), "size": size if type(size) is int else 0}


def _gap(left_out_records: list[Record]) -> Record:
    lost_counts: dict[str, dict[str, int]] = {}
    for record in left_out_records:
        side = record.members["dir"]
        is_frame = record.rec == "frame" and side in ("c2s", "s2c")
        counts = lost_counts.setdefault(
            str(side) if is_frame else "other", {"frames" if is_frame else "records": 0, "bytes": 0}
        )
        counts["frames" if is_frame else "records"] += 1
        counts["bytes"] += record.members["size"] if record.rec in ("frame", "stderr") else 0
    first_record, last_record = left_out_records[0], left_out_records[-1]
    return gap_record(
        first_record.seq,
        last_record.seq,
        last_record.t_ns,
        "excerpt",
        from_ns=first_record.t_ns,
        to_ns=last_record.t_ns,
        lost=lost_counts,
    )


def excerpt(capture: Capture, message_filter: Filter | None, last_ns: int | None) -> Excerpt:
    """Returns the excerpt that a filter and a time select.

    Args:
        capture: the whole capture.
        message_filter: selects messages; None for all.
        last_ns: how long before the end the excerpt begins; None for the whole capture.
    """
    since_ns = 0
    if last_ns is not None:
        end_ns = max((item.t_ns for item in capture if isinstance(item, Record)), default=0)
        since_ns = max(0, end_ns - last_ns)
    reading = Reading(capture)
    selection = _Selection(message_filter, since_ns, reading)
    open_parts: dict[object, list[int]] = {}
    for step in reading:
        record, item = step.record, step.item
        if isinstance(record, Record) and record.rec == "part":
            open_parts.setdefault(stream_of(record.members), []).append(record.seq)
        elif isinstance(item, Frame) and isinstance(record, Record) and "parts" in record.members:
            parts = open_parts.pop(stream_of(record.members), [])
            selection.excerpt.parts.update(dict.fromkeys(parts, item.seq))
        selection.add_step(step)
    selection.finish()
    return selection.excerpt


class _Selection:
    """Selects the messages of a capture, as they arrive."""

    def __init__(self, only: Filter | None, since_ns: int, reading: Reading) -> None:
        self._is_open = reading.is_growing
        self.excerpt = Excerpt(since_ns=since_ns, is_by_time=only is None)
        self._filter = only
        self._since_ns = since_ns
        self._fold = reading.fold

    def add_step(self, step: Step) -> None:
        """Select the messages of the next step."""
        for context in step.messages:
            call = context.answered
            if call is None:
                if _is_handshake(context.message) or self._selects(context):
                    self._keep_frames(context.message)
                continue
            has_kept_request = not self.excerpt.frames.isdisjoint(frame.seq for frame in call.request.frames)
            if (
                has_kept_request
                or self._selects(context)
                or (self._is_late(context.message) and self._selects_call(call))
            ):
                self._keep_frames(call.request)
                self._keep_frames(context.message)

    def finish(self) -> None:
        """Select unanswered requests at the end of the capture, when their outcome is known."""
        for call in self._fold.open_calls():
            if call.session is not None and self._is_late(call.request) and self._selects_call(call):
                self._keep_frames(call.request)

    def _selects(self, context: MessageContext) -> bool:
        return self._is_late(context.message) and (self._filter is None or self._filter.matches(facts_of(context)))

    def _selects_call(self, call: Call) -> bool:
        return self._filter is None or self._filter.matches(facts_of_call(call, is_open=self._is_open))

    def _is_late(self, message: Message) -> bool:
        return message.frames[-1].t_ns >= self._since_ns

    def _keep_frames(self, message: Message) -> None:
        for frame in message.frames:
            self.excerpt.frames.add(frame.seq)
            if frame.exchange is not None:
                self.excerpt.exchanges.add(frame.exchange)


def _is_handshake(message: Message) -> bool:
    return isinstance(message, Request | Notification) and message.method in _OPENING
