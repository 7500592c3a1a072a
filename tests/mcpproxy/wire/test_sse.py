"""Event streams: for any bytes, however they are cut, the events are those of the standard, in bounded memory."""

import time
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.wire.sse import MAX_FIELD_BYTES, MAX_RETRY_MS, Event, EventSplitter
from tests.mcpproxy.wire.growth import check_linear

SMALL = 8
"""Data of up to this many bytes is not giant here."""
SHORT = 16
"""Other lines keep this many bytes here."""
BOM = b"\xef\xbb\xbf"
MIB = 1 << 20


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    """Returns the data in chunks, cut at some places; no chunk is empty, as no read is."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[start:stop] for start, stop in pairwise(places)]


def singly(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def fed(chunks: Iterable[bytes], splitter: EventSplitter | None = None) -> list[Event]:
    """Returns all events of a stream."""
    splitter = splitter or EventSplitter()
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    return [*events, *splitter.finish()]


def joined(events: Iterable[Event]) -> list[Event]:
    """Returns the events that the parts make up, after checking the parts."""
    found: list[Event] = []
    parts: list[bytes] = []
    for event in events:
        if event.part_number:
            assert event.data
            parts.append(event.data)
            assert event.part_number == len(parts)
        else:
            assert not parts
        if not event.is_last:
            assert event == Event(event.data, is_last=False, part_number=len(parts))
        elif parts:
            assert len(parts) > 1
            found.append(event._replace(data=b"".join(parts), part_number=0))
            parts = []
        else:
            found.append(event)
    assert not parts
    return found


# ---- the standard, step by step


def lines_of(stream: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yields the lines, each with whether it ended."""
    line, at = b"", 0
    while at < len(stream):
        end = next((end for end in (b"\r\n", b"\n", b"\r") if stream[at:].startswith(end)), b"")
        if end:
            yield line, True
            line, at = b"", at + len(end)
        else:
            line, at = line + stream[at : at + 1], at + 1
    if line:
        yield line, False


@dataclass
class Block:
    """The lines since the last blank one, in the buffers that the standard names."""

    data: bytes = b""
    event: bytes = b""
    has_id: bool = False
    retry: int | None = None
    cut: bool = False

    def tells(self) -> bool:
        return self.data != b"" or self.event != b"" or self.has_id or self.retry is not None

    def told(self, last_id: bytes | None, *, whole: bool, comments: int) -> Event:
        data = self.data[:-1] if self.data else None
        return Event(data, self.event, last_id, self.has_id, self.retry, whole, comments, self.cut)

    def take(self, line: bytes, kept: int) -> bytes | None:
        """Process a field; returns the last event ID buffer if the line sets it."""
        name, value = line.split(b":", 1) if b":" in line else (line, b"")
        if value.startswith(b" "):
            value = value[1:]
        over = max(0, len(line) - kept)
        beginning = value[: len(value) - over]
        if name == b"data":
            self.data += value + b"\n"
        elif name == b"event":
            self.event, self.cut = beginning, self.cut or over > 0
        elif name == b"id" and b"\0" not in value:
            self.has_id, self.cut = True, self.cut or over > 0
            return beginning
        elif name == b"retry" and value and set(value) <= set(b"0123456789") and not over:
            self.retry = 0
            for digit in value:
                self.retry = min(self.retry * 10 + digit - ord("0"), MAX_RETRY_MS)
        return None


def expected(stream: bytes, kept: int = MAX_FIELD_BYTES) -> list[Event]:
    """A slow and obvious implementation of section 9.2.6, with the few things that the splitter reports in addition."""
    events = []
    block, comments, begun = Block(), 0, False
    buffer: bytes | None = None
    last_id: bytes | None = None
    for line, ended in lines_of(stream[3:] if stream.startswith(BOM) else stream):
        if not line:
            last_id = buffer
            if block.tells():
                events.append(block.told(last_id, whole=True, comments=comments))
                comments = 0
            block = Block()
        elif line.startswith(b":"):
            comments += ended
        elif ended or line.startswith(b"data:"):
            named = block.take(line, kept)
            buffer = buffer if named is None else named
        else:
            begun = True
    if begun or block.tells():
        events.append(block.told(last_id, whole=False, comments=comments))
    return events


