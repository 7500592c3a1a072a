"""The keys of filter terms: which values each accepts, and the test that key, operator and value define.

Users cannot enter regular expressions: patterns have only `*` and `?`, and take time linear in the length of a name.
"""

import re
from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt
from typing import Any, Final, NamedTuple, Self, TypeAlias

from analysis.conversation.message import id_of, id_of_token
from analysis.filter.facts import Facts
from analysis.filter.text_search import TextSearch
from analysis.protocol.error_codes import INVALID_PARAMS
from analysis.protocol.extensions import EXTENSIONS
from analysis.rules.old_ids import current_id
from captures.verdict import Kind

Test: TypeAlias = Callable[[Facts], bool]


class FilterValue(NamedTuple):
    """The right side of a term."""

    operator: str
    text: str
    is_quoted: bool


class InvalidValue(Exception):
    """Raised if a key does not accept a value; the text says what was expected."""


class Key(NamedTuple):
    """The part of a term before the operator."""

    test: Callable[[FilterValue], Test]
    """Returns the test for a value, or raises InvalidValue."""
    is_ordered: bool = False
    """Whether `>`, `>=`, `<` and `<=` can follow it."""
    bounds: Callable[[FilterValue], tuple[float, ...]] = lambda _: ()
    """Returns the numbers that a valid value is compared with, if the fact is a number."""
    words: tuple[str, ...] = ()
    """The only values that it accepts; empty if it accepts others."""
    example: str = ""
    """A term with it."""
    meaning: str = ""
    """What it is about, in a few words."""

    def explained(self, example: str, meaning: str) -> Self:
        """Returns the key with an example and its meaning."""
        return self._replace(example=example, meaning=meaning)


_WILDCARDS: Final = re.compile(r"[*?]")


def _matcher(value: FilterValue) -> Callable[[str], bool]:
    """A test for whether a name matches a value; in quotes, `*` and `?` are literal."""
    text = value.text
    if value.is_quoted or not _WILDCARDS.search(text):
        return lambda name: name == text
    if not _WILDCARDS.search(text[:-1]) and text[-1] == "*":
        start = text[:-1]
        return lambda name: name.startswith(start)
    # Each piece between two stars is matched at its first occurrence only: this finds a match if there is one, without
    # backtracking.
    first, *later_pieces = (re.escape(piece).replace(r"\?", ".") for piece in re.sub(r"\*+", "*", text).split("*"))
    middles = "".join(f"(?>.*?{piece})" for piece in later_pieces[:-1])
    matches = re.compile(first + middles + (f".*{later_pieces[-1]}" if later_pieces else ""), re.DOTALL).fullmatch
    return lambda name: matches(name) is not None


def _name_key(get: Callable[[Facts], str | None]) -> Key:
    def make_test(value: FilterValue) -> Test:
        match = _matcher(value)
        return lambda facts: (name := get(facts)) is not None and match(name)

    return Key(make_test)


def _extension_test(value: FilterValue) -> Test:
    """A test for an extension, which must be known: nothing says which methods another one has."""
    if value.text not in EXTENSIONS and (value.is_quoted or not _WILDCARDS.search(value.text)):
        raise InvalidValue(
            f"expected a pattern or one of {', '.join(EXTENSIONS)}: the methods of other extensions are not known"
        )
    return _name_key(lambda facts: facts.extension).test(value)


def _rule_test(value: FilterValue) -> Test:
    match = _matcher(value._replace(text=current_id(value.text)))
    return lambda facts: any(match(rule) for rule in facts.rules)


