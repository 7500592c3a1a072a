"""Places in results that the user ignores: `--ignore`, and the file that `--learn` writes.

A place is a line of text: `[METHOD [NAME]] POINTER`. `/structuredContent/items/*/age` is ignored in the results of all
calls, `tools/call search /structuredContent/took` only in those of one. A method, name or pointer with spaces or quotes
is written as a JSON string; the pointer `""` is the whole result. In a pointer, `*` is any member or element.

What is ignored may change in every way, and be absent; only an element of a list still counts in the list's length.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from analysis.comparison.values.normaliser import PassedValue, checksum
from analysis.comparison.values.varying_text import placeholder
from analysis.protocol.json_pointer import decode_steps

HEAD: Final = "# mcpproxy ignore 1"
"""The first line of a file, with the version of its format."""
ANY_STEP: Final = "*"
MAX_PLACES: Final = 10_000
"""The most lines with places in a file."""
MAX_LINE_CHARS: Final = 10_000

_IGNORED: Final = placeholder("ignored")
_WORD: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s"]+)(?=\s|$)')
_PLAIN: Final = re.compile(r"[!#-~]+")
"""Printable ASCII without quotes."""
_MAX_WORDS: Final = 3


class IgnoreError(ValueError):
    """Raised if a text is not a place to ignore; the message says what was expected, and in a file, in which line."""


class IgnoredPlace(NamedTuple):
    """A place in the results of some calls."""

    line: str
    """The place as the user wrote it."""
    steps: tuple[str, ...]
    """The decoded steps of the pointer; `*` is any step."""
    method: str = ""
    """The method of the calls; empty for all."""
    name: str = ""
    """The tool, prompt or resource that the calls name; empty for all."""

    def is_of(self, method: str, name: str) -> bool:
        """Whether the place is in the results of a call."""
        return self.method in ("", method) and self.name in ("", name)


def parse_place(line: str) -> IgnoredPlace:
    """Returns the place that a line names.

    Raises:
        IgnoreError: it names none.
    """
    words = _words(line)
    if not 0 < len(words) <= _MAX_WORDS:
        raise IgnoreError("expected `[METHOD [NAME]] POINTER`, such as `tools/call search /structuredContent/took`")
    *call, pointer = words
    if pointer and not pointer.startswith("/"):
        raise IgnoreError('expected a JSON Pointer that begins with `/`, or `""` for everything')
    method, name = [*call, "", ""][:2]
    return IgnoredPlace(line.strip(), tuple(decode_steps(pointer)), method, name)


def place_line(method: str, name: str, pointer: str) -> str:
    """Returns the line for a place in the results of one call, in printable ASCII."""
    words = [method, name, pointer] if name else [method, pointer]
    return " ".join(map(_word, words))


def read_places(lines: Iterable[str]) -> tuple[str, ...]:
    """Returns the places in the lines of a file, each as a line; comments and blank lines are left out.

    Raises:
        IgnoreError: the first line is not the head, or a line is not a place; the message names the line.
    """
    places: list[str] = []
    number = 0
    for number, line in enumerate(lines, 1):
        text = line[: MAX_LINE_CHARS + 1].strip()
        if number == 1:
            _check_head(text)
        if not text or text.startswith("#"):
            continue
        if len(text) > MAX_LINE_CHARS:
            raise IgnoreError(f"line {number}: expected at most {MAX_LINE_CHARS:,} characters")
        try:
            parse_place(text)
        except IgnoreError as error:
            raise IgnoreError(f"line {number}: {error}") from None
        places.append(text)
        if len(places) > MAX_PLACES:
            raise IgnoreError(f"line {number}: expected at most {MAX_PLACES:,} places")
    if not number:
        _check_head("")
    return tuple(places)


def ignore_file(places: Sequence[str]) -> str:
    """Returns the text of a file with these places."""
    return "".join(f"{line}\n" for line in (HEAD, *places))


def pass_over(value: Any, places: Sequence[IgnoredPlace]) -> tuple[Any, list[PassedValue]]:
    """Returns a normalised value without what is at these places, and what that was; the value stays as it is."""
    passed: list[PassedValue] = []
    for place in places:
        value = _without(value, place.steps, place.line, passed)
    return value, passed


def _without(value: Any, steps: tuple[str, ...], line: str, passed: list[PassedValue]) -> Any:
    if not steps:
        return _note(value, line, passed)
    step, *others = steps
    is_last = not others
    if isinstance(value, dict):
        names = sorted(value) if step == ANY_STEP else [step] if step in value else []
        if not names:
            return value
        result = dict(value)
        for name in names:
            if is_last:
                _note(result.pop(name), line, passed)
            else:
                result[name] = _without(result[name], tuple(others), line, passed)
        return result
    if isinstance(value, list):
        indexes = range(len(value)) if step == ANY_STEP else _index(step, len(value))
        elements = list(value)
        for index in indexes:
            elements[index] = _without(elements[index], tuple(others), line, passed)
        return elements
    return value


def _note(value: Any, line: str, passed: list[PassedValue]) -> str:
    if value != _IGNORED:
        passed.append(PassedValue(line, checksum(value)))
    return _IGNORED


def _index(step: str, length: int) -> list[int]:
    is_index = step.isascii() and step.isdigit() and len(step) <= len(str(length))
    return [int(step)] if is_index and int(step) < length else []


def _words(line: str) -> list[str]:
    words: list[str] = []
    position = 0
    line = line.strip()
    while position < len(line) and len(words) <= _MAX_WORDS:
        match = _WORD.match(line, position)
        if match is None:
            raise IgnoreError("expected words separated by spaces, or JSON strings")
        position = match.end()
        word = match[1]
        if word.startswith('"'):
            try:
                word = json.loads(word)
            except ValueError:
                raise IgnoreError(f"expected a JSON string instead of {word}") from None
        words.append(word)
    return words


def _word(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and not text.startswith("#") else json.dumps(text)


def _check_head(text: str) -> None:
    if text == HEAD:
        return
    if re.fullmatch(r"# mcpproxy ignore [0-9]{1,9}", text):
        raise IgnoreError("line 1: a later version of mcpproxy wrote this file; update mcpproxy")
    raise IgnoreError(f"line 1: expected `{HEAD}`")
