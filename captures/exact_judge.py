"""Judges one frame exactly, by a walk over the top level of its JSON that sees what parsers hide.

It finds duplicate members, the exact spelling of tokens, numbers of any length, NaN and lone surrogates: everything
that two readers of a frame may read differently. It is much slower than `envelope`, which calls it only for odd frames.
As it needs only the standard library, it also judges odd frames while orjson is still loading, and all frames if orjson
is not installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from json.decoder import JSONDecoder
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

from captures.limits import (
    ENVELOPE_MEMBERS,
    MAX_DEPTH,
    MAX_ENVELOPE_TEXT_BYTES,
    MAX_EXACTLY_JUDGED_BYTES,
    MAX_JUDGED_DEPTH,
    MAX_RECORDER_JUDGED_BYTES,
    MAX_SAFE_INTEGER,
    MAX_STRUCTURAL_CHARS,
    NOTIFICATION_PREFIX,
    RESERVED_PREFIX,
)
from captures.verdict import UNJUDGED, Direction, Envelope, Kind, Unit


def judge_before_forwarding(raw: bytes, direction: Direction = "c2s", *, whole: bool = True) -> Envelope:
    """Returns the exact verdict on a line that waits to be forwarded; `unjudged` above `MAX_EXACTLY_JUDGED_BYTES`."""
    return judge_exactly(raw, direction, whole=whole, limit=MAX_EXACTLY_JUDGED_BYTES)


def judge_exactly(
    raw: bytes,
    direction: Direction = "c2s",
    unit: Unit = "line",
    *,
    whole: bool = True,
    limit: int = MAX_RECORDER_JUDGED_BYTES,
) -> Envelope:
    """Returns the same verdict as `envelope.judge`, without using its fast path.

    Only the envelope members (`jsonrpc`, `id`, `method`, `params`, `result` and `error` at the top level) are checked
    for duplicates; the last one counts, as with most parsers. The elements of a batch are separate messages and are not
    examined.
    """
    if is_too_large_to_judge(raw, limit):
        return UNJUDGED
    try:
        text = raw.decode()
    except UnicodeDecodeError as fault:
        if whole or fault.reason != "unexpected end of data":
            return Envelope("invalid", problem="framing/invalid-utf8")
        text = raw.decode(errors="replace")  # a text cut within a character is no encoding error
    if text.startswith("\ufeff"):
        return _judge_text(text[1:], nesting_depth(raw), direction, unit, whole)._replace(problem="framing/bom")
    return _judge_text(text, nesting_depth(raw), direction, unit, whole)


def _judge_text(text: str, depth: int, direction: Direction, unit: Unit, whole: bool) -> Envelope:
    if depth > MAX_JUDGED_DEPTH and text[_skip_whitespace(text, 0)] in "[{":
        return Envelope("unjudged", problem="framing/too-deep")
    try:
        message = _JsonText(text, depth, is_unfinished=unit == "line" and not whole)
    except ValueError:
        return Envelope("invalid", problem=_not_json_rule(text, depth, direction, unit, whole))
    except RecursionError:  # the caller had used up the stack: Python 3.11 counts its frames and the parser's as one
        return Envelope("unjudged", problem="framing/too-deep")
    id_token, method = message.token("id"), message.string_value("method")
    omitted = [
        name
        for name, is_recordable in (("id", _is_recordable_id(id_token)), ("method", _is_recordable_method(method)))
        if not is_recordable
    ]
    rules = _RULES_BY_FIRST_CHAR.get(message.first_char, _TEXT_RULES)
    return Envelope(
        kind=message.kind,
        id=id_token.encode() if id_token and "id" not in omitted else None,
        method=method if "method" not in omitted else None,
        code=message.error_code if abs(message.error_code or 0) <= MAX_SAFE_INTEGER else None,
        problem=next((rule for rule, is_broken in rules if is_broken(message)), None),
        omitted=tuple(omitted),
    )


def _is_recordable_id(token: str) -> bool:
    if not token or token[0] in "[{" or len(token.encode()) > MAX_ENVELOPE_TEXT_BYTES:
        return not token
    # Other parsers must be able to read the record as well.
    if token[0] != '"':
        return token in ("true", "false", "null") or isfinite(float(token))
    try:
        return JSONDecoder().decode(token).encode() is not None
    except UnicodeEncodeError:
        return False


def _is_recordable_method(method: str | None) -> bool:
    try:
        return method is None or len(method.encode()) <= MAX_ENVELOPE_TEXT_BYTES
    except UnicodeEncodeError:
        return False


# --- reading one JSON text --------------------------------------------------------------------------------------------

_BRACKETS: Final = b"[]{}"
_DEPTH_STEPS: Final = bytes.maketrans(_BRACKETS, b"\x01\xff\x01\xff")
_NEITHER_BRACKET_NOR_QUOTE: Final = bytes(set(range(256)) - set(_BRACKETS + b'"'))
_WHITESPACE: Final = re.compile(r"[ \t\n\r]*+")
_COLON: Final = re.compile(r"[ \t\n\r]*+:[ \t\n\r]*+")
_COMMA_OR_BRACE: Final = re.compile(r"[ \t\n\r]*+([,}])[ \t\n\r]*+")
_JSON_TYPES: Final = {
    "": "absent",
    "{": "object",
    "[": "array",
    '"': "string",
    "t": "boolean",
    "f": "boolean",
    "n": "null",
}

_Decode: TypeAlias = Callable[[str, int], tuple[Any, int]]


class _Member(NamedTuple):
    value: Any
    token: str


class _JsonText:
    """One JSON text: the members at its top level, and any oddities found in it.

    Creating one raises ValueError if the text is not JSON. NaN and Infinity are accepted and noted, unless one of them
    is the whole text.
    """

    def __init__(self, text: str, depth: int, *, is_unfinished: bool) -> None:
        self.source = text
        self.is_deep = depth > MAX_DEPTH
        self.is_unfinished = is_unfinished
        self.has_constant = self.has_duplicate = False
        self.members: dict[str, _Member] = {}
        # Integers stay text, as int() refuses those of more than 4,300 digits.
        decode = JSONDecoder(parse_int=str, parse_constant=self._note_constant).raw_decode
        start = _skip_whitespace(text, 0)
        self.first_char = text[start : start + 1]
        if self.first_char == "{":
            self.members, self.has_duplicate, end = _read_members(text, start, ENVELOPE_MEMBERS, decode)
        else:
            self.value, end = decode(text, start)
        if _skip_whitespace(text, end) < len(text) or (self.has_constant and self.first_char not in "[{"):
            raise ValueError("not a single JSON value")
        self.json_types = {name: _json_type(member.token) for name, member in self.members.items()}
        self.kind = self._kind()
        self.outcome_types = {self.json_type("result"), self.json_type("error")}
        self.error_message_type = "absent"
        self.error_code: int | None = None
        if self.kind == "error" and self.json_type("error") == "object":
            error, _, _ = _read_members(self.token("error"), 0, frozenset({"code", "message"}), decode)
            self.error_message_type = _json_type(error["message"].token if "message" in error else "")
            self.error_code = _exact_integer(error["code"].token) if "code" in error else None

    def _note_constant(self, _constant: str) -> None:
        self.has_constant = True

    def _kind(self) -> Kind:
        """Returns the kind of message by its members; if there are a result and an error, the non-null one decides."""
        if self.first_char == "[":
            return "batch"
        if "method" in self:
            is_request = "result" in self or "error" in self or ("id" in self and not self.names_notification())
            return "request" if is_request else "notification"
        if "error" in self and ("result" not in self or self.json_type("error") != "null"):
            return "error"
        return "response" if "result" in self else "invalid"

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def token(self, name: str) -> str:
        """Returns the member's value as it is spelt, or an empty string if there is no such member."""
        return self.members[name].token if name in self.members else ""

    def json_type(self, name: str) -> str:
        """Returns the JSON type of the member's value, or `absent`."""
        return self.json_types.get(name, "absent")

    def string_value(self, name: str) -> str | None:
        """Returns the member's value if it is a string, or None."""
        return self.members[name].value if self.json_type(name) == "string" else None

    def names_notification(self) -> bool:
        """Whether the method's name has the prefix of notifications."""
        return (self.string_value("method") or "").startswith(NOTIFICATION_PREFIX)