_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def _id_test(value: FilterValue) -> Test:
    """A test for an id in JSON; a value that is not JSON is a string, and one with `*` or `?` a pattern for any id."""
    text = value.text
    if not value.is_quoted and _WILDCARDS.search(text):
        match = _matcher(value)
        return lambda facts: (id_ := facts.id) is not None and id_.type in ("string", "number") and match(id_.value)
    if value.is_quoted:
        expected_id = id_of(text)
    elif _NUMBER.fullmatch(text) or text in ("null", "true", "false"):
        expected_id = id_of_token(text.encode())
    else:
        expected_id = id_of(text)
    return lambda facts: facts.id == expected_id


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {":": eq, "=": eq, ">": gt, ">=": ge, "<": lt, "<=": le}
_QUANTITY: Final = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)([A-Za-z]*)")


def _number_key(get: Callable[[Facts], int | None], expected_value: str, units: Mapping[str, int]) -> Key:
    """A key whose values are numbers, which have an order.

    Args:
        get: the fact.
        expected_value: the expected kind of value, for errors.
        units: the factor of each unit; if the empty unit is the only one, numbers must be integers.
    """

    def bound_of(value: FilterValue) -> float:
        quantity = None if value.is_quoted else _QUANTITY.fullmatch(value.text)
        if quantity is None or quantity[2] not in units or ("." in quantity[1] and len(units) == 1):
            raise InvalidValue(f"expected {expected_value}")
        integer_part, _, fraction = quantity[1].partition(".")
        numerator = int(integer_part + fraction) * units[quantity[2]]
        denominator = int(f"1{'0' * len(fraction)}")
        # Python compares an int with a float exactly.
        return numerator / denominator if numerator % denominator else numerator // denominator

    def make_test(value: FilterValue) -> Test:
        bound, compare = bound_of(value), _OPERATORS[value.operator]
        return lambda facts: (number := get(facts)) is not None and compare(number, bound)

    return Key(make_test, is_ordered=True, bounds=lambda value: (bound_of(value),))


def text_search_of(value: FilterValue) -> TextSearch:
    """The search for the value of the key `text`."""
    if not value.text:
        raise InvalidValue("expected text between the quotes")
    return TextSearch(value.text, is_literal=False)


def _text_test(value: FilterValue) -> Test:
    is_in = text_search_of(value).is_in
    return lambda facts: is_in(facts.raw)


_LEVELS: Final = {"note": 1, "warning": 2, "error": 3}


def _level_test(value: FilterValue) -> Test:
    if value.text not in _LEVELS:
        raise _unknown_word(value.text, _LEVELS)
    bound, compare = _LEVELS[value.text], _OPERATORS[value.operator]
    return lambda facts: (level := _LEVELS.get(facts.level or "")) is not None and compare(level, bound)


_FRAMES: Final = re.compile(r"([0-9]{1,15})(?:\.\.([0-9]{1,15}))?")


def _frame_range(value: FilterValue) -> tuple[int, int]:
    """The first and the last number of a range of frames; the same number twice if it is only one."""
    match = None if value.is_quoted else _FRAMES.fullmatch(value.text)
    if match is None or (match[2] is not None and value.operator not in (":", "=")):
        raise InvalidValue("expected the number of a frame such as 38, or two such as 30..40 after a colon")
    return int(match[1]), int(match[2] or match[1])


def _frame_test(value: FilterValue) -> Test:
    """A test for the number of a frame, which has an order, or for a range from the first number to the last."""
    first, last = _frame_range(value)
    if value.operator in (":", "="):
        return lambda facts: (span := facts.frames) is not None and span[0] <= last and first <= span[1]
    compare = _OPERATORS[value.operator]
    return lambda facts: (span := facts.frames) is not None and compare(span[0], first)


def _word_key(tests: Mapping[str, Test]) -> Key:
    def make_test(value: FilterValue) -> Test:
        if value.text not in tests:
            raise _unknown_word(value.text, tests)
        return tests[value.text]

    return Key(make_test, words=tuple(tests))


def _unknown_word(text: str, words: Mapping[str, object]) -> InvalidValue:
    from difflib import get_close_matches

    # The search takes time proportional to the product of the lengths.
    suggestions = get_close_matches(text[:20].lower(), words, 1)
    return InvalidValue(f"expected {_list_text(words)}{f'; did you mean `{suggestions[0]}`?' if suggestions else ''}")