ALPHABET = [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b": ", b":", b" ", b"\0", b"x", b"7", BOM, BOM[:2]),
    *(b"data", b"data:", b"data: ", b"event: a", b"event", b"id: 1", b"id", b"retry: 10", b"retry:", b"dat", b"data :"),
    *("é".encode(), "€".encode(), "𝄞".encode(), b"\x80", b"\xff", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"y" * 7),
]
streams = st.lists(st.sampled_from(ALPHABET) | st.binary(max_size=6), max_size=30).map(b"".join)
cuts = st.lists(st.integers(0, 400), max_size=20)


@given(streams, cuts)
@example(BOM + b"data: a\r\n\r\n", [1, 2, 10, 11, 12])
@example(b"data: 1234567890\ndata\n\n", [6, 7, 14])
@example(b"id: 0123456789abcdef\0\n\n", [20])
@example(b"event: 0123456789abcdef\n\n", [1])
@example(b"data:12345678\ndata:", [])
def test_any_cutting_gives_the_events_of_the_standard(stream: bytes, at: list[int]) -> None:
    want = expected(stream, SHORT)
    assert joined(fed(cut(stream, at), EventSplitter(SMALL, SHORT))) == want
    assert joined(fed(singly(stream), EventSplitter(SMALL, SHORT))) == want
    assert fed([stream]) == fed(cut(stream, at)) == expected(stream)


@given(streams, cuts)
def test_a_part_is_never_longer_than_what_may_wait(stream: bytes, at: list[int]) -> None:
    for event in fed(cut(stream, at), EventSplitter(SMALL, SHORT)):
        assert len(event.data or b"") <= SMALL
        assert len(event.event) <= SHORT
        assert len(event.id or b"") <= SHORT


@given(st.text("aé€𝄞", max_size=40), cuts)
def test_parts_are_cut_between_characters(text: str, at: list[int]) -> None:
    for event in fed(cut(f"data: {text}\n\n".encode(), at), EventSplitter(SMALL, SHORT)):
        assert event.data is not None
        event.data.decode()


@given(streams, streams)
def test_a_blank_line_hands_out_its_event_at_once(before: bytes, after: bytes) -> None:
    splitter = EventSplitter()
    first = splitter.feed(before + b"\n\ndata: x\r\r")
    assert first[-1].data == b"x"
    rest = [*splitter.feed(after), *splitter.finish()]
    assert [*first, *rest] == expected(before + b"\n\ndata: x\r\r" + after)


# ---- cases by hand