def _read_members(
    text: str, position: int, names: frozenset[str], decode: _Decode
) -> tuple[dict[str, _Member], bool, int]:
    """Returns the wanted members of the object at `position`, whether any has a duplicate, and the position after it.

    The last of several duplicates is returned. The `json` module cannot be used for this, as it reports neither the
    position of a value nor its spelling.
    """
    members: dict[str, _Member] = {}
    has_duplicate = False
    position = _skip_whitespace(text, position + 1)
    if text.startswith("}", position):
        return members, has_duplicate, position + 1
    separator = ","
    while separator == ",":
        if not text.startswith('"', position):
            raise ValueError("expected a member name")
        name, position = decode(text, position)
        position = _expect(_COLON, text, position).end()
        value, end = decode(text, position)
        if name in names:
            has_duplicate = has_duplicate or name in members
            members[name] = _Member(value, text[position:end])
        next_token = _expect(_COMMA_OR_BRACE, text, end)
        separator, position = next_token[1], next_token.end()
    return members, has_duplicate, position


def _expect(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    match = pattern.match(text, position)
    if not match:
        raise ValueError(f"expected {pattern.pattern}")
    return match


def _skip_whitespace(text: str, position: int) -> int:
    return _expect(_WHITESPACE, text, position).end()


def _json_type(token: str) -> str:
    return _JSON_TYPES.get(token[:1], "number")


def nesting_depth(raw: bytes) -> int:
    """Returns how deeply the arrays and objects of a JSON text nest, or 0 if it has too few brackets to be deep.

    This takes one pass without recursion, and is exact up to the byte at which a parser would give up.
    """
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return 0
    brackets_and_quotes = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NEITHER_BRACKET_NOR_QUOTE)
    # Dropping `""` leaves fewer parts, and does not move any bracket into or out of a string.
    brackets = b"".join(brackets_and_quotes.replace(b'""', b"").split(b'"')[::2])
    return max(accumulate(memoryview(brackets.translate(_DEPTH_STEPS)).cast("b")), default=0)


