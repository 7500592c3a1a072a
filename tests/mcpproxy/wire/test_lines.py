"""Framing: for any bytes, however they are cut into chunks, the same lines come out and no byte is lost."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.wire.lines import MAX_PENDING_BYTES, LinePiece, LineSplitter

SMALL = 8
"""A line of up to this many bytes is not giant here."""

Line = tuple[bytes, bytes]
"""What is between delimiters, and the delimiter."""

ALPHABET = [b"\n", b"\r", b"\r\n", b"a", b"{}", "é".encode(), "€".encode(), "𝄞".encode(), b"\x80", b"\xff", b"x" * 7]
streams = st.lists(st.sampled_from(ALPHABET) | st.binary(max_size=12), max_size=40).map(b"".join)
utf8_streams = st.lists(st.sampled_from(["\n", "a", "é", "€", "𝄞", "𝄞𝄞𝄞"]), max_size=40).map("".join)
cuts = st.lists(st.integers(0, 400), max_size=20)


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    """Returns the data in chunks, cut at some places; no chunk is empty, as no read is."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[start:stop] for start, stop in pairwise(places)]


def fed(chunks: Iterable[bytes], size: int = SMALL) -> list[LinePiece]:
    """Returns all pieces of a stream, split as in the recorder: each chunk by the fast way where it applies."""
    lines = LineSplitter(size)
    pieces: list[LinePiece] = []
    for chunk in chunks:
        plain = lines.feed_complete(chunk)
        pieces += lines.feed(chunk) if plain is None else [LinePiece(line, b"\n") for line in plain]
    return [*pieces, *lines.finish()]


def joined(pieces: Iterable[LinePiece]) -> list[Line]:
    """Returns the lines that the pieces make up, after checking the numbers of their parts."""
    found: list[Line] = []
    parts: list[bytes] = []
    for piece in pieces:
        parts.append(piece.raw)
        assert piece.part_number == (len(parts) if len(parts) > 1 or not piece.is_last or piece.part_number else 0)
        assert piece.is_last or not piece.delim
        if piece.is_last:
            found.append((b"".join(parts), piece.delim))
            parts = []
    assert not parts
    return found


def expected(data: bytes) -> list[Line]:
    """Returns the lines as FORMAT.md defines them: a line ends at 0A, and a CR before it belongs to the delimiter."""
    *lines, rest = data.split(b"\n")
    found = [(line[:-1], b"\r\n") if line.endswith(b"\r") else (line, b"\n") for line in lines]
    return [*found, (rest, b"")] if rest else found


@given(streams, cuts)
@example(b"12345678\r\n", [9])
@example(b"12345678\r\n", [8])
@example(b"1234567\r", [])
@example(b"\r\n\r\n\n", [1, 2, 3])
@example("a𝄞𝄞𝄞𝄞\n".encode(), [3, 7])
def test_any_cutting_gives_the_lines_of_the_whole(data: bytes, at: list[int]) -> None:
    assert joined(fed(cut(data, at))) == expected(data)


@given(streams)
def test_byte_by_byte_and_all_at_once_are_the_same(data: bytes) -> None:
    single = joined(fed(data[i : i + 1] for i in range(len(data))))
    assert single == joined(fed([data] if data else [])) == expected(data)


@given(streams, cuts)
def test_no_byte_is_lost_or_doubled(data: bytes, at: list[int]) -> None:
    assert b"".join(piece.raw + piece.delim for piece in fed(cut(data, at))) == data


@given(streams, cuts)
def test_a_piece_is_never_longer_than_what_may_wait(data: bytes, at: list[int]) -> None:
    assert all(len(piece.raw) <= SMALL for piece in fed(cut(data, at)))


@given(utf8_streams, cuts)
def test_parts_are_cut_between_characters(text: str, at: list[int]) -> None:
    for piece in fed(cut(text.encode(), at)):
        piece.raw.decode()


@given(streams, cuts)
def test_what_waits_is_never_more_than_the_maximum(data: bytes, at: list[int]) -> None:
    lines = LineSplitter(SMALL)
    taken = given_out = 0
    for chunk in cut(data, at):
        taken += len(chunk)
        given_out += sum(len(piece.raw + piece.delim) for piece in lines.feed(chunk))
        assert taken - given_out <= SMALL
        assert lines.is_pending or taken == given_out
    rest = lines.finish()
    assert taken == given_out + sum(len(piece.raw + piece.delim) for piece in rest)
    assert not lines.is_pending


@pytest.mark.parametrize("separator", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_nothing_but_a_newline_ends_a_line(separator: str) -> None:
    line = f'{{"a":"x{separator}y"}}'.encode()
    assert fed([line + b"\n"], MAX_PENDING_BYTES) == [LinePiece(line, b"\n")]


def test_a_giant_line_comes_out_while_it_comes_in() -> None:
    lines = LineSplitter()
    chunk = "€".encode() * 21845
    pieces = [piece for _ in range(64) for piece in lines.feed(chunk)]
    assert [(piece.part_number, piece.is_last) for piece in pieces] == [(1, False), (2, False), (3, False)]
    assert all(len(piece.raw) <= MAX_PENDING_BYTES for piece in pieces)
    assert len(pieces[0].raw) > MAX_PENDING_BYTES - 4
    (last,) = lines.feed(b"\n")
    assert (last.part_number, last.is_last, last.delim) == (4, True, b"\n")


def test_a_line_of_exactly_the_maximum_is_whole_and_one_byte_more_is_not() -> None:
    assert fed([b"x" * SMALL + b"\n"]) == [LinePiece(b"x" * SMALL, b"\n")]
    assert [piece.part_number for piece in fed([b"x" * (SMALL + 1) + b"\n"])] == [1, 2]


def test_the_plain_way_takes_nothing_when_it_does_not_serve() -> None:
    lines = LineSplitter(SMALL)
    assert lines.feed_complete(b"a\r\nb") is None
    assert lines.feed_complete(b"x" * (SMALL + 1)) is None
    assert lines.feed(b"y\n") == [LinePiece(b"y", b"\n")]
    assert lines.feed(b"half\r") == []
    assert lines.feed_complete(b"\nz\n") is None
    assert lines.feed(b"\nz\n") == [LinePiece(b"half", b"\r\n"), LinePiece(b"z", b"\n")]