CASES: dict[str, tuple[bytes, list[Event]]] = {
    # Line ends.
    "lf": (b"data: a\n\n", [Event(b"a")]),
    "cr": (b"data: a\r\r", [Event(b"a")]),
    "cr lf": (b"data: a\r\n\r\n", [Event(b"a")]),
    "mixed ends": (b"data: a\rdata: b\ndata: c\r\n\n", [Event(b"a\nb\nc")]),
    "cr, then cr lf": (b"data: a\r\r\ndata: b\n\n", [Event(b"a"), Event(b"b")]),
    "lf, then cr, is a blank line": (b"data: a\n\rdata: b\n\n", [Event(b"a"), Event(b"b")]),
    "cr lf lf": (b"data: a\r\n\ndata: b\r\n\n", [Event(b"a"), Event(b"b")]),
    "blank lines in plenty": (b"\n\r\r\n\n\ndata: a\n\n\n\n\n", [Event(b"a")]),
    "line separators of Unicode are data": (b"data: a\xe2\x80\xa8b\xc2\x85c\n\n", [Event(b"a\xe2\x80\xa8b\xc2\x85c")]),
    "so are VT, FF and FS": (b"data: a\x0bb\x0cc\x1cd\n\n", [Event(b"a\x0bb\x0cc\x1cd")]),
    # The byte order mark.
    "bom": (BOM + b"data: a\n\n", [Event(b"a")]),
    "second bom": (BOM + BOM + b"data: a\n\n", []),
    "bom in the second event": (b"data: a\n\n" + BOM + b"data: b\n\n", [Event(b"a")]),
    "bom in data": (b"data: " + BOM + b"{}\n\n", [Event(BOM + b"{}")]),
    "bom before a comment": (BOM + b": hi\ndata: a\n\n", [Event(b"a", comments=1)]),
    "bom before a blank line": (BOM + b"\ndata: a\n\n", [Event(b"a")]),
    "bom alone": (BOM, []),
    "half a bom": (BOM[:2], [Event(is_whole=False)]),
    "half a bom and data": (BOM[:2] + b"data: a\n\n", []),
    # Data.
    "no space": (b"data:a\n\n", [Event(b"a")]),
    "two spaces": (b"data:  a\n\n", [Event(b" a")]),
    "a tab is no space": (b"data:\ta\n\n", [Event(b"\ta")]),
    "trailing space stays": (b"data: a \n\n", [Event(b"a ")]),
    "colons in data": (b"data: a: b:c\n\n", [Event(b"a: b:c")]),
    "data begins with a colon": (b"data::a\n\n", [Event(b":a")]),
    "empty data": (b"data:\n\n", [Event(b"")]),
    "empty data with a space": (b"data: \n\n", [Event(b"")]),
    "data without colon": (b"data\n\n", [Event(b"")]),
    "two empty data lines": (b"data\ndata\n\n", [Event(b"\n")]),
    "empty line of data between": (b"data: a\ndata\ndata: b\n\n", [Event(b"a\n\nb")]),
    "empty line of data last": (b"data: a\ndata:\n\n", [Event(b"a\n")]),
    "pretty-printed": (b'data: {\ndata:   "a": 1\ndata: }\n\n', [Event(b'{\n  "a": 1\n}')]),
    "fields between data lines": (b"data: a\nid: 1\ndata: b\n\n", [Event(b"a\nb", id=b"1", has_id=True)]),
    "not utf-8": (b"data: \xff\xfe\x80\n\n", [Event(b"\xff\xfe\x80")]),
    "nul in data": (b"data: a\0b\n\n", [Event(b"a\0b")]),
    # Names of fields.
    "upper case is unknown": (b"DATA: a\nData: b\n\n", []),
    "space before the colon": (b"data : a\n\n", []),
    "space before the name": (b" data: a\n\n", []),
    "name that begins like data": (b"database: a\ndata: b\n\n", [Event(b"b")]),
    "name that data begins with": (b"dat: a\nd\ndata: b\n\n", [Event(b"b")]),
    "unknown fields": (b"foo: a\nbar\ndata: b\n\n", [Event(b"b")]),
    "unknown fields alone": (b"foo: a\n\n", []),
    "nul in a name": (b"da\0ta: a\n\n", []),
    # Types.
    "event": (b"event: endpoint\ndata: /m?s=1\n\n", [Event(b"/m?s=1", b"endpoint")]),
    "event after data": (b"data: a\nevent: e\n\n", [Event(b"a", b"e")]),
    "the last event line counts": (b"event: e\nevent: f\ndata: a\n\n", [Event(b"a", b"f")]),
    "empty event line takes the type back": (b"event: e\nevent\ndata: a\n\n", [Event(b"a")]),
    "type is for one event": (b"event: e\ndata: a\n\ndata: b\n\n", [Event(b"a", b"e"), Event(b"b")]),
    "event without data": (b"event: e\n\n", [Event(None, b"e")]),
    "empty event line alone": (b"event:\n\n", []),
    "type with spaces": (b"event:  e \ndata: a\n\n", [Event(b"a", b" e ")]),
    # Ids.
    "id": (b"id: 1\ndata: a\n\n", [Event(b"a", id=b"1", has_id=True)]),
    "id stays in force": (b"id: 1\ndata: a\n\ndata: b\n\n", [Event(b"a", id=b"1", has_id=True), Event(b"b", id=b"1")]),
    "empty id": (b"id: 1\ndata: a\n\nid\n\n", [Event(b"a", id=b"1", has_id=True), Event(id=b"", has_id=True)]),
    "id alone": (b"id: 1\n\ndata: a\n\n", [Event(id=b"1", has_id=True), Event(b"a", id=b"1")]),
    "priming": (b"id: 1\ndata:\n\n", [Event(b"", id=b"1", has_id=True)]),
    "id with nul": (b"id: 1\nid: 2\0\ndata: a\n\n", [Event(b"a", id=b"1", has_id=True)]),
    "id with nul alone": (b"id: \0\n\n", []),
    "id with colons": (b"id: a:b\ndata: x\n\n", [Event(b"x", id=b"a:b", has_id=True)]),
    "the last id line counts": (b"id: 1\nid: 2\ndata: a\n\n", [Event(b"a", id=b"2", has_id=True)]),
    # Retry.
    "retry": (b"retry: 3000\ndata: a\n\n", [Event(b"a", retry=3000)]),
    "retry alone": (b"retry: 0\n\n", [Event(retry=0)]),
    "retry with leading zeros": (b"retry: 007\n\n", [Event(retry=7)]),
    "retry that is none": (b"retry: 1s\nretry: -1\nretry: 1.5\nretry: +1\nretry:  1\nretry\n\n", []),
    "retry in other digits": ("retry: ٣\n\n".encode(), []),
    "a wrong retry leaves the right one": (b"retry: 5\nretry: x\n\n", [Event(retry=5)]),
    "greatest retry": (b"retry: 9007199254740991\n\n", [Event(retry=MAX_RETRY_MS)]),
    "retry above it": (b"retry: 9007199254740992\n\n", [Event(retry=MAX_RETRY_MS)]),
    "retry that int refuses": (b"retry: " + b"9" * 5000 + b"\n\n", [Event(retry=MAX_RETRY_MS)]),
    # Comments.
    "comment": (b": ping\n\n", []),
    "empty comment": (b":\n\n", []),
    "comments count for the next event": (b":\n\n: x\n\n:data: y\ndata: a\n\n", [Event(b"a", comments=3)]),
    "comment within an event": (b"data: a\n:\ndata: b\n\ndata: c\n\n", [Event(b"a\nb", comments=1), Event(b"c")]),
    # The end of the stream.
    "nothing": (b"", []),
    "no blank line": (b"data: a\n", [Event(b"a", is_whole=False)]),
    "no line end": (b"data: a", [Event(b"a", is_whole=False)]),
    "ends after the name": (b"data: a\ndata", [Event(b"a", is_whole=False)]),
    "ends after the colon": (b"data: a\ndata:", [Event(b"a\n", is_whole=False)]),
    "ends after the space": (b"data: ", [Event(b"", is_whole=False)]),
    "ends in the name": (b"da", [Event(is_whole=False)]),
    "ends in a comment": (b"data: a\n\n: pin", [Event(b"a")]),
    "ends in a comment within an event": (b"data: a\n: pin", [Event(b"a", is_whole=False)]),
    "an id that no blank line put in force": (b"id: 1\ndata: a\n", [Event(b"a", has_id=True, is_whole=False)]),
    "half an id is none": (b"data: a\nid: 1", [Event(b"a", is_whole=False)]),
    "half a retry is none": (b"retry: 30", [Event(is_whole=False)]),
    "ends within cr lf": (b"data: a\r\n\r", [Event(b"a")]),
}


