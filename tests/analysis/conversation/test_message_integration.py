import json
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from analysis.conversation.message import (
    MISSING,
    Id,
    InvalidMessage,
    Message,
    Notification,
    Request,
    Response,
    converted_id,
    id_of,
    id_of_token,
    message_count,
    messages,
    number_text,
    parse_exactly,
)
from captures.envelope import judge
from captures.frame import Frame
from captures.verdict import UNJUDGED, Direction, Envelope, Kind


def frame(raw: bytes | str, direction: Direction = "c2s", *, whole: bool = True, seq: int = 1) -> Frame:
    raw = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    return Frame(seq, seq * 1_000_000, direction, raw, judge(raw, direction, "line", whole=whole), whole=whole)


def one(raw: bytes | str, direction: Direction = "c2s") -> Message:
    (message,) = messages(frame(raw, direction))
    return message


def request(raw: bytes | str) -> Request:
    message = one(raw)
    assert isinstance(message, Request)
    return message


def response(raw: bytes | str) -> Response:
    message = one(raw, "s2c")
    assert isinstance(message, Response)
    return message


def test_a_request_has_method_id_and_params() -> None:
    message = request(
        '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":7}}}'
    )
    assert (message.method, message.id, message.index, message.sender) == (
        "tools/call",
        Id("number", "7"),
        None,
        "client",
    )
    assert message.params["name"] == "echo"
    assert message.meta == {"progressToken": 7}
    assert (message.seq, message.t_ns) == (1, 1_000_000)


def test_a_notification_has_no_id() -> None:
    message = one('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert isinstance(message, Notification)
    assert message.method == "notifications/initialized"
    assert message.params is MISSING
    assert message.meta == {}


def test_a_response_has_a_result_or_an_error() -> None:
    result = response('{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}')
    assert (result.id, result.result, result.error, result.is_error) == (
        Id("string", "a"),
        {"tools": []},
        MISSING,
        False,
    )
    assert result.sender == "server"
    error = response('{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}')
    assert (error.result, error.is_error) == (MISSING, True)
    assert error.error["code"] == -32601


def test_a_missing_member_is_not_null() -> None:
    assert request('{"jsonrpc":"2.0","id":1,"method":"ping","params":null}').params is None
    assert request('{"jsonrpc":"2.0","id":1,"method":"ping"}').params is MISSING
    assert not MISSING
    assert response('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}').id == Id("null", "null")
    assert response('{"jsonrpc":"2.0","error":{"code":-32700,"message":""}}').id is None
    assert request('{"jsonrpc":"2.0","id":null,"method":"ping"}').id == Id("null", "null")


def test_the_null_sibling_of_a_result_is_no_error() -> None:
    assert not response('{"jsonrpc":"2.0","id":1,"result":{},"error":null}').is_error
    assert response('{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":""}}').is_error
    assert response('{"jsonrpc":"2.0","id":1,"error":null}').is_error
    assert response('{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}').is_error


def test_a_request_with_a_result_can_be_read_as_a_response() -> None:
    both = request('{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{"tools":[]}}')
    answer = both.as_response()
    assert answer is not None
    assert (answer.id, answer.result) == (both.id, {"tools": []})
    assert request('{"jsonrpc":"2.0","id":1,"method":"tools/list"}').as_response() is None


def test_the_elements_of_a_batch_are_messages_with_an_index() -> None:
    batch = messages(frame('[{"id":1.0,"method":"a"},{"method":"b"},{"id":"1","result":{}},7,{}]'))
    assert [type(message) for message in batch] == [Request, Notification, Response, InvalidMessage, InvalidMessage]
    assert [message.index for message in batch] == [0, 1, 2, 3, 4]
    assert isinstance(batch[0], Request)
    assert batch[0].id == Id("number", "1")
    assert [message.reason for message in batch if isinstance(message, InvalidMessage)] == [
        "batch/item-not-object",
        "jsonrpc/unclassifiable",
    ]
    assert len({id(message.frames[0].raw) for message in batch}) == 1


@pytest.mark.parametrize(
    ("raw", "direction", "reason"),
    [
        ("Loaded 3 plugins", "s2c", "framing/stdout-not-json"),
        ("hello", "c2s", "framing/stdin-not-json"),
        ("", "s2c", "framing/blank-line"),
        ("7", "s2c", "framing/not-a-message"),
        ("[]", "c2s", "batch/empty"),
        ('{"jsonrpc":"2.0","id":1}', "c2s", "jsonrpc/unclassifiable"),
    ],
)
def test_what_is_no_message_is_invalid_for_the_reason_of_the_verdict(
    raw: str, direction: Direction, reason: str
) -> None:
    message = one(raw, direction)
    assert isinstance(message, InvalidMessage)
    assert message.reason == reason


def test_a_frame_that_nobody_judged_is_unjudged() -> None:
    unseen = replace(frame('{"jsonrpc":"2.0","id":1,"method":"ping"}'), verdict=UNJUDGED)
    (message,) = messages(unseen)
    assert isinstance(message, InvalidMessage)
    assert message.reason == "unjudged"


def test_a_verdict_that_does_not_fit_the_bytes_raises_nothing() -> None:
    kinds: tuple[Kind, ...] = ("request", "batch", "error")
    for kind in kinds:
        for raw in (b"\xff", b"[", b"7", b'{"method":7}', b'{"id":{},"method":"x"}', b"[" * 5000):
            assert messages(Frame(1, 0, "c2s", raw, Envelope(kind, id=b"1e9")))


def test_ids_keep_their_type() -> None:
    assert id_of(1) != id_of("1")
    assert id_of(True) != id_of(1)
    assert id_of(None) != id_of("null")
    values: list[object] = [0, "", False, None, {}, [1]]
    assert [id_of(value).is_answerable for value in values] == [True, True, True, False, False, False]
    assert id_of(7).text == "7"
    assert id_of("7").text == '"7"'


def test_ids_are_exact_where_floats_are_not() -> None:
    big, bigger = (request(f'{{"jsonrpc":"2.0","id":{n},"method":"a"}}').id for n in (2**64, 2**64 + 1))
    assert big != bigger
    assert big.text == "18446744073709551616"
    assert request('{"jsonrpc":"2.0","id":1.0,"method":"a"}').id == request('{"jsonrpc":"2.0","id":1,"method":"a"}').id
    assert request('{"jsonrpc":"2.0","id":1e400,"method":"a"}').id == Id("number", "1e400")


def test_string_ids_are_compared_after_unescaping() -> None:
    assert request(r'{"jsonrpc":"2.0","id":"\u0061","method":"m"}').id == Id("string", "a")
    assert request(r'{"jsonrpc":"2.0","id":"\ud800","method":"m"}').id == Id("string", "\ud800")


def test_a_number_and_its_text_are_each_converted_into_the_other() -> None:
    assert converted_id(id_of(7)) == id_of("7")
    assert converted_id(id_of("7.0")) == id_of(7)
    assert converted_id(id_of("a")) == Id("number", "a")  # a key that no real number has
    assert converted_id(id_of(None)) == id_of(None)


def test_a_long_id_becomes_a_short_key() -> None:
    keys = {request(json.dumps({"jsonrpc": "2.0", "id": c * 10_000, "method": "m"})).id for c in "ab"}
    keys |= {request('{"jsonrpc":"2.0","id":%s,"method":"m"}' % (c * 10_000)).id for c in "12"}
    assert len(keys) == 4
    assert {key.type for key in keys} == {"digest"}
    assert all(len(key.value) < 64 for key in keys)


numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,50})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@given(numbers, numbers)
def test_number_texts_are_equal_exactly_when_the_numbers_are(left: str, right: str) -> None:
    # A Decimal made from a text is exact; the context rounds only the results of calculations.
    assert (number_text(left) == number_text(right)) == (Decimal(left) == Decimal(right))


