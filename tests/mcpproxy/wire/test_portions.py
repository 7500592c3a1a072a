"""Portions: nothing is lost or duplicated, and each portion is bounded in bytes and in line ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.wire.portions import MAX_PORTION_BYTES, MAX_PORTION_LINES, portion_end, portions
from tests.bench.http_peers import FLOODS

MOST_LINES = MAX_PORTION_LINES + 512
"""The most line ends of a portion, if its last block holds nothing else."""


def line_ends(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r")


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b"x" * 700, b"data:x\n\n", b"\r" * 600, b"y" * 70_000]), max_size=200))
def test_portions_are_the_data_and_each_is_bounded(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    cut = list(portions(data))
    assert b"".join(cut) == data
    assert all(0 < len(one) <= MAX_PORTION_BYTES for one in cut)
    assert all(line_ends(one) <= MOST_LINES for one in cut)
    # No more portions than the bounds require: each but the last is full in bytes or in line ends.
    assert all(len(one) == MAX_PORTION_BYTES or line_ends(one) > MAX_PORTION_LINES - 512 for one in cut[:-1])


@pytest.mark.parametrize("kind", FLOODS)
def test_a_portion_of_a_flood_is_few_steps(kind: str) -> None:
    read = FLOODS[kind].unit * ((256 << 10) // len(FLOODS[kind].unit) + 1)
    assert all(line_ends(one) <= MOST_LINES for one in portions(read))


@pytest.mark.parametrize(
    "data", [b"", b"x", b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 50 + b"\r\n", b"x" * MAX_PORTION_BYTES]
)
def test_an_everyday_read_is_one_portion(data: bytes) -> None:
    assert portion_end(data) == len(data)


def test_finding_a_portion_scans_little_more_than_it() -> None:
    """Data after a short portion costs nothing; otherwise each portion would search all of a long read."""

    class Counted(bytes):
        looked = 0

        def count(self, *arguments: object) -> int:
            _, begin, end = arguments
            assert isinstance(begin, int)
            assert isinstance(end, int)
            Counted.looked += end - begin
            return super().count(*arguments)  # type: ignore[arg-type]

    data = Counted(b"1\r\nx\r\n" * 10_000)
    stop = portion_end(data)
    assert Counted.looked <= 10 * stop
