"""What is one line for every reader, and what cannot be."""

import json
import random

from analysis.playback.single_line import as_single_line


def test_line_breaks_between_tokens_of_json_become_spaces() -> None:
    for raw, line in (
        (b'{"id":1}', b'{"id":1}'),
        (b'{"id":\n1}', b'{"id": 1}'),
        (b'{"id":\r1}\r\n', b'{"id": 1}  '),
        (b'\xef\xbb\xbf{\r\n"a\\n":"\\r"}', b'\xef\xbb\xbf{  "a\\n":"\\r"}'),
        (b"not JSON", b"not JSON"),
        (b"", b""),
    ):
        assert as_single_line(raw) == line


def test_other_bytes_with_line_breaks_are_no_line() -> None:
    for raw in (
        b'{"a":"\n"}',
        b'{"a":"\r"}',
        b'{"id":1}\n{"id":2}',
        b"text\r",
        b"\n",
        b'{"a":\n"\xff"}',
        b'{"a":1\n',
        '{"id":\n1}'.encode("utf-16"),
        b"[\n" * 100_000 + b"]" * 100_000,
    ):
        assert as_single_line(raw) is None


def test_the_value_stays_the_same() -> None:
    chosen = random.Random(51)
    pieces = ("\n", "\r", "\r\n", " ", '"a"', '"\\n"', ":", ",", "{", "}", "[", "]", "1", "null", '"', "\\")
    for _ in range(20_000):
        text = "".join(chosen.choices(pieces, k=chosen.randrange(12)))
        line = as_single_line(text.encode())
        if line is None:
            continue
        assert b"\n" not in line
        assert b"\r" not in line
        if line != text.encode():
            assert json.loads(line) == json.loads(text)
