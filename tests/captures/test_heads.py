"""Caching the heads of `exchange` records, so that each is parsed once, does not change any result."""

from collections.abc import Callable

import orjson
import pytest

from captures.heads import MAX_CACHED_HEADS, Head, HeadCache

ASKED = (
    b'{"method":"POST","target":"/mcp","version":"HTTP/1.1","headers":[["Accept","a"],'
    b'["accept","b"],["Mcp-Session-Id","7"]]}'
)
ANSWERED = b'{"status":200,"reason":"OK","headers":[["server","x"]]}'
START = b'{"seq":7,"rec":"exchange","t_ns":1,"conn":1,"exchange":1,"stage":"end",'
END = b'"times":{"a":1},"crc":"00000000"}'


def of(*members: bytes) -> bytes:
    return START + b"".join(member + b"," for member in members) + END


USUAL = [
    of(b'"request":' + ASKED, b'"peer":"::1:9"'),
    of(b'"response":' + ANSWERED),
    of(b'"request":' + ASKED, b'"response":' + ANSWERED),
    of(b'"request":' + ASKED, b'"peer":"::1:9"', b'"response":' + ANSWERED),
]

ODD = [
    of(b'"request":' + ASKED, b'"request":0'),
    of(b'"request":0', b'"request":' + ASKED),
    of(b'"request":' + ASKED, b'"\\u0072equest":0'),
    of(b'"request":' + ASKED, b'"response":' + ANSWERED, b'"response":{"status":1}'),
    of(b'"response":' + ANSWERED, b'"request":' + ASKED),
    of(b'"peer":{"a":1,"request":' + ASKED + b"}"),
    of(b'"peer":{"a":1,"request":' + ASKED + b"}", b'"request":0'),
    of(b'"peer":",\\"request\\":{"', b'"request":' + ASKED),
    of(b'"peer":"a,\\\\"', b'"request":' + ASKED),
    of(b'"request":{"headers":[["a","\\"]]}"],["b","c"]]}'),
    of(b'"request":{"headers":[["a","b"]],"method":"GET"}', b'"response":' + ANSWERED),
    of(b'"request":{"headers":[["a"],[],"b",["c",1],[2,"d"]]}', b'"response":{"headers":[["a","b"]]}'),
    of(b'"request":{"headers":{"a":[["b"]]}}'),
    of(b'"request":{}', b'"response":{"headers":[]}'),
    of(b'"request":{"method":[[["a"]]],"headers":[["a","b"]]}'),
    of(b'"request":{"method":[["a"]]}', b'"response":[["a"]]'),
    of(b'"request":{' + b'"a":[' * 1_100 + b'["x"]]}' + b"]" * 1_100 + b"}"),
    of(b'"request":' + ASKED, b'"endpoints":[["a"]]}'),
    of(b'"request":' + ASKED + b"}"),
    of(b'"request":{"headers":[["a","\xff"]]}'),
    b'{"seq":7,"rec":"frame","raw":"x","request":' + ASKED + b"}",
    b'{"rec":"exchange","request":{"headers":[["a","b"]]}',
    b'"rec":"exchange"',
]


def value(loads: Callable[[bytes], object], line: bytes) -> object:
    try:
        return loads(line)
    except ValueError:
        return ValueError


@pytest.mark.parametrize("line", USUAL + ODD)
def test_a_line_says_the_same_as_one_that_is_read_as_a_whole(line: bytes) -> None:
    heads = HeadCache()
    for _ in range(2):
        read = value(heads.loads, line)
        assert read == value(orjson.loads, line)
        if isinstance(read, dict):
            assert orjson.dumps(read) == orjson.dumps(orjson.loads(line))


@pytest.mark.parametrize("line", USUAL)
def test_a_head_that_comes_again_is_the_same_object(line: bytes) -> None:
    heads = HeadCache()
    first, again = heads.loads(line), heads.loads(line)
    names = {"request", "response"} & first.keys()
    assert names
    for name in names:
        assert type(first[name]) is Head
        assert first[name] is again[name]


def test_what_its_fields_say() -> None:
    head = Head(orjson.loads(ASKED))
    assert head.fields == {"accept": "b", "mcp-session-id": "7"}
    assert head.repeated_fields == {"accept"}
    assert head.field_lines == [("accept", "a"), ("accept", "b"), ("mcp-session-id", "7")]
    assert head.session_id == "7"


def test_the_number_of_heads_is_bounded() -> None:
    heads = HeadCache()
    lines = [of(b'"response":{"status":%d,"headers":[["a","b"]]}' % number) for number in range(MAX_CACHED_HEADS + 1)]
    first = heads.loads(lines[0])["response"]
    assert heads.loads(lines[0])["response"] is first
    for line in lines:
        heads.loads(line)
    assert heads.loads(lines[0])["response"] is not first
