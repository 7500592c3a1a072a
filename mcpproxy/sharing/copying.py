"""Composes the lines of a redacted copy. Every record is redacted and sealed again, with the same number and stamp.

A frame in parts is redacted as a whole, and has as many parts as before. Until its last part arrives, the records after
its first part wait, up to `MAX_WAITING_BYTES` bytes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from orjson import dumps

from analysis.reading import Reading, Step
from captures.envelope import judge_before_forwarding
from captures.frame import Frame
from captures.frames import stream_of
from captures.record import (
    MAX_LINE_BYTES,
    MAX_RAW_BYTES,
    Record,
    frame_members,
    members,
    part_members,
    raw_bytes,
    seal,
    stderr_members,
)
from captures.verdict import UNJUDGED, Envelope
from captures.versions import FORMAT_VERSION
from mcpproxy.sharing.account import RedactionAccount
from mcpproxy.sharing.comparison import FindingCounts, finding_counts
from mcpproxy.sharing.frames import FrameRedactor, RedactedBytes
from mcpproxy.sharing.records import KNOWN_TYPES, RecordRedactor
from mcpproxy.sharing.redaction import Replacement
from mcpproxy.sharing.staying import PersonalNumberCounter

MAX_WAITING_BYTES: Final = 64 << 20
_FRAME_MEMBERS: Final = frozenset(
    b"seq rec t_ns dir conn exchange unit event_id id_again event kind id method code problem omitted delim whole size "
    b"raw raw_b64 partial time_is_exact crc".decode().split()
)
_Stream = tuple[str | None, int, int | None]


@dataclass
class _FrameParts:
    """The parts of a frame that have arrived, each with its index in the waiting lines."""

    slots: list[tuple[int, Record]] = field(default_factory=list)
    is_redacted_separately: bool = False
    """Whether the parts could not wait any longer, so that each was redacted by itself."""
    size: int = 0
    """The size of the parts that were redacted by themselves."""
    count: int = 0


def _is_valid(part: Record) -> bool:
    """Whether readers accept a part as valid."""
    values = part.members
    return stream_of(values)[0] is not None and type(values.get("part")) is int and raw_bytes(values) is not None


class Copier:
    """Composes the lines of one copy."""

    def __init__(
        self,
        frames: FrameRedactor,
        records: RecordRedactor,
        account: RedactionAccount,
        reading: Reading,
        held: int = MAX_WAITING_BYTES,
        staying: PersonalNumberCounter | None = None,
        is_unchanged: Callable[[Frame], bool] = lambda _: False,
    ) -> None:
        """Create a copier.

        Args:
            frames: redacts frames and stderr.
            records: redacts everything else.
            account: counts records, frames and replacements.
            reading: the reading of the original, at its beginning.
            held: the size in bytes that all waiting lines together may have.
            staying: counts the personal numbers in the copy.
            is_unchanged: whether a frame is certain to stay unchanged, so that it need not be parsed.
        """
        self._frames = frames
        self._records = records
        self._account = account
        self._reading = reading
        self.findings: FindingCounts = Counter()
        """The findings of the reading's rules; empty without rules."""
        self._max_waiting_bytes = held
        self._staying = staying
        self._is_unchanged = is_unchanged
        self._parts: dict[_Stream, _FrameParts] = {}
        self._waiting_lines: list[tuple[Record, bytes]] = []
        self._waiting_bytes = 0

    def lines(self, records: Iterable[Record]) -> Iterator[tuple[Record, bytes]]:
        """Yields the lines of the copy, each with the record that it replaces."""
        for record in records:
            step = self._reading.feed(record)
            self._count_findings(step)
            item = step.item
            if record.rec == "part" and _is_valid(record):
                self._add_part(record, item if isinstance(item, Frame) else None)
            elif isinstance(item, Frame):
                self._add_waiting_line(record, self._frame_line(record, item))
            else:
                self._add_waiting_line(record, self._other_line(record))
            if not any(not parts.is_redacted_separately for parts in self._parts.values()):
                yield from self._take_waiting_lines()
        for step in self._reading.finish():
            self._count_findings(step)
            if isinstance(frame := step.item, Frame):
                self._end_parts((frame.dir, frame.conn, frame.exchange), frame)
        for stream in list(self._parts):
            self._redact_separately(self._parts.pop(stream))
        yield from self._take_waiting_lines()

    def _count_findings(self, step: Step) -> None:
        if step.findings:
            self.findings.update(finding_counts(step.findings))

    def _add_waiting_line(self, record: Record, line: bytes) -> None:
        self._waiting_lines.append((record, line))
        self._waiting_bytes += len(line)
        self._account.records += 1
        if self._waiting_bytes > self._max_waiting_bytes:
            for parts in self._parts.values():
                self._redact_separately(parts)

    def _take_waiting_lines(self) -> Iterator[tuple[Record, bytes]]:
        waiting_lines, self._waiting_lines, self._waiting_bytes = self._waiting_lines, [], 0
        yield from waiting_lines

    # --- frames in parts

    def _add_part(self, part: Record, unfinished_frame: Frame | None) -> None:
        stream = stream_of(part.members)
        if unfinished_frame is not None:
            self._end_parts(stream, unfinished_frame)
        parts = self._parts.setdefault(stream, _FrameParts())
        parts.slots.append((len(self._waiting_lines), part))
        parts.count += 1
        self._add_waiting_line(part, b"")
        self._waiting_bytes += len(part.line)
        if parts.is_redacted_separately:
            self._redact_separately(parts)

    def _end_parts(self, stream: _Stream, frame: Frame) -> None:
        """Complete the parts of a frame whose end was never recorded."""
        parts = self._parts.pop(stream, None)
        if parts is not None and not parts.is_redacted_separately:
            self._fill_parts(parts, self._redact_frame(frame).raw)
        elif parts is not None:
            self._redact_separately(parts)

    def _redact_separately(self, parts: _FrameParts) -> None:
        """Redact each part by itself, because the whole frame is not available."""
        parts.is_redacted_separately = True
        for index, record in parts.slots:
            redacted_bytes = self._frames.redact_line(raw_bytes(record.members) or b"")
            self._count_replacements(redacted_bytes)
            self._count_bytes(redacted_bytes, record.members.get("size"))
            parts.size += len(redacted_bytes.raw)
            self._put_part(index, record, redacted_bytes.raw)
        parts.slots = []

    def _fill_parts(self, parts: _FrameParts, raw: bytes) -> None:
        """Divide the bytes of a frame among its parts."""
        offset = 0
        remaining_parts = len(parts.slots)
        for index, record in parts.slots:
            end = offset + -(-(len(raw) - offset) // remaining_parts)
            while offset < end < len(raw) and raw[end] & 0xC0 == 0x80:  # inside a character
                end -= 1
            self._put_part(index, record, raw[offset : end if remaining_parts > 1 else len(raw)])
            offset, remaining_parts = end, remaining_parts - 1

    def _put_part(self, index: int, record: Record, raw: bytes) -> None:
        direction, conn, exchange = stream_of(record.members)
        number = record.members.get("part")
        middle = part_members(
            "s2c" if direction == "s2c" else "c2s",
            number if type(number) is int else 0,
            raw,
            conn=conn,
            exchange=exchange,
        )
        self._waiting_lines[index] = (record, seal(record.seq, record.t_ns, "part", middle))

    # --- frames

    def _redact_frame(self, frame: Frame, max_bytes: int | None = None) -> RedactedBytes:
        self._account.frames += 1
        if self._is_unchanged(frame):
            self._count_bytes(RedactedBytes(frame.raw, []), len(frame.raw))
            return RedactedBytes(frame.raw, [])
        redacted_bytes = self._frames.redact_frame(
            frame.raw, frame.dir, frame.unit, whole=frame.whole, is_partial=frame.is_partial, event=frame.event
        )
        if max_bytes is not None and len(redacted_bytes.raw) > max_bytes:
            redacted_bytes = self._frames.redact_frame(
                frame.raw, frame.dir, frame.unit, whole=frame.whole, is_partial=True, event=frame.event
            )
        self._count_replacements(redacted_bytes)
        self._count_bytes(redacted_bytes, len(frame.raw))
        if not redacted_bytes.is_same:
            self._account.changed_frames.append(frame.seq)
        return redacted_bytes

    def _count_replacements(self, redacted_bytes: RedactedBytes) -> None:
        """Count the replacements in a frame, a part or a line of stderr."""
        self._account.count_replacements(redacted_bytes.replacements)
        if redacted_bytes.unparsed_reason:
            self._account.unparsed_counts[redacted_bytes.unparsed_reason] += 1

    def _count_staying(self, raw: bytes) -> None:
        if self._staying is not None:
            self._staying.count_numbers(raw)

    def _count_bytes(self, redacted_bytes: RedactedBytes, size: object) -> None:
        """Count the bytes of a frame or a part, and the bytes in it that stay unchanged."""
        original_bytes = size if type(size) is int else 0
        replaced_bytes = sum(
            len(replacement.secret.encode("utf-8", "surrogatepass")) for replacement in redacted_bytes.replacements
        )
        self._account.bytes_before += original_bytes
        self._account.bytes_kept += max(0, original_bytes - replaced_bytes)

    def _frame_line(self, record: Record, frame: Frame) -> bytes:
        values = record.members
        parts = self._parts.pop(stream_of(values), None) if "parts" in values else None
        replacements: list[Replacement] = []
        event_id = None if frame.event_id is None else self._records.redact_text(frame.event_id, replacements)
        event = None if frame.event is None else self._records.redact_text(frame.event, replacements)
        self._account.count_replacements(replacements, "event")
        declared_parts: tuple[int, int] | None = None
        if "parts" in values:
            raw, declared_parts = self._fill_giant_frame(record, frame, parts)
        else:
            raw = self._redact_frame(frame).raw
            self._count_staying(raw)
            is_same = raw == frame.raw and not replacements and "fault" not in values
            if is_same and record.line and _FRAME_MEMBERS.issuperset(values):
                return record.line + b"\n"
        verdict: Envelope = (
            UNJUDGED
            if event or values.get("partial") is True
            else judge_before_forwarding(raw, frame.dir, frame.unit, whole=frame.whole)
        )
        fault = values.get("fault")
        middle = frame_members(
            frame.dir,
            raw,
            verdict,
            delim=frame.delim if frame.unit == "line" else b"\n",
            whole=values.get("whole") is not False,
            parts=declared_parts,
            conn=frame.conn,
            exchange=frame.exchange,
            unit=frame.unit,
            event_id=event_id,
            event=event,
            id_again=frame.id_again,
            fault=self._records.redact_text(fault, replacements) if isinstance(fault, str) else None,
            partial=values.get("partial") is True,
            time_is_exact=frame.time_is_exact,
        )
        return seal(record.seq, record.t_ns, "frame", middle)

    def _fill_giant_frame(
        self, record: Record, frame: Frame, parts: _FrameParts | None
    ) -> tuple[bytes, tuple[int, int]]:
        """Fill the parts of a frame; returns its bytes, and the numbers of parts and bytes for its record."""
        count, size = (record.members.get(name) for name in ("parts", "size"))
        count, size = (value if type(value) is int else 0 for value in (count, size))
        if parts is None:
            return b"", (count, size)
        if parts.is_redacted_separately:
            self._account.frames += 1
            self._account.changed_frames.append(frame.seq)
            return b"", (count, parts.size if parts.count == count else size)
        raw = self._redact_frame(frame, len(parts.slots) * (MAX_RAW_BYTES - 4)).raw
        self._fill_parts(parts, raw)
        # If parts are missing, the number of parts and the size must still show that.
        is_complete = not frame.is_partial
        return raw, (count, len(raw) if is_complete else max(size, len(raw) + 1))

    # --- everything else

    def _other_line(self, record: Record) -> bytes:
        values = record.members
        replacements: list[Replacement] = []
        is_known = record.rec in KNOWN_TYPES
        raw = raw_bytes(values)
        if not is_known and not self._records.keeps_bodies:
            middle = members(**self._records.redact_members(values, replacements))
        elif raw is None:
            # Bytes that cannot be decoded are dropped, so that the record stays invalid.
            other_members = {name: value for name, value in values.items() if name not in ("raw", "raw_b64")}
            middle = members(**self._records.redact_members({"rec": record.rec, **other_members}, replacements))
        else:
            redacted_bytes = self._frames.redact_line(raw)
            self._count_replacements(redacted_bytes)
            self._count_staying(redacted_bytes.raw)
            if record.rec == "stderr":
                delim, skipped_bytes = values.get("delim", "\n"), values.get("skipped")
                middle = stderr_members(
                    redacted_bytes.raw,
                    delim=delim.encode() if isinstance(delim, str) and delim in ("", "\n", "\r\n") else b"\n",
                    whole=values.get("whole") is not False,
                    skipped=skipped_bytes if type(skipped_bytes) is int else 0,
                )
            else:
                replaced_names = ("raw", "raw_b64", "size")
                other_members = {name: value for name, value in values.items() if name not in replaced_names}
                redacted_members = self._records.redact_members({"rec": record.rec, **other_members}, replacements)
                text = redacted_bytes.raw.decode("utf-8", "replace")
                middle = members(**redacted_members, size=len(redacted_bytes.raw), raw=text)
        rec = record.rec
        if not is_known:
            rec = dumps(self._records.redact_text(rec, replacements)).decode()[1:-1]
        self._account.count_replacements(replacements, f"{record.rec} record" if is_known else "unknown record")
        line = seal(record.seq, record.t_ns, rec, middle)
        if len(line) > MAX_LINE_BYTES:
            # Pseudonyms can be longer than the secrets that they replace.
            substitute = {"format": FORMAT_VERSION} if record.rec == "header" else {"reason": "redaction"}
            line = seal(record.seq, record.t_ns, record.rec if record.rec == "header" else "gap", members(**substitute))
        return line
