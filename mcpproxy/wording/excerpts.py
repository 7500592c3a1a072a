"""Excerpts: the part of a payload that a finding is about, on one line, with carets below the place.

The place is located in the bytes themselves, in one pass over their tokens. This takes linear time regardless of
nesting, and an excerpt shows the bytes that crossed, not a parser's view of them. If the place does not exist, as with
a missing required member, the excerpt shows its container.
"""

import re
from typing import Final, NamedTuple

import orjson

from mcpproxy.sanitise import sanitise_bytes
from mcpproxy.wording.cells import cells, fit

TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{},:]|[^\s\[\]{},:"]++|"', re.DOTALL)
"""A string, a bracket, a comma or a colon, or a run of anything else except white space."""
_MAX_KEY_BYTES: Final = 4096
"""The most bytes of a member's name that is compared with a step of a pointer."""
_CONTEXT_BYTES: Final = 24
"""The number of bytes shown before the place if not all of them fit."""


class Excerpt(NamedTuple):
    """A payload, or as much of it as fits, safe on a screen."""

    text: str
    indent: int = 0
    """The number of cells before the carets."""
    carets: int = 0
    """The number of carets; 0 if no place is known."""
    is_plain: bool = True
    """Whether it shows the exact place and everything before it, so that the place need not be described."""


def excerpt(raw: bytes, pointer: str, width: int) -> Excerpt:
    """At most `width` cells of a payload, with carets below the value of a pointer if that is found.

    Without a pointer, the whole payload is at fault; then it has carets only if it is not JSON.
    """
    resolved_pointer, span = nearest(raw, pointer) if pointer else ("", None)
    if span is None or not resolved_pointer:
        text = fit(sanitise_bytes(raw, width + 1), width)
        if pointer or raw.lstrip()[:1] in (b"{", b"["):
            return Excerpt(text, is_plain=not pointer)
        return Excerpt(text, 0, cells(text))
    start, end = span
    value_text = sanitise_bytes(raw[start:end], width + 1)
    after_text = sanitise_bytes(raw[end : end + 4 * width], width + 1)
    before_text, is_whole = _before(raw, start, width * 2 // 3, width - cells(value_text + after_text))
    text = fit(before_text + value_text + after_text, width)
    indent = cells(before_text)
    return Excerpt(
        text, indent, max(1, min(cells(value_text), width - indent)), is_whole and resolved_pointer == pointer
    )


def _before(raw: bytes, start: int, width: int, spare_cells: int) -> tuple[str, bool]:
    """Returns what precedes a place, cut to leave room for the place itself, and whether that is all of it.

    Args:
        raw: the payload.
        start: where the place begins.
        width: the cells that it may take.
        spare_cells: the cells that the place and what follows it leave; it may take these, too.
    """
    if start <= width:
        text = sanitise_bytes(raw[:start], None)
        if cells(text) <= width:
            return text, True
    for context in (max(spare_cells - 1, _CONTEXT_BYTES), _CONTEXT_BYTES, _CONTEXT_BYTES // 4, 0):
        begin = max(0, start - context)
        while begin < start and 0x80 <= raw[begin] < 0xC0:
            begin += 1
        text = "…" + sanitise_bytes(raw[begin:start], None)
        if cells(text) <= max(width, spare_cells):
            return text, False
    return "", False


def nearest(raw: bytes, pointer: str) -> tuple[str, tuple[int, int] | None]:
    """Returns the part of a pointer that resolves, and the start and end of its value (None if nothing resolves)."""
    steps = pointer.split("/")
    search = _search(raw, pointer)
    if search.span is None:
        # A second pass finds the end of the value: only now is it known that the path leads no further.
        steps = steps[: search.reached + 1]
        search = _search(raw, "/".join(steps))
    return "/".join(steps), search.span


def locate(raw: bytes, pointer: str) -> tuple[int, int] | None:
    """Returns start and end of a JSON Pointer's value, in bytes, or None if there is none.

    Of two members with one name, the first counts. Invalid JSON may have places in its beginning.
    """
    return _search(raw, pointer).span


def _search(raw: bytes, pointer: str) -> "_Search":
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
        self._remaining_steps = path[::-1]
        """Steps still to be taken, the next one last."""
        self._step = ""
        """The next step within the current container."""
        self._is_on_path = True
        """Whether the next value is on the path."""
        self._is_in_array = self._is_at_key = False
        self._index = 0
        self._depth = 0
        """Open containers in a value that is skipped, or is the target."""
        self._start: int | None = None

    def feed(self, token: "re.Match[bytes]") -> bool:
        """Process the next token; return whether the search is over."""
        first_byte = token[0][:1]
        if token[0] == b'"':
            return True  # a string without an end
        if self._depth:
            return self._skip_token(first_byte, token)
        if first_byte in b",:":
            if first_byte == b",":
                self._on_comma()
            return False
        if first_byte in b"]}":
            return True
        if self._is_at_key:
            self._is_at_key = False
            self._is_on_path = len(token[0]) <= _MAX_KEY_BYTES and _text(token[0]) == self._step
            return False
        return self._on_value(first_byte, token)

    def _skip_token(self, first_byte: bytes, token: "re.Match[bytes]") -> bool:
        self._depth += (first_byte in b"[{") - (first_byte in b"]}")
        if self._depth or self._start is None:
            return False
        self.span = self._start, token.end()
        return True

    def _on_comma(self) -> None:
        self._index += 1
        self._is_at_key = not self._is_in_array
        self._is_on_path = self._is_in_array and self._step == str(self._index)

    def _on_value(self, first_byte: bytes, token: "re.Match[bytes]") -> bool:
        is_container = first_byte in b"[{"
        if not self._is_on_path:
            self._depth = int(is_container)
            return False
        self.reached += 1
        if not self._remaining_steps:
            self.span = None if is_container else token.span()
            self._start, self._depth = token.start(), int(is_container)
            return not is_container
        if is_container:
            self._step, self._index, self._is_in_array = self._remaining_steps.pop(), 0, first_byte == b"["
            self._is_at_key, self._is_on_path = not self._is_in_array, self._is_in_array and self._step == "0"
        return not is_container


def _text(token: bytes) -> object:
    try:
        return orjson.loads(token)
    except ValueError:
        return None
