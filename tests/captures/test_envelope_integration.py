"""The verdict on one frame: every rule it can name, both paths, and whatever bytes there are.

The cases are in `tests/corpus/envelope/frames.ndjson`, one a line: `raw` (or `raw_b64` where it is not UTF-8), `dir`,
`unit` (`line` where absent), `whole` (true where absent), and in `expect` the members of the envelope, `id` as its
token. Large inputs are made here.
"""

import base64
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures import early
from captures.early import _judge_flawless
from captures.envelope import RECORD_LIMIT, _judge_at_once, judge, judge_exactly, judge_in_passing
from captures.frame import UNJUDGED, Direction, Envelope, Unit
from captures.limits import MOST_VALUES

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "envelope" / "frames.ndjson"

# Every rule that one frame can be shown to break, in the order of the catalogue.
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

NO_JSON: Final = frozenset(
    {
        "framing/invalid-utf8",
        "framing/stdout-not-json",
        "framing/stdin-not-json",
        "framing/lsp-header",
        "framing/several-messages-on-a-line",
        "framing/blank-line",
        "framing/truncated-message",
        "framing/non-json-number",
        "sse/data-not-json",
    }
)


class Case(NamedTuple):
    name: str
    raw: bytes
    direction: Direction
    unit: Unit
    whole: bool
    expect: Envelope

    def verdict(self, judging: Callable[..., Envelope]) -> Envelope:
        return judging(self.raw, self.direction, self.unit, whole=self.whole)


def read_case(line: str) -> Case:
    row = json.loads(line)
    expect = row["expect"]
    token = expect.pop("id", None)
    return Case(
        name=row["name"],
        raw=base64.b64decode(row["raw_b64"]) if "raw_b64" in row else row["raw"].encode(),
        direction=row["dir"],
        unit=row.get("unit", "line"),
        whole=row.get("whole", True),
        expect=Envelope(
            **{**expect, "id": None if token is None else token.encode(), "omitted": tuple(expect.get("omitted", ()))}
        ),
    )


CASES: Final = [read_case(line) for line in CORPUS.read_text("utf-8").split("\n") if line]
SOUND: Final = [
    case.raw for case in CASES if case.expect.problem is None and case.expect.kind not in ("invalid", "batch")
]


def request(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x"} | members, separators=(",", ":")).encode()


# The first draw of text builds tables of Unicode, which takes seconds on a busy machine.
patiently: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


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


# --- all paths say the same -------------------------------------------------------------------------------------------

FAST: Final = (_judge_at_once, _judge_flawless)


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
    assert _judge_at_once(escaped_and_spaced) == judge_exactly(escaped_and_spaced) == Envelope("response", b"7")


def test_the_fast_path_leaves_every_flawed_frame_of_the_table_to_the_exact_one() -> None:
    for path in FAST:
        assert [case.name for case in CASES if case.expect.problem and case.whole and path(case.raw)] == []


def test_both_paths_agree_on_every_frame_that_one_byte_makes_of_a_sound_one() -> None:
    byte_values = b'"\\{}[]:,.-0129eEintrfu \x00\n\r\x1f\xc3\xff'
    for raw in (raw for raw in SOUND if len(raw) < 120):
        for at, byte in product(range(len(raw)), byte_values):
            for changed in (raw[:at] + raw[at + 1 :], raw[:at] + bytes([byte]) + raw[at + 1 :]):
                for path in FAST:
                    at_once = path(changed)
                    assert at_once is None or at_once == judge_exactly(changed), changed


JSON_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "method", "error", "a", "é"]), inner, max_size=3)
    ),
    max_leaves=6,
)
TOKENS: Final = st.one_of(
    JSON_VALUES.map(json.dumps),
    JSON_VALUES.map(lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))),
    st.sampled_from(["0", "-0", "1", '"1"', "1.0", "1e2", "1.5", "2.0", "1e400", "NaN", "null", "{}", "[]", '""']),
    st.sampled_from(["9007199254740991", "9007199254740992", "18446744073709551616", '"\\ud800"', '"\\ud83d\\ude00"']),
    st.sampled_from(['"2.0"', '"2\\u002e0"', '"ping"', '"\\u0070ing"', '"rpc.x"', '"notifications/x"']),
    st.just('{"code":1,"message":"m"}'),
)
NAMES: Final = st.sampled_from(
    [
        '"jsonrpc"',
        '"id"',
        '"\\u0069d"',
        '"i\\u0064"',
        '"method"',
        '"met\\u0068od"',
        '"params"',
        '"result"',
        '"error"',
        '"x"',
    ]
)
GLUE: Final = st.sampled_from(["", "", "", " ", "\t", "\r\n"])