@given(numbers)
def test_a_number_has_one_text_however_it_is_spelt(token: str) -> None:
    text, value = number_text(token), Decimal(token)
    assert Decimal(text) == value
    assert number_text(text) == text
    for spelling in (f"{value:e}", f"{value:E}", f"{value:f}", f"{value:f}" + ("0" if "." in f"{value:f}" else ".0")):
        assert number_text(spelling) == text


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("10e-1", "1"),
        ("1e2", "100"),
        ("1E+2", "100"),
        ("-0", "0"),
        ("-0.0e7", "0"),
        ("0.50", "0.5"),
        ("-12.5", "-12.5"),
        ("1e400", "1e400"),
        ("1e-400", "1e-400"),
        ("1" + "0" * 60, "1e60"),
        ("9007199254740993", "9007199254740993"),
        ("1e" + "9" * 5000, "1e" + "9" * 5000),
        ("nan", "nan"),
    ],
)
def test_the_one_form_of_a_number(token: str, text: str) -> None:
    assert number_text(token) == text


@given(st.one_of(st.integers(), st.text(), st.booleans(), st.none()))
def test_the_token_and_the_value_of_an_id_give_the_same_key(value: object) -> None:
    token = json.dumps(value).encode()
    assert id_of_token(token) == id_of(parse_exactly(token)) == id_of(value)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec=None), max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
    max_leaves=8,
)
members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.one_of(st.just("2.0"), json_values),
        "id": json_values,
        "method": st.one_of(st.sampled_from(["ping", "tools/call", "notifications/cancelled", ""]), json_values),
        "params": json_values,
        "result": json_values,
        "error": json_values,
    },
)


@given(st.one_of(members, st.lists(members, max_size=3), json_values), st.sampled_from(["c2s", "s2c"]))
def test_any_json_gives_messages_and_raises_nothing(value: object, direction: Direction) -> None:
    for ascii_ in (True, False):
        judged = frame(json.dumps(value, ensure_ascii=ascii_), direction)
        assert messages(judged)
        assert all(message.frames == (judged,) for message in messages(judged))


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_give_messages_and_raise_nothing(raw: bytes, whole: bool) -> None:
    assert messages(frame(raw, whole=whole))


@given(st.lists(st.sampled_from(("1", "1e999", "NaN", '"\\ud800"', "{}", '{"jsonrpc":"2.0","method":"x"}', "[", ""))))
@example(["[" * 5000 + "]" * 5000])
@example([])
def test_messages_are_counted_without_being_made(parts: list[str]) -> None:
    for raw in (f"[{','.join(parts)}]", ",".join(parts), f"\ufeff[{','.join(parts)}]", f"[{parts}\udc00]"):
        for is_whole in (True, False):
            one = frame(raw, whole=is_whole)
            assert message_count(one) == len(messages(one)), raw[:80]


def test_the_package_loads_nothing_until_a_name_is_asked_for() -> None:
    loaded = "'analysis.conversation.message' in sys.modules"
    code = f"import sys, analysis; print({loaded}, 'orjson' in sys.modules); analysis.messages; "
    code += f"print({loaded}, {{'duckdb', 'textual', 'mcpproxy'}} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split("\n")[:2] == ["False False", "True set()"]


def test_every_name_of_the_package_is_there() -> None:
    import analysis

    for name in analysis.__all__:
        assert getattr(analysis, name) is not None
    with pytest.raises(AttributeError):
        _ = analysis.nothing
