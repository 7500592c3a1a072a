import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.assembly import Assembly
from analysis.conversation.call import Call, MessageContext, context_of
from analysis.conversation.client_ids import ClientIds
from analysis.conversation.message import Id, Request, Response, id_of, messages
from analysis.conversation.session import Session
from analysis.filter import (
    KEYS,
    MAX_FILTER_CHARS,
    MAX_FILTER_DEPTH,
    Facts,
    FilterError,
    facts_of,
    facts_of_batch,
    parse,
)
from captures.envelope import judge
from captures.frame import Frame
from captures.verdict import UNJUDGED, Direction

MS = 1_000_000
SESSION = Session(3, "stdio", 0)

NAMES = st.text(st.sampled_from("ab/é*?"), max_size=6)
FACTS = st.builds(
    Facts,
    method=st.none() | NAMES,
    name=st.none() | NAMES,
    id=st.none() | st.builds(id_of, st.none() | st.booleans() | st.integers(-9, 9) | NAMES | st.just([])),
    dir=st.sampled_from([None, "c2s", "s2c"]),
    kind=st.sampled_from([None, "request", "response", "error", "notification", "batch", "invalid", "unjudged"]),
    is_batched=st.booleans(),
    latency_ns=st.none() | st.integers(0, 1 << 63),
    size=st.none() | st.integers(0, 1 << 40),
    code=st.none() | st.integers(),
    is_error=st.booleans(),
    is_answered=st.booleans(),
    problem=st.none() | NAMES,
    rules=st.lists(NAMES, max_size=3).map(tuple),
    level=st.sampled_from([None, "note", "warning", "error", "fatal"]),
    session=st.none() | st.integers(),
    client_ids=st.builds(ClientIds, turn=st.none() | NAMES, session=st.none() | NAMES, trace=st.none() | NAMES),
    exchange=st.none() | st.integers(),
    frames=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    raw=st.binary(max_size=20),
)
NAME_KEYS = ("method", "name", "rule", "problem", "id", "turn", "client_session", "trace")
OPERATORS = (":", "=", ">", ">=", "<", "<=")
TERMS = st.sampled_from(
    [
        *(f"{key}{operator}{value}" for key in ("size", "latency") for operator in OPERATORS for value in ("0", "1.5")),
        *(f"{key}{operator}3" for key in ("code", "session", "exchange", "frame") for operator in OPERATORS),
        *("frame:3..5", "frame=0..0", "frame:7..2"),
        *(f"level{operator}warning" for operator in OPERATORS),
        *(f"{key}{value}" for key in NAME_KEYS for value in (":a*", ":?b", '="*"')),
        *(f"has:{word}" for word in ("id", "answer", "error", "problem", "finding")),
        *(f"kind:{word}" for word in ("request", "error", "batch", "invalid")),
        *("dir:c2s", "dir=s2c", "id:1", "id:null", "id:-0.0", "id:1e2", "a", '"é"', r'"\"\\"', "-"),
    ]
)
EXPRESSIONS = st.recursive(
    TERMS,
    lambda inner: (
        st.tuples(inner, st.sampled_from([" ", " and ", " or ", "  AND\t", "\nOr "]), inner).map("".join)
        | inner.map("not {}".format)
        | inner.map("({})".format)
    ),
    max_leaves=12,
)


def selects(text: str, **facts: Any) -> bool:
    return parse(text).matches(Facts(**facts))


# ---- the meaning of terms