@st.composite
def objects_like_messages(draw: st.DrawFn) -> bytes:
    """The text of an object whose members are mostly those of a message, in any spelling and number."""
    members = [(draw(NAMES), draw(TOKENS)) for _ in range(draw(st.integers(0, 5)))]
    if draw(st.booleans()):
        members = [('"jsonrpc"', '"2.0"'), *members]
    between = draw(GLUE)
    text = f"{between},{between}".join(f"{name}{between}:{draw(GLUE)}{token}" for name, token in members)
    return f"{draw(GLUE)}{{{text}}}{draw(GLUE)}".encode()


@patiently
@given(raw=objects_like_messages(), whole=st.booleans())
def test_both_paths_agree_on_objects_like_messages(raw: bytes, whole: bool) -> None:
    assert judge(raw, whole=whole) == judge_exactly(raw, whole=whole)
    assert early.judge_in_passing(raw, whole=whole) == judge_in_passing(raw, whole=whole)


@st.composite
def sound_messages(draw: st.DrawFn) -> dict[str, Any]:
    """A message without a flaw, members in any order."""
    ident = draw(st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=60))
    method = draw(st.text(min_size=1, max_size=60).filter(lambda name: not name.startswith(("rpc.", "notifications/"))))
    value = draw(st.dictionaries(st.text(max_size=6), JSON_VALUES, max_size=3))
    error = {"code": draw(st.integers(-(2**53) + 1, 2**53 - 1)), "message": draw(st.text(max_size=20)), "data": value}
    body: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"id": ident, "method": method, "params": value},
                {"id": ident, "method": method},
                {"method": method, "params": value},
                {"method": "notifications/" + method},
                {"id": ident, "result": value},
                {"id": ident, "error": error},
                {"error": error},
            ]
        )
    )
    members: list[tuple[str, Any]] = [("jsonrpc", "2.0"), *body.items()]
    return dict(draw(st.permutations(members)))


@patiently
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
    # An id of 60 escaped characters can be too long.
    assert verdict.omitted == (() if len(json.dumps(message.get("id"), ensure_ascii=ascii_only)) <= 256 else ("id",))
    if "id" not in verdict.omitted:
        assert (None if verdict.id is None else json.loads(verdict.id)) == message.get("id")
        assert verdict.id is None or verdict.id in text.encode()


# --- whatever bytes there are -----------------------------------------------------------------------------------------


@patiently
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
    assert early.judge_in_passing(raw, direction, whole=whole) == judge_in_passing(raw, direction, whole=whole)
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


@patiently
@given(token=st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,5})?", fullmatch=True))
def test_an_id_is_kept_exactly_where_orjson_reads_it(token: str) -> None:
    raw = f'{{"jsonrpc":"2.0","id":{token},"method":"ping"}}'.encode()
    try:
        orjson.loads(token)
    except orjson.JSONDecodeError:
        assert judge(raw).omitted == ("id",)
    else:
        assert judge(raw).id == token.encode()


