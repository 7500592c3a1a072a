"""Finds the first position at which a text is not JSON, and explains it to the user.

Python's parser is fast, but its messages are for programmers, and it does not accept comments. So a text that it
refuses is parsed again here, token by token. For a large text, the position that Python reports is used instead.
"""

from __future__ import annotations

import json
import re
from typing import Final

from mcpproxy.clients.documents.edits import ConfigError

MAX_DEPTH: Final = 200
"""The maximum depth of nested values, because the examiner recurses for each level."""
MAX_EXAMINED_CHARS: Final = 2 << 20
"""Larger texts are not parsed again, because that takes a second for each MiB."""
COMMENT_MARKS: Final = ("//", "/*")

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_SCALAR: Final = re.compile(r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+-])")
_CONSTANT: Final = re.compile(r"-?(?:NaN|Infinity)\b")
_STRING_OR_CONSTANT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|(-?(?:NaN|Infinity)\b)', re.DOTALL)


def parse_error(text: str, plain_text: str, *, strict: bool) -> ConfigError:
    """Returns the error for a text that does not parse.

    Args:
        text: the text of the file.
        plain_text: the text without comments and trailing commas, with every character at its original position.
        strict: whether the client refuses comments and trailing commas.
    """
    if len(text) <= MAX_EXAMINED_CHARS:
        try:
            _Examiner(text, strict).parse_document()
        except ConfigError as error:
            return error
        return ConfigError("a number has too many digits")  # Python refuses integers of more than 4300 digits
    try:
        json.loads(plain_text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return error_at(text, error.pos, error.msg.lower())
    except _NotJson as error:
        constant = next(match for match in _STRING_OR_CONSTANT.finditer(plain_text) if match[1])
        return error_at(text, constant.start(1), str(error))
    except ValueError:
        return ConfigError("a number has too many digits")
    except RecursionError:
        return ConfigError(f"values are nested more than {MAX_DEPTH} deep")
    position = next(
        index for index, (char, plain_char) in enumerate(zip(text, plain_text, strict=True)) if char != plain_char
    )
    fault_name = "a comma before a closing bracket" if text[position] == "," else "a comment"
    return error_at(text, position, f"{fault_name}, which this client refuses")


def error_at(text: str, position: int, reason: str) -> ConfigError:
    """Returns an error whose text begins with the line and column of a position."""
    line = text.count("\n", 0, position) + 1
    return ConfigError(f"line {line}, column {position - text.rfind(chr(10), 0, position)}: {reason}")


class _NotJson(ValueError):
    """The text contains a constant that only Python accepts."""


def _refuse_constant(constant: str) -> None:
    raise _NotJson(f"{constant} is not JSON")


class _Examiner:
    """Parses a text up to its first fault."""

    def __init__(self, text: str, strict: bool) -> None:
        self._text = text
        self._is_strict = strict
        self._position = 0

    def parse_document(self) -> None:
        """Parse the whole text.

        Raises:
            ConfigError: the text is not JSON.
        """
        self._parse_value(0)
        self._skip_blanks()
        if self._position < len(self._text):
            raise self._error("there is more text behind the end of the file's value")

    def _parse_value(self, depth: int) -> None:
        self._skip_blanks()
        if depth > MAX_DEPTH:
            raise self._error(f"values are nested more than {MAX_DEPTH} deep")
        char = self._text[self._position : self._position + 1]
        if char == "{":
            self._parse_object(depth)
            return
        if char == "[":
            self._parse_array(depth)
            return
        match = (_STRING if char == '"' else _SCALAR).match(self._text, self._position)
        if match is None:
            constant = _CONSTANT.match(self._text, self._position)
            if constant is not None:
                raise self._error(f"{constant[0]} is not JSON")
            raise self._error("a value is missing" if char in ("", ",", "}", "]", ":") else "this is not a JSON value")
        self._position = match.end()

    def _parse_object(self, depth: int) -> None:
        self._position += 1
        has_members = False
        while not self._skip_separator("}", has_members):
            has_members = True
            match = _STRING.match(self._text, self._position)
            if match is None:
                raise self._error("the name of a member in double quotes is missing")
            self._position = match.end()
            self._skip_blanks()
            if self._text[self._position : self._position + 1] != ":":
                raise self._error("a colon is missing behind the name of a member")
            self._position += 1
            self._parse_value(depth + 1)

    def _parse_array(self, depth: int) -> None:
        self._position += 1
        has_items = False
        while not self._skip_separator("]", has_items):
            has_items = True
            self._parse_value(depth + 1)

    def _skip_separator(self, bracket: str, is_after_item: bool) -> bool:
        """Returns whether the bracket comes next, and skips it; otherwise skips the comma before the next item."""
        self._skip_blanks()
        char = self._text[self._position : self._position + 1]
        if char == bracket:
            self._position += 1
            return True
        if is_after_item:
            if char != ",":
                raise self._error(f"a comma or {bracket} is missing" if char else f"the closing {bracket} is missing")
            comma = self._position
            self._position += 1
            self._skip_blanks()
            if self._text[self._position : self._position + 1] == bracket:
                if self._is_strict:
                    raise error_at(self._text, comma, "a comma before a closing bracket, which this client refuses")
                self._position += 1
                return True
        elif not char:
            raise self._error(f"the closing {bracket} is missing")
        return False

    def _skip_blanks(self) -> None:
        while True:
            match = _BLANK.match(self._text, self._position)
            assert match is not None
            self._position = match.end()
            comment_start = self._text[self._position : self._position + 2]
            if comment_start not in COMMENT_MARKS:
                return
            if self._is_strict:
                raise self._error("a comment, which this client refuses")
            end = self._text.find("\n" if comment_start == "//" else "*/", self._position + 2)
            if end < 0 and comment_start == "/*":
                raise self._error("a comment is not closed")
            self._position = len(self._text) if end < 0 else end + (0 if comment_start == "//" else 2)

    def _error(self, reason: str) -> ConfigError:
        return error_at(self._text, self._position, reason)