_STRUCTURAL_CHARS: Final = b"[{,:"
_NEITHER_STRUCTURAL_NOR_QUOTE: Final = bytes(set(range(256)) - set(_STRUCTURAL_CHARS + b'"'))
_CHUNK_BYTES: Final = 64 << 10


def is_too_large_to_judge(raw: bytes, limit: int) -> bool:
    """Whether a frame has more bytes than `limit`, or more structural characters than `MAX_STRUCTURAL_CHARS`."""
    size = len(raw)
    if size <= MAX_STRUCTURAL_CHARS or size > limit:
        return size > limit
    return sum(map(raw.count, _STRUCTURAL_CHARS)) > MAX_STRUCTURAL_CHARS and _has_too_many_structural_chars(raw)


def _has_too_many_structural_chars(raw: bytes) -> bool:
    """Whether a frame has too many structural characters outside strings; JSON inside a string is a single value."""
    structure = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NEITHER_STRUCTURAL_NOR_QUOTE)
    remaining, is_inside = MAX_STRUCTURAL_CHARS, False
    # Splitting the whole text at once could take forty times as much memory.
    for start in range(0, len(structure), _CHUNK_BYTES):
        segments = structure[start : start + _CHUNK_BYTES].split(b'"')
        remaining -= sum(map(len, segments[is_inside::2]))
        if remaining < 0:
            return True
        is_inside ^= len(segments) % 2 == 0
    return False


_NUMBER: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]*))?")


def _exact_integer(token: str) -> int | None:
    """Returns the integer that a JSON number equals exactly, clamped to ±2^53, or None if it has a fraction."""
    if len(token) < 16 and token.isdigit():
        return int(token)
    number = _NUMBER.fullmatch(token)
    if not number:
        return None
    sign, integer, fraction, exponent_sign, exponent = number.groups(default="")
    digits = (integer + fraction).rstrip("0")
    point_position = len(integer) + int(exponent_sign + (exponent[:18] or "0"))
    significant_digits = digits.lstrip("0")
    if significant_digits and len(digits) > point_position:
        return None
    length = len(significant_digits) + point_position - len(digits)
    magnitude = (
        int(significant_digits.ljust(length, "0"))
        if significant_digits and length <= 16
        else (MAX_SAFE_INTEGER + 1 if significant_digits else 0)
    )
    return int(sign + "1") * min(magnitude, MAX_SAFE_INTEGER + 1)


# --- not JSON ---------------------------------------------------------------------------------------------------------

_LSP_HEADER: Final = re.compile(
    r"[ \t]*content-length:[ \t]*[0-9]+[ \t\r;,]*(?:content-type:.*)?", re.IGNORECASE | re.DOTALL
)
_NOT_JSON: Final = {"c2s": "framing/stdin-not-json", "s2c": "framing/stdout-not-json"}
_MAX_COUNTED_VALUES: Final = 1000  # a line with so many values need not be examined further


def _not_json_rule(text: str, depth: int, direction: Direction, unit: Unit, whole: bool) -> str | None:
    """Returns the rule that a text breaks because it is not a single JSON value.

    Returns None for an HTTP body, and for an event that is empty or was cut short: whether these break a rule depends
    on the exchange.
    """
    if unit != "line":
        return "sse/data-not-json" if unit == "sse_event" and text and whole else None
    if not text.strip(" \t\n\r\v\f"):
        return "framing/blank-line"
    if _LSP_HEADER.fullmatch(text):
        return "framing/lsp-header"
    if depth <= MAX_JUDGED_DEPTH and _contains_several_values(text):
        return "framing/several-messages-on-a-line"
    return _NOT_JSON[direction] if whole else "framing/truncated-message"