@pytest.mark.parametrize(("stream", "events"), CASES.values(), ids=CASES)
def test_odd_streams(stream: bytes, events: list[Event]) -> None:
    assert fed([stream]) == events
    assert fed(singly(stream)) == events
    assert expected(stream) == events
    for at in range(min(len(stream), 100)):
        assert fed(cut(stream, [at])) == events


def test_there_are_enough_odd_streams() -> None:
    assert len(CASES) >= 60


# ---- across chunks


def test_an_event_comes_at_its_carriage_return_and_not_with_the_line_feed_behind_it() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\r\n\r") == [Event(b"a")]
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\ndata: b\n\n") == [Event(b"b")]


def test_comments_that_no_event_followed_are_counted() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\n\n: 1\n\n: 2\n") == [Event(b"a")]
    assert splitter.comments == 2
    assert splitter.finish() == []
    assert splitter.comments == 2


def test_an_end_is_told_once() -> None:
    splitter = EventSplitter()
    splitter.feed(b"data: a")
    assert splitter.finish() == [Event(b"a", is_whole=False)]
    assert splitter.finish() == []


# ---- giants


def test_a_giant_event_comes_out_while_it_comes_in() -> None:
    splitter = EventSplitter()
    chunk = "€".encode() * 21845
    events = splitter.feed(b"id: 9\nevent: big\ndata: ")
    events += [event for _ in range(64) for event in splitter.feed(chunk)]
    assert [(event.part_number, event.is_last) for event in events] == [(1, False), (2, False), (3, False)]
    assert all(MIB - 4 < len(event.data or b"") <= MIB for event in events)
    (last,) = splitter.feed(b"\r\r")
    assert last == Event(last.data, b"big", b"9", has_id=True, part_number=4)
    assert b"".join(event.data or b"" for event in [*events, last]) == chunk * 64


def test_an_event_of_many_small_lines_is_giant_as_well() -> None:
    splitter = EventSplitter()
    events = splitter.feed(b"data: 0123456789\n" * 200_000)
    assert [event.part_number for event in events] == [1, 2]
    assert joined([*events, *splitter.finish()]) == [Event(b"\n".join([b"0123456789"] * 200_000), is_whole=False)]


