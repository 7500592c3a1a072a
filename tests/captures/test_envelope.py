"""The verdict on one frame: every rule that it can name, the fast and the exact path, and arbitrary bytes."""

import json
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from types import FrameType
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import flawless, stdlib_judge
from captures.envelope import MAX_RECORDER_JUDGED_BYTES, judge, judge_before_forwarding, judge_exactly
from captures.limits import MAX_STRUCTURAL_CHARS
from captures.stdlib_judge import _judge_flawless
from captures.verdict import UNJUDGED, Direction, Envelope, Unit
from tests.captures.verdicts import CASES, HOSTILE, STEP, objects_like_messages, one_byte_off, request, sound_messages

# Every rule that a single frame can violate, in the order of the catalogue.
CATALOGUE: Final = [
    "framing/invalid-utf8",
    "framing/bom",
    "framing/stdout-not-json",
    "framing/stdin-not-json",
    "framing/lsp-header",
    "framing/several-messages-on-a-line",
    "framing/not-a-message",
    "framing/blank-line",
    "framing/truncated-message",
    "framing/missing-final-newline",
    "framing/too-deep",
    "framing/duplicate-key",
    "framing/non-json-number",
    "framing/lone-surrogate",
    "jsonrpc/missing-version",
    "jsonrpc/wrong-version",
    "jsonrpc/unclassifiable",
    "jsonrpc/method-not-string",
    "jsonrpc/reserved-method",
    "jsonrpc/method-with-result",
    "jsonrpc/result-and-error",
    "jsonrpc/null-sibling",
    "jsonrpc/result-not-object",
    "jsonrpc/result-without-id",
    "jsonrpc/params-by-position",
    "jsonrpc/params-not-object",
    "jsonrpc/params-null",
    "jsonrpc/error-not-object",
    "jsonrpc/error-code-not-integer",
    "jsonrpc/error-message-missing",
    "jsonrpc/notification-with-id",
    "id/null",
    "id/not-string-or-integer",
    "id/unsafe-integer",
    "batch/empty",
    "sse/data-not-json",
]

# --- the table --------------------------------------------------------------------------------------------------------


def test_a_frame_gets_the_verdict_of_the_table() -> None:
    for case in CASES:
        assert case.verdict(judge) == case.expect, case.name
        assert case.verdict(judge_exactly) == case.expect, case.name


def test_the_table_has_a_frame_for_every_rule_that_one_frame_can_break() -> None:
    assert {case.expect.problem for case in CASES} == {None, *CATALOGUE}


@pytest.mark.parametrize(
    ("raw", "rules"),
    [
        (b'\xef\xbb\xbf{"id":1,"id":2}', "framing/bom framing/duplicate-key jsonrpc/missing-version"),
        (b'{"id":NaN,"id":"\\ud800"}', "framing/duplicate-key framing/non-json-number framing/lone-surrogate"),
        (b'{"id":NaN,"method":"\\ud800"}', "framing/non-json-number framing/lone-surrogate jsonrpc/missing-version"),
        (b'{"jsonrpc":1,"id":null,"method":"rpc.x","params":[]}', "jsonrpc/wrong-version jsonrpc/reserved-method"),
        (b'{"jsonrpc":"2.0","method":1,"result":1}', "jsonrpc/method-not-string jsonrpc/method-with-result"),
        (b'{"jsonrpc":"2.0","id":null,"method":"x","params":null}', "jsonrpc/params-null id/null"),
        (
            b'{"jsonrpc":"2.0","id":null,"result":null,"error":null}',
            "jsonrpc/result-not-object jsonrpc/result-without-id",
        ),
        (b'{"jsonrpc":"2.0","error":{}}', "jsonrpc/error-code-not-integer jsonrpc/error-message-missing"),
    ],
)
def test_of_several_broken_rules_the_first_of_the_catalogue_is_the_problem(raw: bytes, rules: str) -> None:
    first, *others = rules.split()
    assert judge(raw).problem == first
    assert all(CATALOGUE.index(first) < CATALOGUE.index(other) for other in others)


# --- all paths agree --------------------------------------------------------------------------------------------------

FAST: Final = (flawless.flawless_verdict, _judge_flawless)


def test_the_fast_path_takes_what_ordinary_peers_send() -> None:
    message = {
        "jsonrpc": "2.0",
        "id": "a-1",
        "method": "tools/call",
        "params": {"id": 1, "text": 'é "\n', "n": [0.5, None]},
    }
    ordinary = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    escaped_and_spaced = b'{"jsonrpc": "2.0", "id": 7, "result": {"text": "\\u001b[0m \\u00e9", "f": 1e3}}'
    for path in FAST:
        assert path(ordinary) == judge_exactly(ordinary) == Envelope("request", b'"a-1"', "tools/call")
    assert (
        flawless.flawless_verdict(escaped_and_spaced) == judge_exactly(escaped_and_spaced) == Envelope("response", b"7")
    )