def _list_text(words: Mapping[str, object]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}"


def _is_kind(kind: Kind) -> Test:
    return lambda facts: facts.kind == kind


_KINDS: Final[tuple[Kind, ...]] = ("request", "response", "error", "notification", "invalid", "unjudged")

KEYS: Final[dict[str, Key]] = {
    "method": _name_key(lambda facts: facts.method).explained("method:tools/*", "the method"),
    "name": _name_key(lambda facts: facts.name).explained("name:get_*", "tool, prompt, resource"),
    "id": Key(_id_test).explained("id:7", "the id, as in JSON"),
    "dir": _word_key({"c2s": lambda facts: facts.dir == "c2s", "s2c": lambda facts: facts.dir == "s2c"}).explained(
        "dir:s2c", "to the client, or c2s"
    ),
    "kind": _word_key(
        {
            **{kind: _is_kind(kind) for kind in _KINDS},
            "batch": lambda facts: facts.is_batched or facts.kind == "batch",
        }
    ).explained("kind:error", "the kind of message"),
    "has": _word_key(
        {
            "id": lambda facts: facts.id is not None,
            "answer": lambda facts: facts.is_answered,
            "error": lambda facts: facts.is_error,
            "failure": lambda facts: facts.is_failure,
            "waiting": lambda facts: facts.is_waiting,
            "problem": lambda facts: facts.problem is not None,
            "finding": lambda facts: bool(facts.rules),
            "mark": lambda facts: facts.is_marked,
        }
    ).explained("has:failure", "what it has, or lacks"),
    "latency": _number_key(
        lambda facts: facts.latency_ns,
        "a time such as 100ms, in ns, us, ms or s",
        {"": 10**6, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
    ).explained("latency>100ms", "of the answer"),
    "size": _number_key(
        lambda facts: facts.size, "a size in bytes such as 512, 10k or 1.5M", {"": 1, "k": 1 << 10, "M": 1 << 20}
    ).explained("size>10k", "in bytes"),
    "code": _number_key(lambda facts: facts.code, f"an error code such as {INVALID_PARAMS}", {"": 1}).explained(
        f"code:{INVALID_PARAMS}", "code of the error"
    ),
    "problem": _name_key(lambda facts: facts.problem).explained("problem:framing/*", "breaks this rule itself"),
    "rule": Key(_rule_test).explained("rule:lifecycle/*", "has findings of a rule"),
    "level": Key(_level_test, is_ordered=True, words=tuple(_LEVELS)).explained(
        "level>=warning", "worst of its findings"
    ),
    "frame": Key(_frame_test, is_ordered=True, bounds=_frame_range).explained("frame:30..40", "number of the frame"),
    "session": _number_key(lambda facts: facts.session, "the number of a session", {"": 1}).explained(
        "session:3", "the session, from 1"
    ),
    "turn": _name_key(lambda facts: facts.client_ids.turn).explained("turn:0199f3*", "a prompt and its calls"),
    "client_session": _name_key(lambda facts: facts.client_ids.session).explained(
        "client_session:ses_*", "the client's session"
    ),
    "trace": _name_key(lambda facts: facts.client_ids.trace).explained("trace:4bf92f*", "the trace"),
    "exchange": _number_key(lambda facts: facts.exchange, "the number of an exchange", {"": 1}).explained(
        "exchange:12", "the HTTP exchange"
    ),
    "extension": Key(_extension_test).explained("extension:*/tasks", "of these extensions"),
    "text": Key(_text_test).explained('text:"not found"', "its text, escapes resolved"),
}
"""The keys, by their names."""

FINDING_KEYS: Final = frozenset({"rule", "level", "has:finding"})
"""The keys of `Filter.keys` that need findings."""