@patiently
@given(token=st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?", fullmatch=True))
def test_a_number_is_an_integer_by_its_exact_value(token: str) -> None:
    exact = Fraction(token)
    rule = (
        "id/not-string-or-integer" if exact.denominator != 1 else "id/unsafe-integer" if abs(exact) >= 2**53 else None
    )
    assert judge(f'{{"jsonrpc":"2.0","id":{token},"method":"ping"}}'.encode()).problem == rule
    code = judge(f'{{"jsonrpc":"2.0","id":1,"error":{{"code":{token},"message":"m"}}}}'.encode()).code
    assert code == (exact if rule is None else None)


@patiently
@given(raw=st.binary(max_size=64))
def test_not_utf8_is_invalid_and_checked_by_nothing_else(raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError:
        assert judge(raw) == Envelope("invalid", problem="framing/invalid-utf8")
    else:
        assert judge(raw).problem != "framing/invalid-utf8"


def test_a_frame_above_the_limit_is_not_judged() -> None:
    raw = request(params={"text": "x" * RECORD_LIMIT})
    assert judge(raw) == judge_exactly(raw) == UNJUDGED
    assert judge(raw, limit=len(raw)) == Envelope("request", b"1", "x")
    assert judge(raw, limit=len(raw) - 1) == UNJUDGED


def test_a_frame_with_too_many_values_is_not_judged() -> None:
    def of(count: int, value: str) -> bytes:
        return b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"of":[' + b",".join([value.encode()] * count) + b"]}}"

    few, many = MOST_VALUES // 2 - 5, MOST_VALUES // 2 - 4  # 11 signs beside them; of each value `[` and `,`
    assert judge(of(few, "[]"), limit=2**30) == Envelope("request", b"1", "x")
    assert judge(of(many, "[]"), limit=2**30) == judge_exactly(of(many, "[]"), limit=2**30) == UNJUDGED


@pytest.mark.parametrize("text", ["[[[[{{{{::::", '{\\"a\\":[1,2,3]},\\\\', '\\\\\\"[{,:'])
def test_what_looks_like_values_in_a_string_is_none(text: str) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"%b"}}' % (text.encode() * (MOST_VALUES // 3))
    assert judge(raw, limit=2**30) == Envelope("request", b"1", "x")


def test_a_frame_of_the_limit_is_judged() -> None:
    padding = RECORD_LIMIT - len(request(params={"text": ""}))
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


def fill(piece: bytes, size: int) -> bytes:
    return piece * (size // len(piece))


# What each does to a parser that recurses, backtracks, counts or copies once per token.
HOSTILE: Final[dict[str, Callable[[int], bytes]]] = {
    "opened arrays": lambda size: fill(b"[", size),
    "opened objects": lambda size: fill(b'{"a":', size),
    "opened arrays on lines": lambda size: fill(b"[\n", size),
    "many arrays": lambda size: b"[" + fill(b"[],", size) + b"1]",
    "many deep arrays": lambda size: b"[" + fill(b"[" * 400 + b"]" * 400 + b",", size) + b"1]",
    "many numbers": lambda size: b"[" + fill(b"1,", size) + b"1]",
    "many members": lambda size: b"{" + fill(b'"a":1,', size) + b'"a":1}',
    "many ids": lambda size: b"{" + fill(b'"id":1,', size) + b'"id":1}',
    "many codes": lambda size: b'{"error":{' + fill(b'"code":1,', size) + b'"code":1}}',
    "many values": lambda size: fill(b"1 ", size),
    "many objects on a line": lambda size: fill(b"{}", size),
    "quotes": lambda size: fill(b'"', size),
    "escaped quotes, unclosed": lambda size: b'"' + fill(b'\\"', size),
    "backslashes": lambda size: b'"' + fill(b"\\", size),
    "halves of pairs": lambda size: b'["' + fill(b"\\ud83d", size) + b'"]',
    "whole pairs": lambda size: b'["' + fill(b"\\ud83d\\ude00", size) + b'"]',
    "brackets in strings": lambda size: b"[" + fill(b'"[",', size) + b"1]",
    "spaces": lambda size: fill(b" ", size) + b"x",
    "newlines": lambda size: fill(b"\n", size) + b"x",
    "a long header": lambda size: b"content-length:" + fill(b"1", size) + b"x",
    "digits": lambda size: b'{"jsonrpc":"2.0","method":"x","id":' + fill(b"9", size) + b"}",
    "zeros behind the point": lambda size: b'{"jsonrpc":"2.0","method":"x","id":0.' + fill(b"0", size) + b"1}",
    "zeros of an exponent": lambda size: b'{"jsonrpc":"2.0","method":"x","id":1e' + fill(b"0", size) + b"1}",
    "nines of an exponent": lambda size: b'{"jsonrpc":"2.0","method":"x","id":1e-' + fill(b"9", size) + b"}",
    "colours": lambda size: fill(b"\x1b[2K", size),
    "not utf-8": lambda size: fill(b"a", size) + b"\xff",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_largest_hostile_frame_takes_no_noticeable_time(name: str) -> None:
    raw = HOSTILE[name](RECORD_LIMIT - 100)
    began = time.process_time()
    judge(raw)
    assert time.process_time() - began < 1.5, "ten times what the slowest takes"


def count_calls(judging: Callable[[bytes], object], raw: bytes) -> int:
    """How many functions, ours and built in, one verdict calls."""
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


@pytest.mark.parametrize("name", HOSTILE)
def test_twice_the_bytes_take_at_most_twice_the_calls(name: str) -> None:
    small, large = (count_calls(judge, HOSTILE[name](size)) for size in (8_000, 16_000))
    assert large <= 2 * small + 200


# --- what others say --------------------------------------------------------------------------------------------------

NODE: Final = shutil.which("node")
NODE_READS_JSON: Final = """
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const parse = (hex) => JSON.parse(strict.decode(Buffer.from(hex, "hex")));
const reads = (hex) => { try { parse(hex); return "1"; } catch { return "0"; } };
const frames = require("fs").readFileSync(0, "latin1").split("\\n");
process.stdout.write(frames.map(reads).join(""));
"""


def texts_near_json() -> Iterator[bytes]:
    """The table's frames and thousands that differ from them in one to three places; always the same ones."""
    raws = [case.raw for case in CASES if case.whole and len(case.raw) < 300 and case.expect.problem != "framing/bom"]
    yield from raws
    pieces = [b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"1", b"-", b".", b"e", b" ", b"\n", b"\x0b"]
    pieces += [
        b"\x7f",
        b"\x1f",
        b"\xe2\x80\xa8",
        b"\xff",
        b"true",
        b"null",
        b"nul",
        b"\\u",
        b"\\ud8",
        b"\\/",
        b"{}",
        b'""',
    ]
    choices = random.Random(20260728)
    for raw in raws:
        for _ in range(40):
            changed = raw
            for _ in range(choices.randint(1, 3)):
                at = choices.randint(0, len(changed))
                changed = changed[:at] + choices.choice(pieces) + changed[at + choices.randint(0, 2) :]
            yield changed


@pytest.mark.skipif(NODE is None, reason="node is not installed: its JSON.parse is the other opinion")
def test_what_is_no_json_here_is_no_json_for_node() -> None:
    frames = [raw for raw in dict.fromkeys(texts_near_json()) if judge(raw).kind != "unjudged"]
    hexadecimal = "\n".join(raw.hex() for raw in frames).encode()
    told = subprocess.run([str(NODE), "-e", NODE_READS_JSON], input=hexadecimal, stdout=subprocess.PIPE, check=True)
    ours = "".join("0" if judge(raw).problem in NO_JSON else "1" for raw in frames)
    theirs = told.stdout.decode()
    assert len(frames) > 5_000
    assert [raw for raw, we, they in zip(frames, ours, theirs, strict=True) if we != they] == []