ORDINARY: Final[list[dict[str, Any]]] = [
    {"jsonrpc": "2.0", "id": 12, "method": "tools/call", "params": {"a": "}", "b": {}}},
    {"jsonrpc": "2.0", "id": "{}", "method": "ping"},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}},
    {"jsonrpc": "2.0", "id": -3, "result": {"content": [{"text": "\\"}]}},
    {"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "no", "data": None}},
]


@pytest.mark.parametrize("white", ["", " ", "\t", "\r\n  "])
@pytest.mark.parametrize("message", ORDINARY, ids=lambda message: " ".join(message))
def test_the_fast_path_takes_envelopes_in_any_order_and_with_any_space(message: dict[str, Any], white: str) -> None:
    members = [f"{white}{json.dumps(name)}{white}:{white}{json.dumps(value)}{white}" for name, value in message.items()]
    for order in permutations(members):
        raw = f"{white}{{{','.join(order)}}}{white}".encode()
        found = flawless.read_flawless(raw)
        assert found is not None, raw
        assert list(found[1].items()) == list(json.loads(raw).items())
        assert flawless.flawless_verdict(raw) == judge_exactly(raw, unit="http_body")


def test_the_fast_path_leaves_every_flawed_frame_of_the_table_to_the_exact_one() -> None:
    for path in FAST:
        assert [case.name for case in CASES if case.expect.problem and case.whole and path(case.raw)] == []


def check_both_paths(step: int) -> None:
    for changed in one_byte_off(step):
        for path in FAST:
            at_once = path(changed)
            assert at_once is None or at_once == judge_exactly(changed), changed


def test_both_paths_agree_on_frames_that_one_byte_makes_of_sound_ones() -> None:
    check_both_paths(STEP)


@pytest.mark.soak
def test_both_paths_agree_on_every_frame_that_one_byte_makes_of_a_sound_one() -> None:
    check_both_paths(1)


@given(raw=objects_like_messages(), whole=st.booleans())
def test_both_paths_agree_on_objects_like_messages(raw: bytes, whole: bool) -> None:
    assert judge(raw, whole=whole) == judge_exactly(raw, whole=whole)
    assert stdlib_judge.judge_before_forwarding(raw, whole=whole) == judge_before_forwarding(raw, whole=whole)


@given(message=sound_messages(), spaced=st.booleans(), ascii_only=st.booleans())
def test_a_sound_message_reads_as_the_json_module_reads_it(
    message: dict[str, Any], spaced: bool, ascii_only: bool
) -> None:
    text = json.dumps(message, ensure_ascii=ascii_only, separators=None if spaced else (",", ":"))
    verdict = judge(text.encode())
    kinds = {"method": "request" if "id" in message else "notification", "error": "error", "result": "response"}
    assert verdict.kind == next(kind for name, kind in kinds.items() if name in message)
    assert verdict.problem is None
    assert verdict.method == message.get("method")
    assert verdict.code == message.get("error", {}).get("code")
    # An id of 60 characters, all escaped, can be too long.
    assert verdict.omitted == (() if len(json.dumps(message.get("id"), ensure_ascii=ascii_only)) <= 256 else ("id",))
    if "id" not in verdict.omitted:
        assert (None if verdict.id is None else json.loads(verdict.id)) == message.get("id")
        assert verdict.id is None or verdict.id in text.encode()


# --- any bytes --------------------------------------------------------------------------------------------------------


@given(
    raw=st.binary(max_size=300)
    | objects_like_messages()
    | st.text(alphabet='[]{}":,\\ \t1-.eNaul\ufeff\xe9').map(str.encode),
    direction=st.sampled_from(["c2s", "s2c"]),
    unit=st.sampled_from(["line", "http_body", "sse_event"]),
    whole=st.booleans(),
    cut=st.integers(0, 3),
)
def test_any_bytes_get_a_verdict_that_a_record_can_hold(
    raw: bytes, direction: Direction, unit: Unit, whole: bool, cut: int
) -> None:
    raw = raw[: len(raw) - cut]
    verdict = judge(raw, direction, unit, whole=whole)
    assert verdict == judge_exactly(raw, direction, unit, whole=whole)
    assert stdlib_judge.judge_before_forwarding(raw, direction, whole=whole) == judge_before_forwarding(
        raw, direction, whole=whole
    )
    assert verdict.problem in (None, *CATALOGUE)
    assert verdict.id is None or (len(verdict.id) <= 256 and not isinstance(orjson.loads(verdict.id), dict | list))
    assert verdict.method is None or len(verdict.method.encode()) <= 256
    assert set(verdict.omitted) <= {"id", "method"}
    assert unit == "line" or verdict.problem not in (
        "framing/stdout-not-json",
        "framing/blank-line",
        "framing/truncated-message",
        "framing/missing-final-newline",
    )


@given(token=st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,5})?", fullmatch=True))
def test_an_id_is_kept_exactly_where_orjson_reads_it(token: str) -> None:
    raw = f'{{"jsonrpc":"2.0","id":{token},"method":"ping"}}'.encode()
    try:
        orjson.loads(token)
    except orjson.JSONDecodeError:
        assert judge(raw).omitted == ("id",)
    else:
        assert judge(raw).id == token.encode()


