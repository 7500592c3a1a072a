"""The filter language, which selects messages to show, check or list; see docs/filter.md.

`parse` takes any text and returns a `Filter` or raises a `FilterError` that points at the place; it takes time linear
in the text, whose length and depth are bounded. A filter reads only the `Facts` about one message, so callers decide
what is known by when. It never raises, whatever the facts. An unknown fact matches no term, so `not` before one selects
it.

Users cannot give regular expressions: patterns have `*` and `?`, and take time linear in the name that they match.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, eq, ge, gt, le, lt
from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeAlias

from analysis.conversation.exchange import Exchange, Outcome, outcome_of
from analysis.conversation.message import Id, Invalid, Message, Notification, Request, Response, id_of, id_of_token
from analysis.conversation.session import Seen
from analysis.rules.old_ids import current_id
from captures.frame import Direction, Frame, Kind
from captures.record import Record, raw_bytes

LONGEST: Final = 4096
"""The most characters of an expression."""
DEEPEST: Final = 100
"""The deepest nesting of parentheses and `not`."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a filter can ask about one message; None if it does not apply, or is unknown."""

    method: str | None = None
    """For a response, that of its request."""
    name: str | None = None
    """The tool, the prompt or the URI of the resource that the params name; for a response, that of its request."""
    id: Id | None = None
    dir: Direction | None = None
    kind: Kind | None = None
    """For a message in a batch, its own kind; `batch` is the frame that holds them."""
    is_batched: bool = False
    """Whether it is one of several messages in a frame."""
    latency_ns: int | None = None
    """How long the response took, for both halves of an exchange."""
    size: int | None = None
    """Bytes of its frames."""
    code: int | None = None
    """The code of a JSON-RPC error."""
    is_error: bool = False
    """Whether it is a JSON-RPC error, or the result of a tool that failed."""
    is_answered: bool = False
    """Whether it is one half of an exchange that has both."""
    problem: str | None = None
    """The rule that the frame breaks by itself."""
    rules: tuple[str, ...] = ()
    """The rules that have findings about it."""
    level: str | None = None
    """The most severe level of these: `note`, `warning` or `error`."""
    session: int | None = None
    """Number of its session in the capture, from 1."""
    exchange: int | None = None
    """Number of the HTTP exchange that carried it."""
    frames: tuple[int, int] | None = None
    """Numbers of its first and last frame; for a record that is not a frame, its own number."""
    is_marked: bool = False
    """Whether the user has marked it."""
    raw: bytes = b""
    """The bytes that crossed; for a message in a batch, the whole batch."""