def _contains_several_values(text: str) -> bool:
    """Whether a text consists of several JSON values in a row, with or without whitespace between them."""
    decode = JSONDecoder(parse_int=str).raw_decode
    position, end = _skip_whitespace(text, 0), -1
    for count in range(_MAX_COUNTED_VALUES):
        if position == len(text):
            return count > 1
        if position == end and text[position - 1] not in '"]}' and text[position] not in '"[{':
            return False
        try:
            _, end = decode(text, position)
        except (ValueError, RecursionError):
            return False
        position = _skip_whitespace(text, end)
    return True


# --- JSON that breaks a rule ------------------------------------------------------------------------------------------

_HIGH_SURROGATE: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW_SURROGATE: Final = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE: Final = re.compile(f"{_HIGH_SURROGATE}(?!{_LOW_SURROGATE})|(?<!{_HIGH_SURROGATE}){_LOW_SURROGATE}")


def has_lone_surrogate(text: str) -> bool:
    """Whether a string in a JSON text has an escape for only one half of a surrogate pair."""
    # An escaped backslash is replaced, not removed: otherwise the characters around it could form a new escape.
    return "\\u" in text and _LONE_SURROGATE.search(text.replace("\\\\", "__")) is not None


def _is_invalid_id(json: _JsonText) -> bool:
    json_type = json.json_type("id")
    return json_type in ("boolean", "object", "array") or (
        json_type == "number" and _exact_integer(json.token("id")) is None
    )


_Rule: TypeAlias = tuple[str, Callable[[_JsonText], bool]]

# In the order of the rule catalogue: the first rule that a frame breaks becomes its `problem`.
_TEXT_RULES: Final[tuple[_Rule, ...]] = (
    ("framing/not-a-message", lambda json: json.first_char not in "[{"),
    ("framing/missing-final-newline", lambda json: json.is_unfinished),
    ("framing/too-deep", lambda json: json.is_deep),
    ("framing/duplicate-key", lambda json: json.has_duplicate),
    ("framing/non-json-number", lambda json: json.has_constant),
    ("framing/lone-surrogate", lambda json: has_lone_surrogate(json.source)),
)
_OBJECT_RULES: Final[tuple[_Rule, ...]] = (
    ("jsonrpc/missing-version", lambda json: "jsonrpc" not in json),
    ("jsonrpc/wrong-version", lambda json: json.string_value("jsonrpc") != "2.0"),
    ("jsonrpc/unclassifiable", lambda json: json.kind == "invalid"),
    ("jsonrpc/method-not-string", lambda json: "method" in json and not json.string_value("method")),
    ("jsonrpc/reserved-method", lambda json: (json.string_value("method") or "").startswith(RESERVED_PREFIX)),
    ("jsonrpc/method-with-result", lambda json: "method" in json and json.outcome_types != {"absent"}),
    ("jsonrpc/result-and-error", lambda json: json.outcome_types.isdisjoint({"absent", "null"})),
    (
        "jsonrpc/null-sibling",
        lambda json: "null" in json.outcome_types and not json.outcome_types <= {"absent", "null"},
    ),
    ("jsonrpc/result-not-object", lambda json: json.kind == "response" and json.json_type("result") != "object"),
    ("jsonrpc/result-without-id", lambda json: json.kind == "response" and json.json_type("id") in ("absent", "null")),
    ("jsonrpc/params-by-position", lambda json: "method" in json and json.json_type("params") == "array"),
    (
        "jsonrpc/params-not-object",
        lambda json: "method" in json and json.json_type("params") in ("string", "number", "boolean"),
    ),
    ("jsonrpc/params-null", lambda json: "method" in json and json.json_type("params") == "null"),
    ("jsonrpc/error-not-object", lambda json: json.kind == "error" and json.json_type("error") != "object"),
    ("jsonrpc/error-code-not-integer", lambda json: json.kind == "error" and json.error_code is None),
    ("jsonrpc/error-message-missing", lambda json: json.kind == "error" and json.error_message_type != "string"),
    ("jsonrpc/notification-with-id", lambda json: json.names_notification() and "id" in json),
    ("id/null", lambda json: json.kind == "request" and json.json_type("id") == "null"),
    ("id/not-string-or-integer", lambda json: json.kind == "request" and _is_invalid_id(json)),
    (
        "id/unsafe-integer",
        lambda json: json.kind == "request" and abs(_exact_integer(json.token("id")) or 0) > MAX_SAFE_INTEGER,
    ),
)
_BATCH_RULES: Final[tuple[_Rule, ...]] = (("batch/empty", lambda json: json.value == []),)
_RULES_BY_FIRST_CHAR: Final = {"{": _TEXT_RULES + _OBJECT_RULES, "[": _TEXT_RULES + _BATCH_RULES}
