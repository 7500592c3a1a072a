"""Recorded messages with the ids and progress tokens of today; every other byte stays."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.playback.json_spans import spans_of
from analysis.playback.translation import MessageTokens, Substitutes, canonical_token, tokens_of, translated
from tests.examples import examples

_SUBSTITUTES = Substitutes(
    ids={b"7": b'"new"', b'"a"': b"70"},
    tokens={b"7": b"71", b'"t"': b"72"},
    own_ids={b"8": b"80"},
    own_tokens={b"7": b"81"},
)
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def _translated(text: str) -> str:
    return translated(text.encode(), _SUBSTITUTES).decode()


def test_what_the_other_side_chose_is_translated() -> None:
    for old, new in {
        '{"jsonrpc":"2.0","id":7,"result":{"id":7}}': '{"jsonrpc":"2.0","id":"new","result":{"id":7}}',
        ' { "result" : { } , "id" : 7.0 } ': ' { "result" : { } , "id" : "new" } ',
        '{"id":"\\u0061","error":{"code":7}}': '{"id":70,"error":{"code":7}}',
        '\ufeff{"id":7,"result":{}}': '\ufeff{"id":"new","result":{}}',
        '\ufeff [{"id":7,"result":{}}]': '\ufeff [{"id":"new","result":{}}]',
        '{"\\u0069d":7,"result":{}}': '{"\\u0069d":"new","result":{}}',
        '{"id":7,"result":{"n":123456789012345678901234567890,"a":1,"a":2.50}}': (
            '{"id":"new","result":{"n":123456789012345678901234567890,"a":1,"a":2.50}}'
        ),
        '{"method":"notifications/progress","params":{"progressToken":"t","x":7}}': (
            '{"method":"notifications/progress","params":{"progressToken":72,"x":7}}'
        ),
        '{"params":{"requestId":7},"method":"notifications/cancelled"}': (
            '{"params":{"requestId":"new"},"method":"notifications/cancelled"}'
        ),
        f'{{"method":"n","params":{{"_meta":{{"{_SUBSCRIPTION}":7}}}}}}': (
            f'{{"method":"n","params":{{"_meta":{{"{_SUBSCRIPTION}":"new"}}}}}}'
        ),
        f'{{"id":7,"result":{{"_meta":{{"{_SUBSCRIPTION}":7,"progressToken":1}}}}}}': (
            f'{{"id":"new","result":{{"_meta":{{"{_SUBSCRIPTION}":"new","progressToken":1}}}}}}'
        ),
        '[{"id":7,"result":{}}, {"id":9,"result":{}},\n3,{"id":"a","result":[]}]': (
            '[{"id":"new","result":{}}, {"id":9,"result":{}},\n3,{"id":70,"result":[]}]'
        ),
    }.items():
        assert _translated(old) == new


def test_what_the_sender_chose_has_mappings_of_its_own() -> None:
    for old, new in {
        '{"id":8,"method":"ping"}': '{"id":80,"method":"ping"}',
        '{"id":8,"method":"m","params":{"_meta":{"progressToken":7}}}': (
            '{"id":80,"method":"m","params":{"_meta":{"progressToken":81}}}'
        ),
        '{"method":"notifications/cancelled","params":{"requestId":8}}': (
            '{"method":"notifications/cancelled","params":{"requestId":80}}'
        ),
    }.items():
        assert _translated(old) == new
    own = _SUBSTITUTES._replace(own_ids={b"7": b"7"})
    cancelled = b'{"method":"notifications/cancelled","params":{"requestId":7}}'
    assert translated(cancelled, own) == cancelled, "the server cancelled its own request"


def test_all_else_stays() -> None:
    for text in (
        '{"id":"7","result":{}}',
        '{"id":7,"method":"tools/call","params":{"requestId":7,"progressToken":7}}',
        '{"id":null,"result":{}}',
        '{"id":true,"result":{}}',
        '{"id":[7],"result":{}}',
        '{"result":{"id":7}}',
        '{"method":"notifications/progress","params":[7]}',
        '{"method":7,"params":{"_meta":[7]}}',
        "7",
        '"id"',
        "[7]",
        "[[7]]",
        "[]",
        "{}",
        "",
        " ",
        "not JSON",
        '{"id":7',
        '{"id":7}}',
        '{"id":7,}',
        '{"id" 7}',
        '{"id":7,"result":"}',
        '{"id":7]',
        '{"id":7,"result":[}',
    ):
        assert _translated(text) == text
    assert translated(b'{"id":7}', Substitutes({}, {})) == b'{"id":7}'


def test_what_the_parser_refuses_is_translated() -> None:
    nested = b"[" * 100_000 + b"]" * 100_000
    for rest in (
        b'"result":"\\ud800"',
        b'"result":"\xff"',
        b'"\xff":1',
        b'"\\ud800":1',
        b'"result":NaN',
        b'"result":{"a":"\x00"}',
        b'"result":%b' % nested,
        b'"result":%b' % (b'{"\\"]":' * 30_000 + b"1" + b"}" * 30_000),
        b'"id":7.0,"id":1,"result":{}',
    ):
        expected = rest.replace(b'"id":7.0', b'"id":"new"')
        assert translated(b'{"id":7,%b}' % rest, _SUBSTITUTES) == b'{"id":"new",%b}' % expected
    assert translated(nested, _SUBSTITUTES) == nested
    assert translated(b'{"id":7,"a":"' + b'\\"' * 300_000, _SUBSTITUTES).startswith(b'{"id":7,')


def test_tokens_of_a_message_are_canonical() -> None:
    assert tokens_of(b'{"id":1.0,"method":"m","params":{"_meta":{"progressToken":"\\u0061"}}}') == (
        MessageTokens(b"1", b'"a"'),
    )
    assert tokens_of(b'[{"method":"m"},{"id":2,"id":3,"result":{}}]') == (
        MessageTokens(None, None),
        MessageTokens(b"3", None),
    )
    for raw, tokens in {
        b'{"method":"notifications/cancelled","params":{"requestId":7.0,"_meta":{}}}': MessageTokens(None, None, b"7"),
        b'{"method":"notifications/progress","params":{"progressToken":"t"}}': MessageTokens(None, None, None, b'"t"'),
        b'{"method":"other","params":{"progressToken":1,"requestId":2}}': MessageTokens(None, None),
    }.items():
        assert tokens_of(raw) == (tokens,)
    assert tokens_of(b"not JSON") == (MessageTokens(None, None),)


def test_equal_values_have_equal_tokens() -> None:
    for tokens in (
        (b"1", b"1.0", b"10e-1"),
        (b"100", b"1e2"),
        (b"9007199254740993", b"9007199254740993.0"),
        (b'"a"', b'"\\u0061"'),
        ('"é"'.encode(), b'"\\u00e9"'),
        (b'"\\ud800"', b'"\\uD800"'),
        (b"true",),
        (b'"1"',),
        (b"1" * 5_000,),
        (b"9007199254740992",),
        (b'"\\x"',),
        (b"-",),
    ):
        assert len({canonical_token(token) for token in tokens}) == 1, tokens
    assert canonical_token(b"9007199254740993") != canonical_token(b"9007199254740992")


_NAMES = st.sampled_from(
    ["id", "method", "params", "result", "_meta", "progressToken", "requestId", _SUBSCRIPTION, "a", 'é"\\', ""]
)
_VALUES = st.recursive(
    st.sampled_from(
        [None, True, 7, 7.5, 8, "7", "a", "t", "notifications/progress", "notifications/cancelled", "\u2028]"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=12,
)


@given(_VALUES, st.sampled_from([None, 1]), st.booleans())
@examples(100)
def test_only_tokens_change_and_back_again(value: Any, indent: int | None, is_ascii: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode()
    there = Substitutes({b"7": b"70001"}, {b"7": b"70002"}, {b"8": b"70003"}, {b"8": b"70004"})
    back = Substitutes(*({new: old for old, new in mapping.items()} for mapping in there))
    assert translated(raw, Substitutes({b"70001": b"7"}, {})) == raw
    assert translated(translated(raw, there), back) == raw
    json.loads(translated(raw, there))


@given(_VALUES, st.integers(0, 200), st.binary(max_size=3))
@examples(100)
def test_damaged_json_never_raises(value: Any, position: int, damage: bytes) -> None:
    raw = json.dumps(value).encode()
    raw = raw[:position] + damage + raw[position:]
    translated(raw, _SUBSTITUTES)
    tokens_of(raw)


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=6), st.sampled_from(["", " ", "\n\t"]))
@examples(60)
def test_spans_are_those_of_the_members_even_of_duplicates(members: list[tuple[str, Any]], space: str) -> None:
    text = "{" + ",".join(
        f"{space}{json.dumps(name)}{space}:{space}{json.dumps(value)}{space}" for name, value in members
    )
    raw = (text + (space if not members else "") + "}" + space).encode()
    found = [(span.name, json.loads(raw[span.start : span.end])) for span in spans_of(raw)]
    assert found == members
