"""Row comparison: what differs between two rows of a capture; for calls, between their whole exchanges.

Ids are not compared: they always differ. Texts in results are compared line by line or, if both are JSON, by members.
A message above 1 MiB is not compared, and the comparison says so; this bounds its memory and time.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from analysis.comparison.change import ABSENT
from analysis.conversation.message import Message, Request, Response, parse_exactly
from analysis.facts import raw_of
from captures.frame import Frame
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.detail import entry_name
from mcpproxy.tui.rows.row_calls import MAX_LINE_FRAME_BYTES, late_ns, message_at, message_of_call
from mcpproxy.wording import units
from mcpproxy.wording.aligned_json import AlignedLine, aligned_lines
from mcpproxy.wording.exact_json import MAX_PARSED_VALUES
from mcpproxy.wording.spans import Role
from mcpproxy.wording.statuses import Status, outcome_status, waiting_status

MAX_PART_LINES: Final = 2_000
"""The maximum number of lines of a part of two messages."""
MAX_TEXTS: Final = 20
"""The most texts of a result that are compared each by itself; the others are compared as members of its content."""
MAX_SUBJECT_CHARS: Final = 200
"""The maximum length of a method and a name, in characters."""
_BRACKETS: Final = frozenset("{}[]")
_UNCOMPARED_MEMBERS: Final = ("jsonrpc", "id", "method")
_CONTENT_METHODS: Final = ("tools/call", "prompts/get")
"""The methods whose params name a tool or a prompt and have arguments."""


class RowFact(NamedTuple):
    """A fact about both rows that is not part of their messages."""

    name: str
    old: str
    new: str
    is_compared: bool = True
    """Whether a difference counts; times and sizes nearly always differ."""
    old_role: Role = "plain"
    """The role of the text of the old side."""
    new_role: Role = "plain"

    @property
    def is_difference(self) -> bool:
        """Whether the fact differs, and that counts."""
        return self.is_compared and self.old != self.new


class ComparedPart(NamedTuple):
    """A part of both messages, such as their arguments."""

    name: str
    lines: list[AlignedLine]
    is_whole: bool
    """Whether these are all lines."""


class RowComparison(NamedTuple):
    """Two rows, compared."""

    facts: list[RowFact]
    parts: list[ComparedPart]
    remarks: list[str]
    """What was not compared, and why."""

    @property
    def subject(self) -> str:
        """What is compared: the method and name, of both rows if they differ; sanitised."""
        fact = self.facts[0]
        return fact.new if fact.old == fact.new else f"{fact.old}, {fact.new}"

    @property
    def difference_count(self) -> int:
        """How many facts and lines differ; a line with nothing but a bracket belongs to what is in the brackets."""
        lines = (line for part in self.parts for line in part.lines if not line.is_equal)
        line_count = sum(any(map(_is_content, (line.old, line.new))) for line in lines)
        return sum(fact.is_difference for fact in self.facts) + line_count

    @property
    def is_whole(self) -> bool:
        """Whether everything was compared."""
        return not self.remarks and all(part.is_whole for part in self.parts)


def _is_content(line_text: str | None) -> bool:
    """Whether a side has a line with more than a bracket."""
    return line_text is not None and line_text.rstrip(",") not in _BRACKETS


class _RowSide:
    """What is known about one of the rows."""

    def __init__(self, reading: Reading, row: int) -> None:
        """Read the row and, if it belongs to a call, the rest of its exchange."""
        self.reading, self.row = reading, row
        self.remarks: list[str] = []
        self.parts: dict[str, Any] = {}
        self.subject = ""
        self.number = reading.call(row)
        rows = [row]
        if self.number is not None:
            kind = reading.kinds.all[reading.calls.kind[self.number]]
            self.subject = sanitise(kind.text, MAX_SUBJECT_CHARS)
            rows = [reading.calls.request[self.number], reading.calls.response[self.number]]
        self.rows = [message_row for message_row in rows if message_row != NONE]
        for message_row in self.rows:
            self._read(message_row)

    def _read(self, row: int) -> None:
        entry = self.reading.index.entry(row)
        item = self.reading.index.read_item(row) if entry.size <= MAX_LINE_FRAME_BYTES else None
        if not isinstance(item, Frame):
            reason = f"has {units.size(entry.size)}" if entry.size > MAX_LINE_FRAME_BYTES else "cannot be read"
            self.remarks.append(f"{entry_name(entry)} {reason}, so its content is not compared")
            return
        message = self._message(row, item)
        if message is None:
            self.remarks.append(f"{entry_name(entry)} has several messages, so its content is not compared")
            return
        raw = raw_of(message.frames)
        value: Any = ABSENT
        if sum(map(raw.count, (b"[", b"{", b","))) <= MAX_PARSED_VALUES:
            try:
                value = parse_exactly(raw)
            except (ValueError, RecursionError):
                value = ABSENT
        if message.index is not None and isinstance(value, list) and message.index < len(value):
            value = value[message.index]
        if value is ABSENT:
            value = raw.decode("utf-8", "backslashreplace")
        self.parts |= {name: part for name, part in _parts(value) if part is not ABSENT}
        method = value.get("method") if isinstance(value, dict) else None
        if isinstance(method, str):
            self.subject = self.subject or sanitise(method, MAX_SUBJECT_CHARS)

    def _message(self, row: int, frame: Frame) -> Message | None:
        if self.number is None:
            return message_at(self.reading, row, frame)
        if row == self.reading.calls.request[self.number]:
            return message_of_call(self.reading, row, frame, self.number, Request)
        return message_of_call(self.reading, row, frame, self.number, Response)

    @property
    def outcome(self) -> Status:
        """How the call ended; empty if the row belongs to none."""
        reading, number = self.reading, self.number
        if number is None:
            return Status("")
        outcome = reading.outcome(number)
        if outcome is None:
            return waiting_status() if reading.is_live else Status("unknown")
        status = outcome_status(outcome, is_abandoned=reading.abandoned_ns(number) is not None)
        return status._replace(late_ns=late_ns(reading, number))

    @property
    def latency(self) -> str:
        """How long the call lasted, or has waited so far."""
        if self.number is None:
            return ""
        lasted_ns = self.reading.lasted_ns(self.number)
        if lasted_ns is not None:
            return units.duration(lasted_ns)
        waited_ns = self.reading.waited_ns(self.number)
        return "" if waited_ns is None else f"{units.duration(waited_ns)} without an answer"

    @property
    def size(self) -> str:
        """The sizes of its messages."""
        return " ⇒ ".join(units.size(self.reading.index.entry(row).size) for row in self.rows)

    @property
    def place(self) -> str:
        """Its frame, when it was sent and, if the capture has several, its session."""
        entry, session = self.reading.index.entry(self.row), self.reading.session_of(self.row)
        place = f"{entry_name(entry)}, {units.offset_text(entry.t_ns)}"
        return place if session is None else f"{place}, session {session:,}"


def compare_rows(reading: Reading, old_row: int, new_row: int) -> RowComparison:
    """Compare two rows of a capture. Reads the file, so do not call it in the drawing thread.

    Args:
        reading: the capture.
        old_row: the row that is shown as the old side.
        new_row: the row that is shown as the new side.
    """
    old, new = _RowSide(reading, old_row), _RowSide(reading, new_row)
    facts = [
        RowFact("call" if old.number is not None else "message", old.subject, new.subject),
        _outcome_fact(old.outcome, new.outcome),
        RowFact("frame", old.place, new.place, is_compared=False),
        RowFact("latency", old.latency, new.latency, is_compared=False),
        RowFact("size", old.size, new.size, is_compared=False),
    ]
    names = dict.fromkeys([*old.parts, *new.parts])
    parts = [_compared_part(name, old.parts.get(name, ABSENT), new.parts.get(name, ABSENT)) for name in names]
    return RowComparison(
        [facts[0], *(fact for fact in facts[1:] if fact.old or fact.new)],
        [part for part in parts if part.lines],
        list(dict.fromkeys([*old.remarks, *new.remarks])),
    )


def _outcome_fact(old: Status, new: Status) -> RowFact:
    roles: list[Role] = ["bad" if status.is_bad else "plain" for status in (old, new)]
    return RowFact("outcome", old.short, new.short, old_role=roles[0], new_role=roles[1])


def previous_call_row(reading: Reading, row: int) -> int | None:
    """Returns the row of the previous call of the same method and name as that of a row, or None if there is none.

    Looks through all calls before it, in every session of the capture, so do not call it in the drawing thread.
    """
    number, calls = reading.call(row), reading.calls
    if number is None:
        return None
    kind = calls.kind[number]
    if reading.kinds.all[kind].is_catch_all:
        return None
    numbers = (earlier for earlier in range(number - 1, -1, -1) if calls.kind[earlier] == kind)
    earlier_number = next(numbers, None)
    return None if earlier_number is None else calls.request[earlier_number]


def _compared_part(name: str, old: Any, new: Any) -> ComparedPart:
    if isinstance(old, str) and isinstance(new, str):
        old_value, new_value = _inner_json(old), _inner_json(new)
        if old_value is not None and new_value is not None:
            old, new = old_value, new_value
    lines, is_whole = aligned_lines(old, new, MAX_PART_LINES)
    return ComparedPart(name, lines, is_whole)


def _inner_json(text: str) -> Any:
    """Returns the object or array that a text contains as JSON, or None if it contains neither."""
    if text[:64].lstrip()[:1] not in ("{", "["):
        return None
    try:
        return parse_exactly(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a message, each with its name, so that what people compare comes first and apart."""
    if not isinstance(value, dict):
        yield "text" if isinstance(value, str) else "value", value
        return
    params = value.get("params", ABSENT)
    if isinstance(params, dict) and value.get("method") in _CONTENT_METHODS:
        yield "arguments", params.get("arguments", ABSENT)
        yield from _rest("other params", params, "name", "arguments")
    else:
        yield "params", params
    yield "error", value.get("error", ABSENT)
    yield from _result_parts(value.get("result", ABSENT))
    owner = "" if "method" in value else " of the answer"
    yield from _rest(f"other members{owner}", value, *_UNCOMPARED_MEMBERS, "params", "result", "error")


def _result_parts(result: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a result: each text, structured content, and the rest without these."""
    if not isinstance(result, dict):
        yield "result", result
        return
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    number = 0
    other_blocks: list[Any] = []
    for block in blocks:
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if not isinstance(text, str) or number >= MAX_TEXTS:
            other_blocks.append(block)
            continue
        number += 1
        yield "text" if number == 1 else f"text {number:,}", text
        if set(block) - {"type", "text"}:
            other_blocks.append({name: member for name, member in block.items() if name != "text"})
    yield "structuredContent", result.get("structuredContent", ABSENT)
    written_names = ["structuredContent", *(["content"] if blocks else [])]
    yield from _rest("result", result, *written_names)
    if other_blocks:
        yield "other content", other_blocks


def _rest(name: str, members: Mapping[str, Any], *written_names: str) -> Iterator[tuple[str, Any]]:
    """Yields the other members as a part, if there are any."""
    rest = {key: member for key, member in members.items() if key not in written_names}
    if rest:
        yield name, rest