def test_data_of_exactly_the_maximum_is_whole_and_one_byte_more_is_not() -> None:
    assert fed([b"data:" + b"x" * SMALL + b"\n\n"], EventSplitter(SMALL, SHORT)) == [Event(b"x" * SMALL)]
    longer = fed([b"data:" + b"x" * (SMALL + 1) + b"\n\n"], EventSplitter(SMALL, SHORT))
    assert longer == [Event(b"x" * SMALL, is_last=False, part_number=1), Event(b"x", part_number=2)]


@pytest.mark.parametrize("name", [b"event", b"id"])
def test_of_a_long_value_the_beginning_is_kept_and_the_event_says_so(name: bytes) -> None:
    line = name + b": " + b"v" * MAX_FIELD_BYTES
    for chunks in (
        [line + b"\ndata: a\n\ndata: b\n\n"],
        cut(line + b"\ndata: a\n\ndata: b\n\n", range(0, 70_000, 999)),
    ):
        first, second = fed(chunks)
        kept = first.event or first.id
        assert kept == line[len(name) + 2 : MAX_FIELD_BYTES]
        assert (first.data, first.is_cut, second.data, second.is_cut) == (b"a", True, b"b", False)


def test_a_nul_far_behind_still_voids_an_id() -> None:
    assert fed([b"id: " + b"v" * MAX_FIELD_BYTES, b"v\0v", b"v\ndata: a\n\n"]) == [Event(b"a")]


ENDLESS = [b"data: ", b"data", b"x", b": ", b"event: ", b"id: ", b"retry: 9", b"\n", b"data\n", b"id: 1\n", b":\n"]


UNITS = [b"0", b"0123456789\n", b"data: 7\n", b"data\r", b"id: 7\n", b": 7\n", b"\r\n"]


def check_memory(start: bytes, unit: bytes, size: int, chunks: int) -> None:
    splitter = EventSplitter(max_pending=2 * size, max_field=size // 4)
    chunk = unit * (size // len(unit))
    splitter.feed(start)
    tracemalloc.start()
    try:
        for _ in range(chunks):
            splitter.feed(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < chunks * len(chunk) / 4, (start, unit)


def test_memory_stays_the_same_whatever_does_not_end() -> None:
    for (number, start), (turn, unit) in product(enumerate(ENDLESS), enumerate(UNITS)):
        # Each start once, with so many chunks that the allocations of other threads, some 10 kB, do not matter.
        if (number + turn) % len(UNITS) == 0:
            check_memory(start, unit, 512, 240)


@pytest.mark.soak
def test_memory_stays_the_same_for_long_whatever_does_not_end() -> None:
    for start, unit in product(ENDLESS, UNITS):
        check_memory(start, unit, 2048, 256)


@pytest.mark.parametrize("start", [b"data: ", b"x", b": ", b"event: "])
def test_an_endless_line_in_single_bytes_takes_linear_time(start: bytes) -> None:
    def feed(size: int) -> None:
        splitter = EventSplitter()
        splitter.feed(start)
        for _ in range(size):
            splitter.feed(b"x")

    check_linear(feed, 6_000)


def test_many_lines_and_events_in_one_chunk_take_linear_time() -> None:
    def feed(count: int) -> None:
        assert len(fed([b"data\n\n" * count])) == count
        assert len(fed([b"data: x\n" * 2 * count])) == 1

    check_linear(feed, 3_000)


DATA_LINES = st.lists(st.sampled_from([b"data:", b"data: x", b"data:  y", b"data:data: z", b"data:\xff"]), min_size=8)


@given(DATA_LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.sampled_from([b"", b"data: be", b"id: 1\n"]), cuts)
def test_many_data_lines_are_taken_as_one_by_one(lines: list[bytes], end: bytes, before: bytes, at: list[int]) -> None:
    """Long runs of data lines are processed together."""
    stream = before + b"".join(line + end for line in lines)
    for whole in (stream, stream + end, stream + b"data", stream + b"event: e" + end + end + stream):
        assert fed(cut(whole, at)) == expected(whole)


def test_twice_as_many_data_lines_take_about_twice_the_time() -> None:
    def seconds(size: int) -> float:
        chunk, splitter = b"data:x\n" * 9362, EventSplitter()  # 64 KiB
        began = time.process_time()
        parts = [event for _ in range(size // len(chunk)) for event in splitter.feed(chunk)]
        parts += splitter.feed(b"\n")
        took = time.process_time() - began
        assert parts[-1].part_number == len(parts)
        return took

    assert seconds(10 * MIB) < 5 * max(seconds(5 * MIB), 0.01)
