"""The grammar of filter expressions: text → `Filter`, or a `FilterError` that points at the place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, NoReturn

from analysis.filter.facts import Facts
from analysis.filter.keys import FINDING_KEYS, KEYS, FilterValue, InvalidValue, Test, text_search_of
from analysis.filter.text_search import TextSearch

MAX_FILTER_CHARS: Final = 4096
"""The most characters of an expression."""
MAX_FILTER_DEPTH: Final = 100
"""The deepest nesting of parentheses and `not`."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed expression. Its text parses to an equal one."""

    text: str
    """The expression without redundant parentheses, spaces and `and`."""
    keys: Mapping[str, int] = field(compare=False)
    """The facts it uses, with their first position: names of `KEYS`, terms such as `has:finding`, and `text`."""
    matches: Test = field(compare=False, repr=False)
    """Whether it selects a message."""
    terms: tuple[str, ...] = field(compare=False, default=())
    """The texts of the terms, all of which must match a message: those joined by `and`, or the whole expression."""
    tests: tuple[Test, ...] = field(compare=False, repr=False, default=())
    """The tests of its terms, each by itself."""
    bounds: Mapping[str, tuple[float, ...]] = field(compare=False, default_factory=dict)
    """The numbers that terms compare with, by key: a value between the same two bounds makes no difference."""
    texts: tuple[TextSearch, ...] = field(compare=False, repr=False, default=())
    """The texts that every message it selects contains."""

    def __str__(self) -> str:
        return self.text

    @property
    def needs_findings(self) -> bool:
        """Whether rules must have run before it can be applied."""
        return any(key in FINDING_KEYS for key in self.keys)

    def compute_facts(self, facts: Facts) -> Facts:
        """Compute all facts that the filter can test, drop their message, and return the facts, which outlive it."""
        for test in self.tests:
            test(facts)
        facts.release()
        return facts


class FilterError(ValueError):
    """Raised for an invalid expression; its text has the problem, the expression, and a caret below the place."""

    def __init__(self, wrong: str, text: str, at: int) -> None:
        """Create an error.

        Args:
            wrong: what is wrong, or what was expected.
            text: the expression.
            at: index of the wrong character; the length of `text` if its end is wrong.
        """
        super().__init__(wrong, text, at)
        self.problem, self.text, self.at = wrong, text, at

    def __str__(self) -> str:
        start = max(0, self.at - 48)
        before = ("…" if start else "") + _single_column_text(self.text[start : self.at])
        after = _single_column_text(self.text[self.at : self.at + 24]) + ("…" if len(self.text) > self.at + 24 else "")
        return f"{self.problem}\n  {before}{after}\n  {' ' * _column_count(before)}^"


def _single_column_text(text: str) -> str:
    """`text` with a dot for each unprintable or combining character, so that the caret points at the right place."""
    from unicodedata import category

    return "".join(char if char.isprintable() and category(char)[0] != "M" else "·" for char in text)


