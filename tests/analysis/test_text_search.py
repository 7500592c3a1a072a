"""Tests of `analysis.filter.text_search`: what a text is found in, and that no line with it is missed."""

import json
import random

import pytest

from analysis.filter import parse
from analysis.filter.text_search import TextSearch
from captures.record import payload_members, seal
from captures.verdict import C2S
from tests.captures.samples import frame


@pytest.mark.parametrize(
    ("text", "raw", "is_found"),
    [
        ("error", '{"m":"An ERROR"}', True),
        ("Error", '{"m":"An error"}', False),
        ("Error", '{"m":"An Error"}', True),
        ("é", '{"m":"caf\\u00e9"}', True),
        ("é", '{"m":"CAFÉ"}', True),
        ("É", '{"m":"café"}', False),
        ("a/b", '{"m":"a\\/b"}', True),
        ('"q"', '{"m":"\\"q\\""}', True),
        ("null", '{"m":"\\null"}', False),
        ("00e9", '{"m":"caf\\u00e9"}', False),
        ("😀", '{"m":"\\ud83d\\ude00"}', True),
        ("word", '{"m":"\\u0077\\u006fr\\u0064"}', True),
        ("λόγος", '{"m":"ΛΌΓΟΣ"}', True),
        ("中文", '{"m":"\\u4e2d\\u6587"}', True),
        (" ", '{"m": 1}', True),
        ("x", '{"m":"\\ud800x"}', True),
    ],
)
def test_a_text_is_found_in_what_the_bytes_mean(text: str, raw: str, is_found: bool) -> None:
    search = TextSearch(text, is_literal=False)
    assert search.is_in(raw.encode()) is is_found
    line = seal(1, 0, "frame", frame(C2S, raw.encode()))
    if is_found:
        assert list(search.candidate_lines(line)) == [(0, len(line) - 1)]


def test_a_word_is_found_in_the_bytes_as_they_were_sent() -> None:
    search = TextSearch("\\u00e9", is_literal=True)
    assert search.is_in(b'{"m":"caf\\u00e9"}')
    assert not search.is_in('{"m":"café"}'.encode())
    assert not TextSearch("error", is_literal=True).is_in(b"ERROR")


def test_bytes_that_are_not_utf_8_have_their_text() -> None:
    raw = b'\xff"zebra"'
    line = seal(1, 0, "frame", payload_members(raw))
    search = TextSearch("zebra", is_literal=False)
    assert b"zebra" not in line
    assert list(search.candidate_lines(line)) == [(0, len(line) - 1)]
    assert search.is_in(raw)


def test_no_line_with_the_text_is_missed() -> None:
    rng = random.Random(52)
    characters = 'aZ0 é中É"\\/\n😀ß'
    for _ in range(2000):
        message = "".join(rng.choices(characters, k=rng.randrange(1, 12)))
        start = rng.randrange(len(message))
        text = message[start : start + rng.randrange(1, 5)]
        raw = json.dumps({"m": message}, ensure_ascii=rng.random() < 0.5).encode()
        search = TextSearch(rng.choice([text, text.lower()]), is_literal=rng.random() < 0.3)
        others = [seal(n, 0, "frame", frame(C2S, b'{"m":"bcd"}')) for n in range(2)]
        line = seal(5, 0, "frame", frame(C2S, raw))
        lines = others[0] + line + others[1]
        places = [start for start, _ in search.candidate_lines(lines)]
        assert places == sorted(places)
        if search.is_in(raw):
            assert len(others[0]) in places, (search.text, raw)


def test_a_filter_knows_which_texts_it_requires() -> None:
    def required(text: str) -> list[str]:
        return [search.text for search in parse(text).texts]

    assert required('a text:B (c "d e") not f (g or h)') == ["a", "B", "c", "d e"]
    assert required("a or b") == []
    assert required("not a") == []
    assert required("method:a") == []


def test_an_excerpt_is_the_text_around_the_first_occurrence() -> None:
    search = TextSearch("needle", is_literal=False)
    raw = b'{"a":"%b","b":"two lines\\nwith a \\"Needle\\" in them"}' % (b"x" * 40)
    assert search.excerpt(raw) == '…with a "Needle" in them"}'
    assert search.excerpt(b"a needle") == "a needle"
    assert len(search.excerpt(b"needle" * 1000)) < 200
    assert search.excerpt(b"nothing") == ""