@pytest.mark.parametrize(
    ("text", "method", "wanted"),
    [
        ("method:tools/call", "tools/call", True),
        ("method=tools/call", "tools/call", True),
        ("method:tools/call", "tools/calls", False),
        ("method:tools/call", "Tools/call", False),
        ("method:tools/*", "tools/", True),
        ("method:tools/*", "tools", False),
        ("method:*", "", True),
        ("method:*/list", "tools/list", True),
        ("method:*/list", "tools/lists", False),
        ("method:*o?s/*l", "tools/call", True),
        ("method:t*s/c*l*", "tools/call", True),
        ("method:?", "ab", False),
        ("method:?", "\n", True),
        ("method:[a-z]", "b", False),
        ("method:.", "a", False),
        (r"method:\?", "\\a", True),
        ('method:"*"', "*", True),
        ('method:"*"', "a", False),
        (r'method:"\"a b\\"', '"a b\\', True),
        ("method:*", None, False),
        ("not method:*", None, True),
    ],
)
def test_names_are_patterns_or_in_quotes_exact(text: str, method: str | None, wanted: bool) -> None:
    assert selects(text, method=method) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("turn:turn-1", True),
        ("turn:turn-?", True),
        ("turn:session", False),
        ("client_session:session", True),
        ("trace:4bf9*", True),
        ("not trace:4bf9*", False),
    ],
)
def test_what_the_client_says_that_a_call_belongs_to(text: str, wanted: bool) -> None:
    assert selects(text, client_ids=ClientIds("Codex", "turn-1", "call", "session", "4bf92f")) is wanted
    assert selects(text) is text.startswith("not")