Test: TypeAlias = Callable[[Facts], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed expression. Its text parses to an equal one."""

    text: str
    """The expression without redundant parentheses, spaces and `and`."""
    keys: Mapping[str, int] = field(compare=False)
    """The facts it uses, with their first position: names of `KEYS`, terms such as `has:finding`, and `text`."""
    matches: Test = field(compare=False, repr=False)
    """Whether it selects a message."""

    def __str__(self) -> str:
        return self.text

    @property
    def needs_findings(self) -> bool:
        """Whether rules must have run before it can be applied."""
        return any(key in OF_FINDINGS for key in self.keys)


class FilterError(ValueError):
    """An invalid expression. As text: what is wrong, the expression, and a caret below the place."""

    def __init__(self, wrong: str, text: str, at: int) -> None:
        """Create an error.

        Args:
            wrong: what is wrong, or what was expected.
            text: the expression.
            at: index of the wrong character; the length of `text` if its end is wrong.
        """
        super().__init__(wrong, text, at)
        self.wrong, self.text, self.at = wrong, text, at

    def __str__(self) -> str:
        start = max(0, self.at - 48)
        before = ("…" if start else "") + _drawn(self.text[start : self.at])
        after = _drawn(self.text[self.at : self.at + 24]) + ("…" if len(self.text) > self.at + 24 else "")
        return f"{self.wrong}\n  {before}{after}\n  {' ' * _columns(before)}^"


def _drawn(text: str) -> str:
    """`text` in characters of one column each, so that the caret points at the right one."""
    from unicodedata import category

    return "".join(char if char.isprintable() and category(char)[0] != "M" else "·" for char in text)


def _columns(text: str) -> int:
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def parse(text: str) -> Filter:
    """The filter that `text` describes.

    Raises:
        FilterError: the text is not a valid filter.
    """
    if len(text) > LONGEST:
        raise FilterError(f"expected at most {LONGEST:,} characters, not {len(text):,}", text, LONGEST)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError("expected UTF-8", text, error.start) from None
    return _Parser(text).filter()


# ---- the meaning of values


class _Value(NamedTuple):
    """The right side of a term."""

    operator: str
    text: str
    is_quoted: bool


class _Unreadable(Exception):
    """A value that is invalid for its key; says what was expected."""


class Key(NamedTuple):
    """What can come before an operator."""

    test: Callable[[_Value], Test]
    """Value → test, or _Unreadable."""
    is_ordered: bool = False
    """Whether `>`, `>=`, `<` and `<=` can follow it."""


_WILD: Final = re.compile(r"[*?]")


def _matcher(value: _Value) -> Callable[[str], bool]:
    """A test for whether a name matches a value; in quotes, `*` and `?` are literal."""
    text = value.text
    if value.is_quoted or not _WILD.search(text):
        return lambda name: name == text
    if not _WILD.search(text[:-1]) and text[-1] == "*":
        start = text[:-1]
        return lambda name: name.startswith(start)
    # Each piece between two stars is matched at its first occurrence only: that finds a match if there is one, without
    # trying anything twice.
    first, *rest = (re.escape(piece).replace(r"\?", ".") for piece in re.sub(r"\*+", "*", text).split("*"))
    middles = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    matches = re.compile(first + middles + (f".*{rest[-1]}" if rest else ""), re.DOTALL).fullmatch
    return lambda name: matches(name) is not None


def _names(attribute: str) -> Key:
    get: Callable[[Facts], str | None] = attrgetter(attribute)

    def read(value: _Value) -> Test:
        match = _matcher(value)
        return lambda facts: (name := get(facts)) is not None and match(name)

    return Key(read)


def _rule(value: _Value) -> Test:
    match = _matcher(value._replace(text=current_id(value.text)))
    return lambda facts: any(match(rule) for rule in facts.rules)


_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def _id(value: _Value) -> Test:
    """The id as JSON; a value that is not JSON is a string, and one with `*` or `?` is a pattern for any id."""
    text = value.text
    if not value.is_quoted and _WILD.search(text):
        match = _matcher(value)
        return lambda facts: (id_ := facts.id) is not None and id_.type in ("string", "number") and match(id_.value)
    if value.is_quoted:
        wanted = id_of(text)
    elif _NUMBER.fullmatch(text) or text in ("null", "true", "false"):
        wanted = id_of_token(text.encode())
    else:
        wanted = id_of(text)
    return lambda facts: facts.id == wanted


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {":": eq, "=": eq, ">": gt, ">=": ge, "<": lt, "<=": le}
_QUANTITY: Final = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)([A-Za-z]*)")


def _numbers(attribute: str, wanted: str, units: Mapping[str, int]) -> Key:
    """A key whose values are numbers that compare.

    Args:
        attribute: the fact.
        wanted: what was expected, for errors.
        units: the factor of each; with only the empty unit, numbers are integers.
    """
    get: Callable[[Facts], int | None] = attrgetter(attribute)

    def read(value: _Value) -> Test:
        quantity = None if value.is_quoted else _QUANTITY.fullmatch(value.text)
        if quantity is None or quantity[2] not in units or ("." in quantity[1] and len(units) == 1):
            raise _Unreadable(f"expected {wanted}")
        whole, _, fraction = quantity[1].partition(".")
        amount, parts = int(whole + fraction) * units[quantity[2]], 10 ** len(fraction)
        # Python compares an int with a float exactly.
        bound = amount / parts if amount % parts else amount // parts
        compare = _OPERATORS[value.operator]
        return lambda facts: (number := get(facts)) is not None and compare(number, bound)

    return Key(read, is_ordered=True)


_LEVELS: Final = {"note": 1, "warning": 2, "error": 3}


def _level(value: _Value) -> Test:
    if value.text not in _LEVELS:
        raise _Unreadable(f"expected {_listed(_LEVELS)}")
    bound, compare = _LEVELS[value.text], _OPERATORS[value.operator]
    return lambda facts: (level := _LEVELS.get(facts.level or "")) is not None and compare(level, bound)


_FRAMES: Final = re.compile(r"([0-9]{1,15})(?:\.\.([0-9]{1,15}))?")


def _frame(value: _Value) -> Test:
    """A number, which compares, or a range from first to last."""
    numbers = None if value.is_quoted else _FRAMES.fullmatch(value.text)
    if numbers is None or (numbers[2] is not None and value.operator not in (":", "=")):
        raise _Unreadable("expected the number of a frame such as 38, or two such as 30..40 behind a colon")
    first, last = int(numbers[1]), int(numbers[2] or numbers[1])
    if value.operator in (":", "="):
        return lambda facts: (own := facts.frames) is not None and own[0] <= last and first <= own[1]
    compare = _OPERATORS[value.operator]
    return lambda facts: (own := facts.frames) is not None and compare(own[0], first)


def _words(tests: Mapping[str, Test]) -> Key:
    def read(value: _Value) -> Test:
        if value.text not in tests:
            raise _Unreadable(f"expected {_listed(tests)}")
        return tests[value.text]

    return Key(read)


def _is(attribute: str, word: str) -> Test:
    get = attrgetter(attribute)
    return lambda facts: bool(get(facts) == word)


def _listed(words: Mapping[str, object]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


_KINDS: Final = ("request", "response", "error", "notification", "invalid", "unjudged")

KEYS: Final[dict[str, Key]] = {
    "method": _names("method"),
    "name": _names("name"),
    "id": Key(_id),
    "dir": _words({word: _is("dir", word) for word in ("c2s", "s2c")}),
    "kind": _words(
        {
            **{word: _is("kind", word) for word in _KINDS},
            "batch": lambda facts: facts.is_batched or facts.kind == "batch",
        }
    ),
    "has": _words(
        {
            "id": lambda facts: facts.id is not None,
            "answer": lambda facts: facts.is_answered,
            "error": lambda facts: facts.is_error,
            "problem": lambda facts: facts.problem is not None,
            "finding": lambda facts: bool(facts.rules),
            "mark": lambda facts: facts.is_marked,
        }
    ),
    "latency": _numbers(
        "latency_ns",
        "a time such as 100ms, in ns, us, ms or s",
        {"": 10**6, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
    ),
    "size": _numbers("size", "a size in bytes such as 512, 10k or 1.5M", {"": 1, "k": 1 << 10, "M": 1 << 20}),
    "code": _numbers("code", "an error code such as -32602", {"": 1}),
    "problem": _names("problem"),
    "rule": Key(_rule),
    "level": Key(_level, is_ordered=True),
    "frame": Key(_frame, is_ordered=True),
    "session": _numbers("session", "the number of a session", {"": 1}),
    "exchange": _numbers("exchange", "the number of an exchange", {"": 1}),
}
"""What can come before an operator."""

OF_FINDINGS: Final = frozenset({"rule", "level", "has:finding"})
"""Those of `Filter.keys` that ask for findings."""


# ---- the text of an expression


class _Part(NamedTuple):
    """A piece of the expression that represents a test."""

    test: Test
    text: str
    rank: int = 2
    """Its operator precedence: 0 with `or`, 1 with `and`, 2 alone."""

    def inside(self, rank: int) -> str:
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
        self._token = self._read()

    def filter(self) -> Filter:
        part = self._either()
        if self._token.kind == ")":
            self._fail("expected no `)`, as no `(` is open", self._token.at)
        return Filter(part.text, self._keys, part.test)

    def _fail(self, wrong: str, at: int) -> NoReturn:
        raise FilterError(wrong, self._text, at)

    # Tokens → tests.

    def _either(self) -> _Part:
        parts = [self._all()]
        while self._token.kind == "or":
            self._token = self._read()
            parts.append(self._all())
        if len(parts) == 1:
            return parts[0]
        return _Part(_any_of([part.test for part in parts]), " or ".join(part.inside(0) for part in parts), 0)

    def _all(self) -> _Part:
        parts = [self._one()]
        while self._token.kind not in ("or", ")", "end"):
            if self._token.kind == "and":
                self._token = self._read()
            parts.append(self._one())
        if len(parts) == 1:
            return parts[0]
        return _Part(_all_of([part.test for part in parts]), " ".join(part.inside(1) for part in parts), 1)

    def _one(self) -> _Part:
        kind, at, term = self._token
        if term is not None:
            self._token = self._read()
            return term
        if kind not in ("(", "not"):
            self._fail('expected a term, such as method:tools/* or "text"', at)
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"expected at most {DEEPEST} `(` and `not` inside each other", at)
        self._token = self._read()
        part = self._negated() if kind == "not" else self._enclosed()
        self._depth -= 1
        return part

    def _negated(self) -> _Part:
        part = self._one()
        test = part.test
        return _Part(lambda facts: not test(facts), f"not {part.inside(2)}")

    def _enclosed(self) -> _Part:
        part = self._either()
        if self._token.kind != ")":
            self._fail("expected `)`", self._token.at)
        self._token = self._read()
        return part

    # Characters → tokens.

    def _read(self) -> _Token:
        text = self._text
        self._take(_SPACE)
        at = self._at
        if at == len(text):
            return _Token("end", at)
        if text[at] in "()":
            self._at += 1
            return _Token("(" if text[at] == "(" else ")", at)
        if text[at] == '"':
            token = _Token("term", at, self._searched(self._quoted(), at))
        elif key := _KEY.match(text, at):
            token = _Token("term", at, self._keyed(key))
        else:
            token = self._bare()
        if not _BORDER.match(text, self._at):
            self._fail("expected a space", self._at)
        return token

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Consume the next match of a pattern that may be empty."""
        match = pattern.match(self._text, self._at)
        taken = match[0] if match else ""
        self._at += len(taken)
        return taken

    def _quoted(self) -> str:
        taken = self._take(_QUOTED)
        if self._text[self._at : self._at + 1] != '"':
            is_end = self._at == len(self._text)
            self._fail('expected `"`' if is_end else r"expected \" or \\, the only escapes", self._at)
        self._at += 1
        return re.sub(r"\\(.)", r"\1", taken[1:])

    def _bare(self) -> _Token:
        """A word without an operator: `and`, `or`, `not`, or text to search for."""
        at, word = self._at, self._take(_WORD)
        for join in _JOINS:
            if word.lower() == join:
                return _Token(join, at)
        if word in KEYS:
            self._fail(f"expected an operator right behind `{word}`, or quotes around it to search for it", self._at)
        if word[0] in "!&|:=<>":
            self._fail("expected a term; `and`, `or` and `not` join them, and quotes make a text of anything", at)
        if "*" in word:
            self._fail("expected a key before a pattern, such as name:get_*, or quotes around a text with a `*`", at)
        return _Token("term", at, self._searched(word, at))

    def _searched(self, text: str, at: int) -> _Part:
        if not text:
            self._fail("expected text between the quotes", at + 1)
        wanted = text.encode()
        self._keys.setdefault("text", at)
        return _Part(lambda facts: wanted in facts.raw, self._text[at : self._at])

    def _keyed(self, match: re.Match[str]) -> _Part:
        name, operator = match.groups()
        key = KEYS.get(name)
        if key is None:
            self._fail(_unknown(name), match.start())
        if operator == "!=":
            self._fail(f"expected `not` before the term, as in: not {name}:…", match.start(2))
        if operator not in (":", "=") and not key.is_ordered:
            self._fail(f"expected `:`, as `{name}` knows no more and less", match.start(2))
        self._at = at = match.end()
        is_quoted = self._text.startswith('"', at)
        text = self._quoted() if is_quoted else self._take(_WORD)
        if not is_quoted and (not text or text[0] in "!:=<>"):
            self._fail(f"expected a value right behind `{name}{operator}`", at)
        try:
            test = key.test(_Value(operator, text, is_quoted))
        except _Unreadable as error:
            self._fail(str(error), at)
        self._keys.setdefault(f"has:{text}" if name == "has" else name, match.start())
        return _Part(test, f"{name}{':' if operator == '=' else operator}{self._text[at : self._at]}")


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    # Its time is the product of the lengths.
    close = get_close_matches(name[:20].lower(), KEYS, 1)
    hint = f"did you mean `{close[0]}`? Quotes" if close else f"keys are {', '.join(KEYS)}; quotes"
    return f"`{name:.20}` is no key; {hint} make it a text to search for"


def _all_of(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda facts: first(facts) and second(facts)

    def test(facts: Facts) -> bool:
        for test in tests:  # noqa: SIM110 - a generator would cost more than the tests
            if not test(facts):
                return False
        return True

    return test


def _any_of(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda facts: first(facts) or second(facts)

    def test(facts: Facts) -> bool:
        for test in tests:  # noqa: SIM110 - a generator would cost more than the tests
            if test(facts):
                return True
        return False

    return test


# ---- where facts come from


def facts_of(
    seen: Seen,
    exchange: Exchange | None = None,
    *,
    rules: tuple[str, ...] = (),
    level: str | None = None,
) -> Facts:
    """The facts of a message.

    Args:
        seen: the message, as the fold saw it.
        exchange: for a request, its outcome once known. For a response it is known from `seen`.
        rules: the rules that have findings about it.
        level: the most severe level of these.
    """
    message = seen.message
    exchange = exchange or seen.exchange
    asked = exchange.request if exchange is not None and isinstance(message, Response) else message
    frames = message.frames
    raw = frames[0].raw if len(frames) == 1 else b"\n".join(frame.raw for frame in frames)
    return Facts(
        method=asked.method if isinstance(asked, Request | Notification) else None,
        name=name_in(asked.params) if isinstance(asked, Request | Notification) else None,
        id=message.id if isinstance(message, Request | Response) else None,
        dir=frames[0].dir,
        kind=_kind(message),
        is_batched=message.index is not None,
        latency_ns=exchange.duration_ns if exchange is not None else None,
        size=sum(len(frame.raw) for frame in frames),
        code=_code(message),
        is_error=isinstance(message, Response) and outcome_of(message, None) in (Outcome.ERROR, Outcome.TOOL_ERROR),
        is_answered=exchange is not None and exchange.response is not None,
        problem=_problem(message),
        rules=rules,
        level=level,
        session=seen.session.number or None,
        exchange=frames[0].exchange,
        frames=(frames[0].seq, frames[-1].seq),
        raw=raw,
    )


def facts_of_batch(frame: Frame) -> Facts:
    """The facts of a frame with several messages, as one."""
    return Facts(
        dir=frame.dir,
        kind=frame.verdict.kind,
        size=len(frame.raw),
        problem=frame.verdict.problem,
        exchange=frame.exchange,
        frames=(frame.seq, frame.seq),
        raw=frame.raw,
    )


def facts_of_record(record: Record) -> Facts:
    """The facts of a record that is not a message: its bytes, its number, and its HTTP exchange."""
    exchange = record.members.get("exchange")
    return Facts(
        raw=raw_bytes(record.members) or b"",
        exchange=exchange if type(exchange) is int else None,
        frames=(record.seq, record.seq),
    )


def _kind(message: Message) -> Kind:
    if isinstance(message, Request):
        return "request"
    if isinstance(message, Notification):
        return "notification"
    if isinstance(message, Response):
        return "error" if message.is_error else "response"
    return "unjudged" if message.reason == "unjudged" else "invalid"


def name_in(params: Any) -> str | None:
    """The name in params, given directly or by a reference to a prompt or resource."""
    if not isinstance(params, dict):
        return None
    reference = params.get("ref")
    for place in (params, reference if isinstance(reference, dict) else {}):
        for member in ("name", "uri"):
            value = place.get(member)
            if isinstance(value, str):
                return value
    return None


def _code(message: Message) -> int | None:
    error = message.error if isinstance(message, Response) and message.is_error else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if type(code) is int else None


def _problem(message: Message) -> str | None:
    """The problem of a message by itself; a problem of its batch is reported for the batch."""
    reason = message.reason if isinstance(message, Invalid) and message.reason != "unjudged" else None
    verdict = message.frames[0].verdict
    return reason if verdict.kind == "batch" else verdict.problem or reason