@given(token=st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?", fullmatch=True))
def test_a_number_is_an_integer_by_its_exact_value(token: str) -> None:
    exact = Fraction(token)
    rule = (
        "id/not-string-or-integer" if exact.denominator != 1 else "id/unsafe-integer" if abs(exact) >= 2**53 else None
    )
    assert judge(f'{{"jsonrpc":"2.0","id":{token},"method":"ping"}}'.encode()).problem == rule
    code = judge(f'{{"jsonrpc":"2.0","id":1,"error":{{"code":{token},"message":"m"}}}}'.encode()).code
    assert code == (exact if rule is None else None)


@given(raw=st.binary(max_size=64))
def test_not_utf8_is_invalid_and_checked_by_nothing_else(raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError:
        assert judge(raw) == Envelope("invalid", problem="framing/invalid-utf8")
    else:
        assert judge(raw).problem != "framing/invalid-utf8"


def test_a_frame_above_the_limit_is_not_judged() -> None:
    raw = request(params={"text": "x" * MAX_RECORDER_JUDGED_BYTES})
    assert judge(raw) == judge_exactly(raw) == UNJUDGED
    assert judge(raw, limit=len(raw)) == Envelope("request", b"1", "x")
    assert judge(raw, limit=len(raw) - 1) == UNJUDGED


def test_a_frame_with_too_many_values_is_not_judged() -> None:
    def of(count: int, value: str) -> bytes:
        return b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"of":[' + b",".join([value.encode()] * count) + b"]}}"

    few, many = (
        MAX_STRUCTURAL_CHARS // 2 - 5,
        MAX_STRUCTURAL_CHARS // 2 - 4,
    )  # 11 structural characters around them; for each value, `[` and `,`
    assert judge(of(few, "[]"), limit=2**30) == Envelope("request", b"1", "x")
    assert judge(of(many, "[]"), limit=2**30) == judge_exactly(of(many, "[]"), limit=2**30) == UNJUDGED


@pytest.mark.parametrize("text", ["[[[[{{{{::::", '{\\"a\\":[1,2,3]},\\\\', '\\\\\\"[{,:'])
def test_what_looks_like_values_in_a_string_is_none(text: str) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"%b"}}' % (
        text.encode() * (MAX_STRUCTURAL_CHARS // 3)
    )
    assert judge(raw, limit=2**30) == Envelope("request", b"1", "x")


def test_a_frame_of_the_limit_is_judged() -> None:
    padding = MAX_RECORDER_JUDGED_BYTES - len(request(params={"text": ""}))
    assert judge(request(params={"text": "x" * padding})).kind == "request"
    assert judge(request(params={"text": "x" * (padding + 1)})).kind == "unjudged"


def test_behind_a_thousand_values_on_a_line_nobody_looks() -> None:
    assert judge(b"1 " * 999 + b"x").problem == "framing/stdin-not-json"
    assert judge(b"1 " * 1_000 + b"x").problem == "framing/several-messages-on-a-line"


@pytest.mark.parametrize("levels", [513, 1_024, 1_100, 100_000])
def test_deep_nesting_is_not_judged_however_deep(levels: int) -> None:
    too_deep = Envelope("unjudged", problem="framing/too-deep")
    assert judge(b"[" * levels + b"]" * levels) == too_deep
    assert judge(b'{"a":' * levels + b"1" + b"}" * levels, limit=2**30) == too_deep
    assert judge(b'{"jsonrpc":"2.0","id":1,"result":{"a":' + b"[" * levels) == too_deep


def test_the_stack_of_the_caller_never_makes_it_raise() -> None:
    raw = b'{"a":' * 510 + b"1" + b"}" * 510
    outcomes = []

    def descend(levels: int) -> None:
        outcomes.append(judge(raw).problem) if levels == 0 else descend(levels - 1)

    for levels in (1, 300, sys.getrecursionlimit() // 2):
        thread = threading.Thread(target=descend, args=(levels,))
        thread.start()
        thread.join()
    assert outcomes == ["framing/too-deep"] * 3


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_the_largest_hostile_frame_takes_no_noticeable_time() -> None:
    for name, made in HOSTILE.items():
        raw = made(MAX_RECORDER_JUDGED_BYTES - 100)
        began = time.thread_time()
        judge(raw)
        assert time.thread_time() - began < 1.5, f"{name} takes ten times what the slowest takes"


def count_calls(judging: Callable[[bytes], object], raw: bytes) -> int:
    """The number of functions, Python and built-in, that one verdict calls."""
    calls = 0

    def profile(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        judging(raw)
    finally:
        sys.setprofile(None)
    return calls


def test_twice_the_bytes_take_at_most_twice_the_calls() -> None:
    for name, made in HOSTILE.items():
        small, large = (count_calls(judge, made(size)) for size in (8_000, 16_000))
        assert large <= 2 * small + 200, name
