"""Reads objects that Python or JavaScript printed: `Request(id=1, params={'a': None})`, `{ id: 1, params: [Object] }`.

Printed objects are not JSON. They may lack nested values, and a log may have cut them. The reader takes linear time and
limits the depth. Most objects differ from JSON only in their quotes. The JSON parser reads these several times as fast.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from orjson import JSONDecodeError, loads

from mcpproxy.importers.source import json_of

MAX_PRINTED_DEPTH: Final = 100
"""Levels of nesting. JavaScript prints three by default."""
_TOKEN: Final = re.compile(
    r"""\s*+(?:(?P<text>b?(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|`(?:[^`\\]|\\.)*+`))
    | (?P<skipped>\#[^\n]*+|\[Object:\ null\ prototype\]|<ref\ \*\d+>)
    | (?P<more>\.\.\.\ \d+\ more\ (?:items?|characters?|properties|property))
    | (?P<hidden>\[(?:Object|Array|Circular\ \*\d+|(?:[GS]etter|Function|Symbol|class)\b[^\]\n]*+)\]|<[^<>\n]*+>)
    | (?P<number>-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?n?)(?![\w.])
    | (?P<name>[A-Za-z_$][\w$.]*+)
    | (?P<mark>[{}\[\](),:=+]))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_BYTES: Final = re.compile(
    r"""b(?P<quote>["'])(?P<text>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P<end>(?P=quote)?)""", re.DOTALL
).match
_ESCAPED_CHARACTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_WORDS: Final = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_NOT_JSON: Final = re.compile(r"""["\\`\x00]|[0-9]{16}""").search
"""Matches what the JSON parser could misread once the quotes are replaced: other quotes, escapes, and long numbers,
which it may round."""
_UNQUOTED_NAME: Final = re.compile(r"([A-Za-z_$][\w$]*+)(?=:)")
_HIDDEN: Final = object()
"""Represents a value that was not printed."""
_UNDEFINED: Final = object()
"""Represents `undefined`, which JSON leaves out."""


@dataclass(frozen=True, slots=True)
class PrintedObject:
    """An object that was read from its printed form."""

    members: dict[str, Any]
    is_whole: bool
    """Whether all of the object was printed. Members that were not printed are absent."""

    @property
    def json(self) -> bytes:
        """The object as JSON."""
        return json_of(self.members)


def printed_object(text: str) -> PrintedObject | None:
    """Returns the object at the beginning of a text, which may be cut; None if there is none.

    Args:
        text: `{'a': 1}` or `{ a: 1 }`, with or without the name of a class before it; `Name(a=1)`; or `a=1 b=2`. Text
            after the object is ignored.
    """
    members = json_like_members(text)
    return printed_object_by_tokens(text) if members is None else PrintedObject(members, is_whole=True)


def json_like_members(text: str) -> dict[str, Any] | None:
    """Returns the members of an object that differs from JSON only in its quotes; None for other texts."""
    if not text.startswith("{") or _NOT_JSON(text) or text.count("{") + text.count("[") > MAX_PRINTED_DEPTH:
        return None
    parts = text.split("'")
    if not len(parts) % 2:
        return None
    # Every other piece is a string and must not change.
    parts[::2] = '"'.join(_UNQUOTED_NAME.split("\0".join(parts[::2]))).split("\0")
    try:
        members = loads('"'.join(parts))
    except JSONDecodeError:
        return None
    return members if isinstance(members, dict) else None


def printed_object_by_tokens(text: str) -> PrintedObject | None:
    """Returns the same as `printed_object`, without trying the JSON parser first."""
    reader = _Reader(text)
    try:
        members = reader.read_members()
    except _Unreadable:
        return None
    return PrintedObject(members, reader.is_whole)


def printed_bytes(text: str) -> tuple[bytes, bool] | None:
    """Returns the bytes that Python printed (`b'…'`) at the beginning of a text, and whether they have a closing quote.

    Returns None if the text does not begin with bytes.
    """
    match = _BYTES(text)
    return match and (_unescaped(match["text"]).encode("latin-1", "replace"), bool(match["end"]))


class _Unreadable(Exception):
    """A text is not a printed object."""


class _Reader:
    """Reads the printed object at the beginning of a text."""

    def __init__(self, text: str) -> None:
        self.is_whole = True
        self._text, self._offset = text, 0
        self._kind = self._word = ""
        """The next token: its group in `_TOKEN`, and its text. Both are empty at the end, or at an unknown token."""
        self._match = _TOKEN.scanner(text).match  # type: ignore[attr-defined] # undocumented, but `finditer` uses it, too
        self._advance()

    def read_members(self) -> dict[str, Any]:
        """Returns the object at the beginning."""
        if self._names_argument:
            return self._read_pairs("=", "", 0)
        value = self._read_value(0)
        if not isinstance(value, dict):
            raise _Unreadable
        return value

    @property
    def _names_argument(self) -> bool:
        return self._kind == "name" and self._text.startswith("=", self._offset)

    def _advance(self) -> None:
        match = self._match()
        while match is not None and match.lastgroup == "skipped":
            match = self._match()
        if match is None:
            self._kind = self._word = ""
            return
        kind = match.lastgroup
        self._kind, self._word, self._offset = kind, match[kind], match.end()

    def _skip_mark(self, mark: str) -> bool:
        if self._word != mark or self._kind != "mark":
            return False
        self._advance()
        return True

    def _check_cut(self) -> bool:
        """Returns whether the text ends here or continues with an unknown token; then the object is not whole."""
        self.is_whole &= bool(self._kind)
        return not self._kind

    def _read_value(self, depth: int) -> Any:
        if depth > MAX_PRINTED_DEPTH:
            raise _Unreadable
        kind, word = self._kind, self._word
        if not kind:
            return self._mark_hidden()
        if kind == "text":
            return self._read_string()
        self._advance()
        if kind == "number":
            return self._number(word.rstrip("n"))
        if kind == "hidden":
            return self._mark_hidden()
        if kind == "name":
            return self._read_named_value(word, depth)
        if word == "{":
            return self._read_pairs(":", "}", depth)
        if word in ("[", "("):
            return self._read_items("]" if word == "[" else ")", depth)
        raise _Unreadable

    def _number(self, word: str) -> int | float:
        try:
            return int(word) if word.lstrip("-").isdigit() else float(word)
        except ValueError:
            raise _Unreadable from None

    def _read_named_value(self, word: str, depth: int) -> Any:
        if self._skip_mark("("):
            return self._read_arguments(depth)
        if self._skip_mark("{"):
            return self._read_pairs(":", "}", depth)
        if word in _WORDS:
            return _WORDS[word]
        self.is_whole &= word == "undefined"
        return _UNDEFINED if word == "undefined" else _HIDDEN

    def _read_arguments(self, depth: int) -> Any:
        """Read the arguments of a constructor; returns its names and values, or its only value."""
        if self._names_argument:
            return self._read_pairs("=", ")", depth)
        items = self._read_items(")", depth)
        # JavaScript prints `Map(1) { … }`.
        if self._skip_mark("{"):
            return self._read_pairs("=", "}", depth)
        return items[0] if len(items) == 1 else self._mark_hidden()

    def _mark_hidden(self) -> object:
        self.is_whole = False
        return _HIDDEN

    def _read_pairs(self, separator: str, end: str, depth: int) -> dict[str, Any]:
        """Read names and values up to `end`, or, if that is empty, up to anything else."""
        pairs: dict[str, Any] = {}
        while not (end and self._skip_mark(end)):
            if self._kind == "more":
                self.is_whole = False
                self._advance()
                continue
            if not end and not self._names_argument:
                return pairs
            name = self._read_name()
            if not self._skip_mark(separator):
                if self._check_cut():
                    return pairs
                raise _Unreadable
            value = self._read_value(depth + 1)
            # The Python SDK sends no members of its models without a value, except the id of an error.
            is_unset = separator == "=" and value is None and name != "id"
            if value is not _HIDDEN and value is not _UNDEFINED and not is_unset:
                pairs[name] = value
            if not self._skip_mark(",") and self._word != end and end and not self._check_cut():
                raise _Unreadable
        return pairs

    def _read_name(self) -> str:
        word = self._word
        if self._kind == "text":
            return str(self._read_string())
        if self._kind not in ("name", "number", ""):
            raise _Unreadable
        self._advance()
        return word

    def _read_items(self, end: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._skip_mark(end):
            if self._kind == "more":
                self.is_whole = False
                self._advance()
                continue
            if self._check_cut():
                return items
            value = self._read_value(depth + 1)
            if value is not _HIDDEN:
                items.append(None if value is _UNDEFINED else value)
            if not self._skip_mark(",") and self._word != end and not self._check_cut():
                raise _Unreadable
        return items

    def _read_string(self) -> str:
        """Read a string, which JavaScript may have split: `'a\\n' + 'b'`."""
        parts = [_unescaped(self._word.removeprefix("b")[1:-1])]
        self._advance()
        while self._skip_mark("+") and not self._check_cut():
            if self._kind != "text":
                raise _Unreadable
            parts.append(_unescaped(self._word[1:-1]))
            self._advance()
        if self._kind == "more":
            self.is_whole = False
            self._advance()
        return "".join(parts)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    escaped_char = match[5]
    if escaped_char is not None:
        return _ESCAPED_CHARACTERS.get(escaped_char, escaped_char)
    code = int(next(digits for digits in match.groups()[:4] if digits), 16)
    return chr(code) if code <= 0x10FFFF else "\ufffd"
