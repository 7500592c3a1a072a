"""Excerpts: the part of a payload that a finding is about, on one line, with carets below the place.

The place is located in the bytes themselves, in one pass over their tokens, so any size and nesting takes linear time,
and an excerpt shows what crossed and not what a parser made of it. If the place is missing, as with a missing required
member, its container is shown.
"""

import re
from typing import Final, NamedTuple

import orjson

from mcpproxy.sanitise import sanitise_bytes
from mcpproxy.wording.cells import cells, fit

TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{},:]|[^\s\[\]{},:"]++|"', re.DOTALL)
"""A string, a bracket, comma or colon, or a run of anything else but blanks."""
_MAX_KEY_BYTES: Final = 4096
"""Bytes of a member's name that is compared with one of a pointer."""
_CONTEXT: Final = 24
"""Bytes shown before the place, if not all fits."""


class Excerpt(NamedTuple):
    """A payload, or as much of it as fits, safe on a screen."""

    text: str
    indent: int = 0
    """Cells before the carets."""
    carets: int = 0
    """How many; 0 if no place is known."""
    is_plain: bool = True
    """Whether it shows the exact place and everything before it, so that the place need not be described."""


def excerpt(raw: bytes, pointer: str, width: int) -> Excerpt:
    """A line of at most `width` cells of a payload, with carets for the value of a pointer where it is found.

    Without a pointer, all of it is at fault; then carets are worth a line only if it is not JSON.
    """
    there, span = nearest(raw, pointer) if pointer else ("", None)
    if span is None or not there:
        text = fit(sanitise_bytes(raw, width + 1), width)
        if pointer or raw.lstrip()[:1] in (b"{", b"["):
            return Excerpt(text, is_plain=not pointer)
        return Excerpt(text, 0, cells(text))
    start, end = span
    before, is_whole = _before(raw, start, width * 2 // 3)
    inside = sanitise_bytes(raw[start:end], width + 1)
    text = fit(before + inside + sanitise_bytes(raw[end : end + 4 * width], width + 1), width)
    indent = cells(before)
    return Excerpt(text, indent, max(1, min(cells(inside), width - indent)), is_whole and there == pointer)


def _before(raw: bytes, start: int, width: int) -> tuple[str, bool]:
    """Returns what precedes a place, cut to leave room for the place itself, and whether that is all of it."""
    if start <= width:
        text = sanitise_bytes(raw[:start], None)
        if cells(text) <= width:
            return text, True
    for context in (_CONTEXT, _CONTEXT // 4, 0):
        begin = max(0, start - context)
        while begin < start and 0x80 <= raw[begin] < 0xC0:
            begin += 1
        text = "…" + sanitise_bytes(raw[begin:start], None)
        if cells(text) <= width:
            return text, False
    return "", False


def nearest(raw: bytes, pointer: str) -> tuple[str, tuple[int, int] | None]:
    """Returns the part of a pointer that resolves, and the start and end of its value (None if nothing resolves)."""
    steps = pointer.split("/")
    search = _searched(raw, pointer)
    if search.span is None:
        # A second pass for its end: only now is it known that the path leads no further.
        steps = steps[: search.reached + 1]
        search = _searched(raw, "/".join(steps))
    return "/".join(steps), search.span


def locate(raw: bytes, pointer: str) -> tuple[int, int] | None:
    """Returns start and end of a JSON Pointer's value, in bytes, or None if there is none.

    Of two members with one name, the first counts. Invalid JSON may have places in its beginning.
    """
    return _searched(raw, pointer).span


def _searched(raw: bytes, pointer: str) -> "_Search":
    search = _Search([part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]])
    if not pointer or pointer.startswith("/"):
        for token in TOKEN.finditer(raw):
            if search.feed(token):
                break
    return search


class _Search:
    """Follows a path through the tokens of a value."""

    def __init__(self, path: list[str]) -> None:
        self.span: tuple[int, int] | None = None
        self.reached = -1
        """Steps resolved so far; -1 if there is no value at all."""
        self._left = path[::-1]
        """Steps still to be taken, the next one last."""
        self._step = ""
        """The next step within the current container."""
        self._wanted = True
        """Whether the next value is on the path."""
        self._in_array = self._at_key = False
        self._index = 0
        self._depth = 0
        """Open containers in a value that is skipped, or is the target."""
        self._start: int | None = None

    def feed(self, token: "re.Match[bytes]") -> bool:
        """Process the next token; return whether the search is over."""
        mark = token[0][:1]
        if token[0] == b'"':
            return True  # a string without an end
        if self._depth:
            return self._pass_over(mark, token)
        if mark in b",:":
            if mark == b",":
                self._turn_to_next()
            return False
        if mark in b"]}":
            return True
        if self._at_key:
            self._at_key = False
            self._wanted = len(token[0]) <= _MAX_KEY_BYTES and _text(token[0]) == self._step
            return False
        return self._value(mark, token)

    def _pass_over(self, mark: bytes, token: "re.Match[bytes]") -> bool:
        self._depth += (mark in b"[{") - (mark in b"]}")
        if self._depth or self._start is None:
            return False
        self.span = self._start, token.end()
        return True

    def _turn_to_next(self) -> None:
        self._index += 1
        self._at_key = not self._in_array
        self._wanted = self._in_array and self._step == str(self._index)

    def _value(self, mark: bytes, token: "re.Match[bytes]") -> bool:
        opens = mark in b"[{"
        if not self._wanted:
            self._depth = int(opens)
            return False
        self.reached += 1
        if not self._left:
            self.span = None if opens else token.span()
            self._start, self._depth = token.start(), int(opens)
            return not opens
        if opens:
            self._step, self._index, self._in_array = self._left.pop(), 0, mark == b"["
            self._at_key, self._wanted = not self._in_array, self._in_array and self._step == "0"
        return not opens


def _text(token: bytes) -> object:
    try:
        return orjson.loads(token)
    except ValueError:
        return None
