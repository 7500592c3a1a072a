"""Foreign lines: bounded, numbered, and refused in words."""

import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.importers import source
from mcpproxy.importers.source import InvalidLine, numbered_lines, object_of, raw_of, read_lines


def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_INPUT_LINE_BYTES", 10)
    monkeypatch.setattr(source, "_PIECE", 4)
    first, second, third = read_lines(io.BytesIO(b"x" * 50 + b"\n" + b"y" * 9 + b"\n" + b"z" * 50))
    assert (first, second, third) == (b"x" * 11, b"y" * 9 + b"\n", b"z" * 11)
    with pytest.raises(InvalidLine, match="longer than"):
        object_of(first)


@given(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b""))))
def test_lines_are_those_of_the_file_and_blank_ones_keep_their_numbers(lines: list[bytes]) -> None:
    file = io.BytesIO(b"".join(line + b"\n" for line in lines))
    wanted = [(number, line + b"\n") for number, line in enumerate(lines, 1) if line.strip(b" \t\r\v\f")]
    assert list(numbered_lines(read_lines(file))) == wanted


@pytest.mark.parametrize("line", [b"", b"\xef\xbb\xbf{}", b"[]", b"1", b'{"a":NaN}', b'{"a":"\\ud800"}', b"[" * 5000])
def test_what_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidLine):
        object_of(line)


@given(st.binary())
def test_any_bytes_are_an_object_or_refused(line: bytes) -> None:
    with suppress(InvalidLine):
        assert isinstance(object_of(line), dict)


def test_exact_bytes_count_more_than_the_text_of_them() -> None:
    assert raw_of({"raw": "\ufffd", "raw_b64": "/w=="}) == b"\xff"
    assert raw_of({"raw": "ü\u2028"}) == "ü\u2028".encode()


@pytest.mark.parametrize("values", [{}, {"raw": 1}, {"raw": None}, {"raw_b64": 1}, {"raw_b64": "/w"}, {"raw_b64": "ü"}])
def test_what_holds_no_bytes_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(InvalidLine, match="expected"):
        raw_of(values)