def _column_count(text: str) -> int:
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def parse(text: str) -> Filter:
    """The filter that `text` describes.

    Raises:
        FilterError: the text is not a valid filter.
    """
    if len(text) > MAX_FILTER_CHARS:
        raise FilterError(
            f"expected at most {MAX_FILTER_CHARS:,} characters, not {len(text):,}", text, MAX_FILTER_CHARS
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError("expected UTF-8", text, error.start) from None
    return _Parser(text).parse()


class _Part(NamedTuple):
    """A part of the expression, with its test."""

    test: Test
    text: str
    rank: int = 2
    """Its operator precedence: 0 with `or`, 1 with `and`, otherwise 2."""
    terms: tuple[str, ...] = ()
    """The texts of the operands of `and`."""
    texts: tuple[TextSearch, ...] = ()
    """The texts that it requires."""

    def as_operand(self, rank: int) -> str:
        """Its text as an operand, in parentheses if needed."""
        return f"({self.text})" if self.rank < rank else self.text


class _Token(NamedTuple):
    kind: Literal["(", ")", "and", "or", "not", "term", "end"]
    at: int
    term: _Part | None = None


_SPACE: Final = re.compile(r"\s*")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\["\\])*+')
_WORD: Final = re.compile(r'[^\s()"]*')
_BORDER: Final = re.compile(r"[\s()]|\Z")
_KEY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*+)(>=|<=|!=|[:=<>])")
_JOINS: Final[tuple[Literal["and", "or", "not"], ...]] = ("and", "or", "not")


class _Parser:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._keys: dict[str, int] = {}
        self._tests: list[Test] = []
        self._bounds: dict[str, tuple[float, ...]] = {}
        self._token = self._read_token()

    def parse(self) -> Filter:
        part = self._parse_or()
        if self._token.kind == ")":
            self._fail("expected no `)` here, as no `(` is open", self._token.at)
        terms = part.terms or (part.text,)
        return Filter(part.text, self._keys, part.test, terms, tuple(self._tests), self._bounds, part.texts)

    def _fail(self, wrong: str, at: int) -> NoReturn:
        raise FilterError(wrong, self._text, at)

    # Tokens → tests.

    def _parse_or(self) -> _Part:
        parts = [self._parse_and()]
        while self._token.kind == "or":
            self._token = self._read_token()
            parts.append(self._parse_and())
        if len(parts) == 1:
            return parts[0]
        return _Part(_any_of([part.test for part in parts]), " or ".join(part.as_operand(0) for part in parts), 0)

    def _parse_and(self) -> _Part:
        parts = [self._parse_operand()]
        while self._token.kind not in ("or", ")", "end"):
            if self._token.kind == "and":
                self._token = self._read_token()
            parts.append(self._parse_operand())
        if len(parts) == 1:
            return parts[0]
        terms = tuple(part.as_operand(1) for part in parts)
        texts = tuple(search for part in parts for search in part.texts)
        return _Part(_all_of([part.test for part in parts]), " ".join(terms), 1, terms, texts)

    def _parse_operand(self) -> _Part:
        kind, at, term = self._token
        if term is not None:
            self._token = self._read_token()
            return term
        if kind not in ("(", "not"):
            self._fail('expected a term, such as method:tools/* or "text"', at)
        self._depth += 1
        if self._depth > MAX_FILTER_DEPTH:
            self._fail(f"expected at most {MAX_FILTER_DEPTH} `(` and `not` inside each other", at)
        self._token = self._read_token()
        part = self._parse_negation() if kind == "not" else self._parse_parentheses()
        self._depth -= 1
        return part

    def _parse_negation(self) -> _Part:
        part = self._parse_operand()
        test = part.test
        return _Part(lambda facts: not test(facts), f"not {part.as_operand(2)}")

    def _parse_parentheses(self) -> _Part:
        part = self._parse_or()
        if self._token.kind != ")":
            self._fail("expected `)`", self._token.at)
        self._token = self._read_token()
        return part

    # Characters → tokens.

    def _read_token(self) -> _Token:
        text = self._text
        self._consume(_SPACE)
        at = self._at
        if at == len(text):
            return _Token("end", at)
        if text[at] in "()":
            self._at += 1
            return _Token("(" if text[at] == "(" else ")", at)
        if text[at] == '"':
            token = _Token("term", at, self._text_term(self._read_quoted(), at))
        elif key := _KEY.match(text, at):
            token = _Token("term", at, self._read_key_term(key))
        else:
            token = self._read_word()
        if not _BORDER.match(text, self._at):
            self._fail("expected a space", self._at)
        return token

    def _consume(self, pattern: re.Pattern[str]) -> str:
        """Consume what a pattern matches at the current position, and return it; it may be empty."""
        match = pattern.match(self._text, self._at)
        consumed = match[0] if match else ""
        self._at += len(consumed)
        return consumed

    def _read_quoted(self) -> str:
        quoted = self._consume(_QUOTED)
        if self._text[self._at : self._at + 1] != '"':
            is_end = self._at == len(self._text)
            self._fail('expected `"`' if is_end else r"expected \" or \\, the only escapes", self._at)
        self._at += 1
        return re.sub(r"\\(.)", r"\1", quoted[1:])

    def _read_word(self) -> _Token:
        """A word without an operator: `and`, `or`, `not`, or text to search for."""
        at, word = self._at, self._consume(_WORD)
        for join in _JOINS:
            if word.lower() == join:
                return _Token(join, at)
        if word in KEYS and word != "text":
            self._fail(f"expected an operator right after `{word}`, or quotes around it to search for it", self._at)
        if word[0] in "!&|:=<>":
            self._fail("expected a term; `and`, `or` and `not` join terms, and quotes turn anything into text", at)
        if "*" in word:
            self._fail("expected a key before a pattern, such as name:get_*, or quotes around a text with a `*`", at)
        return _Token("term", at, self._text_term(word, at))

    def _text_term(self, text: str, at: int) -> _Part:
        if not text:
            self._fail("expected text between the quotes", at + 1)
        search = TextSearch(text, is_literal=True)
        part = self._add_term("text", at, lambda facts: search.is_in(facts.raw), self._text[at : self._at])
        return part._replace(texts=(search,))

    def _read_key_term(self, match: re.Match[str]) -> _Part:
        name, operator = match.groups()
        key = KEYS.get(name)
        if key is None:
            self._fail(_unknown_key_text(name), match.start())
        if operator == "!=":
            self._fail(f"expected `not` before the term, as in: not {name}:…", match.start(2))
        if operator not in (":", "=") and not key.is_ordered:
            self._fail(f"expected `:`, as values of `{name}` have no order", match.start(2))
        self._at = at = match.end()
        is_quoted = self._text.startswith('"', at)
        text = self._read_quoted() if is_quoted else self._consume(_WORD)
        if not is_quoted and (not text or text[0] in "!:=<>"):
            self._fail(f"expected a value right after `{name}{operator}`", at)
        value = FilterValue(operator, text, is_quoted)
        try:
            test = key.test(value)
        except InvalidValue as error:
            self._fail(str(error), at)
        self._bounds[name] = self._bounds.get(name, ()) + key.bounds(value)
        term_text = f"{name}{':' if operator == '=' else operator}{self._text[at : self._at]}"
        part = self._add_term(f"has:{text}" if name == "has" else name, match.start(), test, term_text)
        return part._replace(texts=(text_search_of(value),)) if name == "text" else part

    def _add_term(self, key: str, at: int, test: Test, text: str) -> _Part:
        self._keys.setdefault(key, at)
        self._tests.append(test)
        return _Part(test, text)


def _unknown_key_text(name: str) -> str:
    from difflib import get_close_matches

    # The search takes time proportional to the product of the lengths.
    suggestions = get_close_matches(name[:20].lower(), KEYS, 1)
    hint = f"did you mean `{suggestions[0]}`? Quotes" if suggestions else f"keys are {', '.join(KEYS)}; quotes"
    return f"`{name:.20}` is not a key; {hint} make it text to search for"


def _all_of(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda facts: first(facts) and second(facts)

    def test(facts: Facts) -> bool:
        for operand in tests:  # noqa: SIM110 - a generator would cost more than the tests
            if not operand(facts):
                return False
        return True

    return test


def _any_of(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda facts: first(facts) or second(facts)

    def test(facts: Facts) -> bool:
        for operand in tests:  # noqa: SIM110 - a generator would cost more than the tests
            if operand(facts):
                return True
        return False

    return test