def fits(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name, computed with a table of all prefixes of both."""
    row = [True, *(pattern[:end].strip("*") == "" for end in range(1, len(pattern) + 1))]
    for char in name:
        below = [False]
        for at, wild in enumerate(pattern):
            below.append(below[at] or row[at + 1] if wild == "*" else row[at] and wild in ("?", char))
        row = below
    return row[-1]


@given(st.text(st.sampled_from("ab.*?"), min_size=1, max_size=8), st.text(st.sampled_from("ab.\n"), max_size=10))
def test_patterns_fit_what_their_definition_says(pattern: str, name: str) -> None:
    assert selects(f"name:{pattern}", name=name) is fits(pattern, name)


def test_a_pattern_of_many_stars_is_no_trap() -> None:
    assert not selects("name:" + "*a" * 400 + "*b", name="a" * 100_000)
    assert selects("name:" + "*a" * 400 + "*b", name="a" * 100_000 + "b")


@pytest.mark.parametrize(
    ("text", "id_", "wanted"),
    [
        ("id:7", 7, True),
        ("id:7", "7", False),
        ("id:7.0", 7, True),
        ('id:"7"', "7", True),
        ('id:"7"', 7, False),
        ("id:9007199254740993", 9007199254740993, True),
        ("id:9007199254740993", 9007199254740992, False),
        ("id:null", None, True),
        ("id:null", "null", False),
        ("id:true", True, True),
        ("id:07", "07", True),
        ("id:req-1", "req-1", True),
        ("id:req-*", "req-1", True),
        ("id:1*", 17, True),
        ('id:"1*"', "17", False),
        ("id:*", None, False),
        ("id:*", [], False),
        ("id:" + "x" * 300, "x" * 300, True),
        ("id:" + "x" * 300, "x" * 301, False),
    ],
)
def test_an_id_is_written_as_json_would(text: str, id_: object, wanted: bool) -> None:
    assert selects(text, id=id_of(id_)) is wanted


@pytest.mark.parametrize(
    ("text", "fact", "value", "wanted"),
    [
        ("latency>100", "latency_ns", 100 * MS, False),
        ("latency>100", "latency_ns", 100 * MS + 1, True),
        ("latency>=100ms", "latency_ns", 100 * MS, True),
        ("latency<1.5s", "latency_ns", 1500 * MS - 1, True),
        ("latency<1.5s", "latency_ns", 1500 * MS, False),
        ("latency<=3us", "latency_ns", 3000, True),
        ("latency:3ns", "latency_ns", 3, True),
        ("latency=3", "latency_ns", 3 * MS, True),
        ("latency>0.5ns", "latency_ns", 0, False),
        ("latency>0.5ns", "latency_ns", 1, True),
        ("latency<0.5ns", "latency_ns", 0, True),
        ("latency<0.0011ms", "latency_ns", 1100, False),
        ("size>10k", "size", 10 * 1024, False),
        ("size>10k", "size", 10 * 1024 + 1, True),
        ("size<=1.5M", "size", 3 << 19, True),
        ("size:512", "size", 512, True),
        ("code:-32602", "code", -32602, True),
        ("code<-32000", "code", -32602, True),
        ("code:1", "code", 10**400, False),
        ("session:3", "session", 3, True),
        ("exchange>=12", "exchange", 11, False),
        ("frame:38", "frames", (38, 38), True),
        ("frame:38", "frames", (37, 37), False),
        ("frame=38", "frames", (36, 40), True),
        ("frame:30..40", "frames", (40, 40), True),
        ("frame:30..40", "frames", (41, 41), False),
        ("frame:30..40", "frames", (25, 30), True),
        ("frame>38", "frames", (38, 39), False),
        ("frame>=38", "frames", (38, 38), True),
        ("level:warning", "level", "warning", True),
        ("level:warning", "level", "error", False),
        ("level>=warning", "level", "error", True),
        ("level>=warning", "level", "note", False),
        ("level>=note", "level", "fatal", False),
    ],
)
def test_numbers_and_levels_compare(text: str, fact: str, value: object, wanted: bool) -> None:
    assert selects(text, **{fact: value}) is wanted
    assert not selects(text)


@pytest.mark.parametrize(
    ("text", "facts", "wanted"),
    [
        ("dir:c2s", {"dir": "c2s"}, True),
        ("dir:c2s", {"dir": "s2c"}, False),
        ("kind:error", {"kind": "error"}, True),
        ("kind:response", {"kind": "error"}, False),
        ("kind:batch", {"kind": "batch"}, True),
        ("kind:batch", {"kind": "request", "is_batched": True}, True),
        ("kind:request", {"kind": "request", "is_batched": True}, True),
        ("kind:batch", {"kind": "request"}, False),
        ("has:id", {"id": id_of(None)}, True),
        ("has:id", {}, False),
        ("has:error", {"is_error": True}, True),
        ("has:failure", {"is_failure": True}, True),
        ("has:failure", {"is_failure": False, "is_error": True}, False),
        ("has:waiting", {"is_waiting": True}, True),
        ("has:waiting", {"is_failure": True}, False),
        ("has:answer", {"is_answered": True}, True),
        ("has:problem", {"problem": "framing/bom"}, True),
        ("has:finding", {"rules": ("id/reused",)}, True),
        ("has:finding", {"problem": "framing/bom"}, False),
        ("has:mark", {"is_marked": True}, True),
        ("rule:lifecycle/*", {"rules": ("id/reused", "lifecycle/early")}, True),
        ("rule:lifecycle/*", {"rules": ("id/reused",)}, False),
        ("problem:framing/*", {"problem": "framing/bom"}, True),
    ],
)
def test_words_mean_what_they_say(text: str, facts: dict[str, Any], wanted: bool) -> None:
    assert selects(text, **facts) is wanted


@pytest.mark.parametrize(
    ("text", "raw", "wanted"),
    [
        ("secret", b'{"a":"secret"}', True),
        ("Secret", b'{"a":"secret"}', False),
        (r'"\"a\":\"s"', b'{"a":"secret"}', True),
        ('"é"', '{"a":"é"}'.encode(), True),
        ('"é"', rb'{"a":"\u00e9"}', False),
        ("/x", b"/x", True),
        ("-32602", b"-32602", True),
        (r"\n", rb"a\nb", True),
        ('"and"', b"and", True),
        ('"method"', b"method", True),
        ('"a b"', b"b a", False),
        ("a b", b"b a", True),
    ],
)
def test_text_is_looked_for_in_the_bytes_that_crossed(text: str, raw: bytes, wanted: bool) -> None:
    assert selects(text, raw=raw) is wanted


# ---- combining terms

LETTERS = "abc"
Tree = tuple[str, Callable[[str], bool]]


def letter(char: str) -> Tree:
    return char, lambda raw: char in raw


def joined(left: Tree, join: str, right: Tree) -> Tree:
    """Two terms in parentheses, so that only `join` matters."""
    if join == "or":
        return f"({left[0]}) or ({right[0]})", lambda raw: left[1](raw) or right[1](raw)
    return f"({left[0]}) {join} ({right[0]})", lambda raw: left[1](raw) and right[1](raw)


TREES: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(LETTERS).map(letter),
    lambda inner: (
        st.builds(joined, inner, st.sampled_from(["and", "or", ""]), inner)
        | inner.map(lambda tree: (f"not ({tree[0]})", lambda raw: not tree[1](raw)))
    ),
    max_leaves=10,
)


@given(TREES, st.text(st.sampled_from(LETTERS), max_size=3))
def test_an_expression_means_what_its_tree_means(tree: Tree, raw: str) -> None:
    parsed = parse(tree[0])
    wanted = tree[1](raw)
    assert parsed.matches(Facts(raw=raw.encode())) is wanted
    # The same holds for its text, which has no superfluous parentheses.
    assert parse(str(parsed)).matches(Facts(raw=raw.encode())) is wanted


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a and b or c", "a b or c"),
        ("(a and b) or c", "a b or c"),
        ("a and (b or c)", "a (b or c)"),
        ("not (a) b", "not a b"),
        ("not (a b)", "not (a b)"),
        ("not (not a)", "not not a"),
        ("((a) or (b or c))", "a or b or c"),
        ("NOT a AND b Or c", "not a b or c"),
        ("(a)(b)not(c)", "a b not c"),
        ("\t a\n b\u00a0", "a b"),
        ('method="a b" code=5 latency>=5', 'method:"a b" code:5 latency>=5'),
    ],
)
def test_not_binds_closer_than_and_and_that_closer_than_or(text: str, written: str) -> None:
    assert str(parse(text)) == written


@given(EXPRESSIONS, FACTS)
def test_printed_and_parsed_again_it_is_the_same(text: str, facts: Facts) -> None:
    once = parse(text)
    again = parse(str(once))
    assert again == once
    assert again.keys.keys() == once.keys.keys()
    assert again.matches(facts) is once.matches(facts)


@given(EXPRESSIONS, EXPRESSIONS, FACTS)
def test_laws_of_de_morgan_hold_on_any_facts(left: str, right: str, facts: Facts) -> None:
    def matches(text: str) -> bool:
        return parse(text).matches(facts)

    assert matches(f"not (({left}) ({right}))") is matches(f"not ({left}) or not ({right})")
    assert matches(f"not (({left}) or ({right}))") is matches(f"not ({left}) and not ({right})")
    assert matches(f"not not ({left})") is matches(left)


# ---- invalid expressions


@pytest.mark.parametrize(
    ("text", "at", "wrong"),
    [
        ("", 0, "expected a term"),
        ("  ", 2, "expected a term"),
        ("()", 1, "expected a term"),
        ("not", 3, "expected a term"),
        ("a or", 4, "expected a term"),
        ("and a", 0, "expected a term"),
        ("a and or b", 6, "expected a term"),
        ("(a", 2, "expected `)`"),
        ("a) b", 1, "no `(` is open"),
        ('"a', 2, 'expected `"`'),
        ('"a\\', 2, "the only escapes"),
        (r'"a\n"', 2, "the only escapes"),
        ('name:"a', 7, 'expected `"`'),
        ('""', 1, "expected text"),
        ('a"b"', 1, "expected a space"),
        ('"a"b', 3, "expected a space"),
        ('name:a"b"', 6, "expected a space"),
        ("metod:x", 0, "`metod` is not a key; did you mean `method`? Quotes make it text"),
        ("http://x", 0, "; quotes make it text"),
        ("zzz:x", 0, "keys are method, name,"),
        ("a method", 8, "expected an operator right after `method`"),
        ("latency > 5", 7, "expected an operator right after `latency`"),
        ("method:", 7, "expected a value"),
        ("method: x", 7, "expected a value"),
        ("method==x", 7, "expected a value"),
        ("kind!=error", 4, "expected `not` before the term"),
        ("method>x", 6, "expected `:`"),
        ("has<id", 3, "expected `:`"),
        ("dir:left", 4, "expected c2s or s2c"),
        ("kind:Error", 5, "request, response, error, notification, invalid, unjudged or batch"),
        ("has:x", 4, "expected id, answer, error, failure, waiting, problem, finding or mark"),
        ("level>=bad", 7, "expected note, warning or error"),
        ("latency>fast", 8, "expected a time such as 100ms"),
        ("latency>1.5h", 8, "expected a time"),
        ("latency>٣", 8, "expected a time"),
        ('latency>"1"', 8, "expected a time"),
        ("size>1G", 5, "expected a size"),
        ("size>" + "9" * 16, 5, "expected a size"),
        ("code:1.0", 5, "expected an error code"),
        ("session:one", 8, "expected the number of a session"),
        ("a && b", 2, "`and`, `or` and `not` join terms"),
        ("!a", 0, "`and`, `or` and `not` join terms"),
        ("get_*", 0, "expected a key before a pattern"),
        ("a \udcff", 2, "expected UTF-8"),
    ],
)
def test_an_error_points_at_the_place(text: str, at: int, wrong: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert (caught.value.at, caught.value.text) == (at, text)
    assert wrong in caught.value.problem


@pytest.mark.parametrize(
    ("text", "drawing"),
    [
        ("a dir:x", ["  a dir:x", "        ^"]),
        ("日本 dir:x", ["  日本 dir:x", "           ^"]),
        ("e\u0301\t\x1b\n dir:x", ["  e···· dir:x", "            ^"]),
        ("(a", ["  (a", "    ^"]),
        ("a " * 100 + "dir:x" + " b" * 100, None),
    ],
)
def test_an_error_is_three_lines_with_a_caret_below_the_place(text: str, drawing: list[str] | None) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    wrong, *drawn = str(caught.value).split("\n")
    assert wrong == caught.value.problem
    if drawing is not None:
        assert drawn == drawing
    else:
        assert max(map(len, drawn)) <= 80
        assert drawn[0][: len(drawn[1]) - 1].endswith("dir:")


# Pieces of expressions in random order give more kinds of errors than random characters.
PIECES = st.lists(
    st.sampled_from(
        [*KEYS, *':=<>!&|()"\\* \n', ">=", "and", "or", "not", "5", "ms", "a", "日", "c2s", "\udcff", "\u0301"]
    ),
    max_size=15,
).map("".join)


@given(st.text(st.characters(), max_size=40) | PIECES, FACTS)
def test_any_text_is_a_filter_or_an_error_that_points_into_it(text: str, facts: Facts) -> None:
    wrong: FilterError | None = None
    try:
        parsed = parse(text)
    except FilterError as error:
        wrong = error
    if wrong is not None:
        assert 0 <= wrong.at <= len(text)
        assert str(wrong).count("\n") == 2
    else:
        assert isinstance(parsed.matches(facts), bool)
        assert parse(str(parsed)) == parsed


def deep(opening: str, count: int, closing: str = "") -> str:
    return opening * count + "a" + closing * count


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("not ", ""), ("not (", ")"), ("(a or ", ")")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    levels = opening.count("(") + opening.count("not")
    for facts in (Facts(raw=b"a"), Facts()):
        assert isinstance(parse(deep(opening, MAX_FILTER_DEPTH // levels, closing)).matches(facts), bool)
    with pytest.raises(FilterError, match="inside each other"):
        parse(deep(opening, MAX_FILTER_DEPTH // levels + 1, closing))


def test_what_stands_side_by_side_is_not_deep() -> None:
    assert parse("not (a) " * (MAX_FILTER_DEPTH + 1)).matches(Facts())


def test_length_is_bounded() -> None:
    assert parse("a" * MAX_FILTER_CHARS).matches(Facts(raw=b"a" * MAX_FILTER_CHARS))
    with pytest.raises(FilterError, match="at most 4,096 characters"):
        parse("a" * (MAX_FILTER_CHARS + 1))
    with pytest.raises(FilterError, match="inside each other"):
        parse("(" * MAX_FILTER_CHARS)


# ---- what a filter depends on


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("rule:id/*", True),
        ("a or not (b level>note)", True),
        ("has:finding", True),
        ("has:id problem:x has:problem", False),
        ('"rule:id/x"', False),
    ],
)
def test_a_filter_says_whether_rules_must_run(text: str, needed: bool) -> None:
    assert parse(text).needs_findings is needed


def test_a_filter_says_what_it_asks() -> None:
    assert parse('has:id (latency>1 or not "x") latency<9').keys == {"has:id": 0, "latency": 8, "text": 25}


@given(FACTS)
def test_there_is_a_fact_for_every_key(facts: Facts) -> None:
    values = {"dir": "c2s", "kind": "batch", "has": "finding", "level": "note", "extension": "*"}
    for key in KEYS:
        assert isinstance(parse(f"{key}:{values.get(key, 1)}").matches(facts), bool)


PAGE = Path(__file__).parents[2] / "docs/filter.md"


def documented() -> dict[str, tuple[bool, list[str]]]:
    """The keys on the page: whether each can be compared, and its examples."""
    section = PAGE.read_text("utf-8").split("## Keys")[1].split("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \| (yes)? ?\| .* \| (.*) \|$", section, re.MULTILINE)
    return {name: (bool(compares), re.findall(r"`(.+?)`", examples)) for name, compares, examples in found}


def test_the_page_lists_every_key_and_no_other() -> None:
    assert {name: compares for name, (compares, _) in documented().items()} == {
        name: key.is_ordered for name, key in KEYS.items()
    }


def test_every_key_has_an_example_and_a_meaning_and_its_words_are_values() -> None:
    for name, key in KEYS.items():
        assert {used.partition(":")[0] for used in parse(key.example).keys} == {name}
        assert key.meaning, name
        for word in key.words:
            parse(f"{name}:{word}")


@pytest.mark.parametrize("name", KEYS)
def test_examples_of_the_page_ask_their_key(name: str) -> None:
    examples = documented()[name][1]
    assert examples
    for example in examples:
        assert {key.partition(":")[0] for key in parse(example).keys} == {name}


# ---- facts


def seen_in(body: object, direction: Direction = "c2s", **members: Any) -> MessageContext:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    frame = Frame(5, 9 * MS, direction, raw, judge(raw, direction), **members)
    return context_of(messages(frame)[0], SESSION)


CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "add", "arguments": {}}}
ERROR = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": "no"}}


def exchange_of(answer: object) -> tuple[MessageContext, MessageContext, Call]:
    """The context of a call, that of its response 3 ms later, and the call."""
    asked, answered = seen_in(CALL), seen_in(answer, "s2c")
    assert isinstance(asked.message, Request)
    assert isinstance(answered.message, Response)
    exchange = Call(asked.message, name="add", in_flight=1)
    exchange.stall_ns = 6 * MS - asked.message.t_ns
    exchange.answer(answered.message)
    exchange.ended_ns = 9 * MS
    return asked, context_of(answered.message, answered.session, exchange), exchange


def test_facts_of_a_request() -> None:
    context = seen_in(CALL, exchange=12)
    raw, facts = context.message.frames[0].raw, facts_of(context)
    assert (facts.method, facts.name, facts.id) == ("tools/call", "add", Id("number", "7"))
    assert (facts.dir, facts.kind, facts.index, facts.is_batched) == ("c2s", "request", None, False)
    assert (facts.size, facts.raw, facts.frames, facts.exchange) == (len(raw), raw, (5, 5), 12)
    assert (facts.session, facts.rules, facts.level, facts.is_marked) == (3, (), None, False)
    assert (facts.code, facts.problem, facts.latency_ns) == (None, None, None)
    assert not any((facts.is_error, facts.is_failure, facts.is_waiting, facts.is_answered))


def test_a_response_has_method_name_and_latency_of_its_exchange() -> None:
    _, answered, _ = exchange_of(ERROR)
    facts = facts_of(answered)
    assert (facts.method, facts.name, facts.latency_ns, facts.is_answered) == ("tools/call", "add", 3 * MS, True)
    assert (facts.id, facts.dir, facts.kind, facts.code) == (Id("number", "7"), "s2c", "error", -32602)
    assert facts.is_error
    assert facts.raw == json.dumps(ERROR).encode()


def test_a_request_has_the_latency_of_its_exchange_once_that_is_known() -> None:
    asked, _, exchange = exchange_of(ERROR)
    assert (facts_of(asked).latency_ns, facts_of(asked).is_answered) == (None, False)
    assert (facts_of(asked, exchange).latency_ns, facts_of(asked, exchange).is_answered) == (3 * MS, True)
    assert (facts_of(asked, exchange).kind, facts_of(asked, exchange).code) == ("request", None)


def test_a_response_that_fits_no_request_has_neither_method_nor_latency() -> None:
    facts = facts_of(seen_in(ERROR, "s2c"))
    assert (facts.method, facts.name, facts.latency_ns, facts.is_answered) == (None, None, None, False)


def test_session_is_that_of_the_fold_and_findings_are_given() -> None:
    facts = facts_of(seen_in(CALL)).add(rules=("id/reused",), level="error")
    assert (facts.session, facts.rules, facts.level) == (3, ("id/reused",), "error")


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("prompts/get", {"name": "greet"}, "greet"),
        ("resources/read", {"uri": "file:///a"}, "file:///a"),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "greet"}}, "greet"),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "file:///{x}"}}, "file:///{x}"),
        ("notifications/resources/updated", {"uri": "file:///a"}, "file:///a"),
        ("tools/call", {"name": 7, "ref": []}, None),
        ("tools/call", ["name"], None),
        ("ping", None, None),
    ],
)
def test_a_name_is_that_of_a_tool_or_prompt_or_a_uri(method: str, params: object, name: str | None) -> None:
    assert facts_of(seen_in({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).name == name


@pytest.mark.parametrize(
    ("body", "kind", "problem"),
    [
        ({"jsonrpc": "2.0", "method": "notifications/initialized"}, "notification", None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "response", None),
        (b"Loaded 5 tools", "invalid", "framing/stdout-not-json"),
        ({"id": 1, "result": {}}, "response", "jsonrpc/missing-version"),
        ([], "invalid", "batch/empty"),
    ],
)
def test_kind_and_problem_are_those_of_the_verdict(body: object, kind: str, problem: str | None) -> None:
    facts = facts_of(seen_in(body, "s2c"))
    assert (facts.kind, facts.problem) == (kind, problem)


def test_what_nobody_looked_into_is_unjudged_and_has_no_problem() -> None:
    frame = Frame(1, 1, "c2s", b"{}", UNJUDGED)
    facts = facts_of(context_of(messages(frame)[0], SESSION))
    assert (facts.kind, facts.problem) == ("unjudged", None)


@pytest.mark.parametrize(
    ("answer", "is_error"),
    [
        ({"result": {"content": [], "isError": True}}, True),
        ({"result": {"content": [], "isError": "true"}}, False),
        ({"error": None}, True),
        ({"error": None, "result": {}}, False),
        ({"error": {"code": "5"}}, True),
        ({"error": {"code": True}}, True),
    ],
)
def test_errors_are_those_of_json_rpc_and_those_of_tools(answer: dict[str, Any], is_error: bool) -> None:
    facts = facts_of(seen_in({"jsonrpc": "2.0", "id": 1, **answer}, "s2c"))
    assert facts.is_error is is_error
    assert facts.code is None


def test_messages_of_a_batch_have_kinds_of_their_own_and_the_bytes_of_all() -> None:
    raw = json.dumps([CALL, 5]).encode()
    frame = Frame(1, 1, "c2s", raw, judge(raw))
    call, five = (facts_of(context_of(message, SESSION)) for message in messages(frame))
    whole = facts_of_batch(frame)
    assert (call.kind, call.is_batched, call.problem, call.size) == ("request", True, None, len(raw))
    assert (five.kind, five.is_batched, five.problem) == ("invalid", True, "batch/item-not-object")
    assert (whole.kind, whole.is_batched, whole.problem) == ("batch", False, frame.verdict.problem)
    assert call.raw == five.raw == whole.raw == raw
    assert all(parse("kind:batch").matches(facts) for facts in (call, five, whole))


def assembled(*lines: bytes) -> list[Facts]:
    """The facts of messages assembled from lines."""
    frames = [Frame(number, 1, "s2c", line, judge(line, "s2c")) for number, line in enumerate(lines)]
    assembly = Assembly()
    return [facts_of(context_of(message, SESSION)) for frame in frames for message in assembly.feed(frame)]


def test_a_message_over_several_lines_is_their_bytes() -> None:
    (facts,) = assembled(b'{"jsonrpc":"2.0",', b'"id":1,"result":', b"{}}")
    assert (facts.kind, facts.raw, facts.is_batched) == ("response", b'{"jsonrpc":"2.0",\n"id":1,"result":\n{}}', False)
    assert facts.size == len(facts.raw) - 2
    assert facts.problem == "framing/stdout-not-json"


def test_messages_that_share_a_line_share_what_is_wrong_with_it() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{}} {"jsonrpc":"2.0","id":2,"result":{}}'
    for facts in assembled(line):
        assert (facts.kind, facts.is_batched, facts.raw) == ("response", True, line)
        assert facts.problem == "framing/several-messages-on-a-line"
    assert len(assembled(line)) == 2


def test_what_is_wrong_with_a_batch_is_told_of_the_batch() -> None:
    raw = b'\xef\xbb\xbf[{"jsonrpc":"2.0","id":1,"method":"ping"}]'
    frame = Frame(1, 1, "c2s", raw, judge(raw))
    assert facts_of_batch(frame).problem == "framing/bom"
    assert facts_of(context_of(messages(frame)[0], SESSION)).problem is None


@given(EXPRESSIONS, st.sampled_from([(CALL, "c2s"), (ERROR, "s2c"), (b"Loaded 5 tools", "s2c")]))
def test_what_is_kept_of_a_message_answers_as_the_message_did(text: str, said: tuple[object, Direction]) -> None:
    only, context = parse(text), seen_in(*said)
    kept = only.compute_facts(facts_of(context))
    assert kept.message is None
    assert only.matches(kept) is only.matches(facts_of(context))
    # Findings are added later.
    kept, asked = (facts.add(rules=("ab",), level="warning") for facts in (kept, facts_of(context)))
    assert only.matches(kept) is only.matches(asked)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "code", "name", "uri", "ref"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON.map(lambda body: json.dumps(body).encode()) | st.binary(max_size=30), EXPRESSIONS)
def test_any_message_can_be_asked(raw: bytes, text: str) -> None:
    frame = Frame(1, 1, "s2c", raw, judge(raw, "s2c"))
    matches = parse(text).matches
    for message in messages(frame):
        assert isinstance(matches(facts_of(context_of(message, SESSION))), bool)
    assert isinstance(matches(facts_of_batch(frame)), bool)
