"""Edits JSON text in place, with or without comments and trailing commas.

The grammar is that of VS Code's settings: RFC 8259 with `//` and `/* */` comments, and with a comma before a closing
bracket. In a strict file, neither is allowed. No library edits such a file in place: the libraries that read comments
reformat it.

Python's parser reads the text, because some files contain megabytes of a client's history. Comments are first replaced
by spaces, which preserves all positions. Values that no edit concerns are only skipped.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from mcpproxy.clients.documents.editable_text import EditableText
from mcpproxy.clients.documents.edits import AddMember, Item, MovedValue, Path
from mcpproxy.clients.documents.json_faults import COMMENT_MARKS, parse_error
from mcpproxy.clients.documents.splice import Span, Splices, blank_before

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = r"//[^\n]*+|/\*(?:.*?\*/|.*)"
_BLANKS_AND_COMMENTS: Final = rf"(?:[ \t\r\n]|{_COMMENT})*+"
_STRING_OR_EXTRA: Final = re.compile(
    rf'"(?:[^"\\]|\\.)*+"?|{_COMMENT}|,(?={_BLANKS_AND_COMMENTS}[}}\]])|[\[{{](?={_BLANKS_AND_COMMENTS},)',
    re.DOTALL,
)
"""Matches a string, a comment, a trailing comma, or a bracket followed by a comma.

An unclosed string or comment extends to the end of the text, and the pattern does not backtrack: a hostile file must
not take quadratic time.
"""
_DECODER: Final = json.JSONDecoder()


class MemberSpans(NamedTuple):
    """The spans of a member of an object."""

    key: Span
    value: Span


class JsonText(EditableText):
    """A JSON file."""

    COMMENT_MARKS = COMMENT_MARKS

    def __init__(self, text: str, *, strict: bool) -> None:
        """Parse a file.

        Args:
            text: the text of the file, without a byte-order mark.
            strict: whether the client refuses comments and trailing commas.

        Raises:
            ConfigError: it is not JSON; the text of the error names the line.
        """
        self.text = text
        self._plain_text = text
        self._members_at: dict[int, dict[str, MemberSpans]] = {}
        try:
            self.data = _parse(text)
        except (ValueError, RecursionError):
            self._plain_text = _STRING_OR_EXTRA.sub(_replacement, text)
            try:
                self.data = _parse(text if strict else self._plain_text)
            except (ValueError, RecursionError):
                raise parse_error(text, self._plain_text, strict=strict) from None

    def _add_member(self, edit: AddMember, splices: Splices) -> None:
        start, end = self._value_span(edit.after)
        key = self._key_span(edit.after)
        blank_text = blank_before(self.text, key[0])
        colon = self.text[key[1] : start]
        separator = blank_text if "\n" in blank_text else " "
        colon = colon if colon.strip() == ":" else ": "
        value = self._value_text(edit.value, edit.after)
        splices.insert(end, f",{separator}{self._key_text(edit.key)}{colon}{value}")

    def _remove_member(self, path: Path, splices: Splices) -> None:
        members = list(self._members_of(self._value_span(path[:-1])[0]).items())
        index = [name for name, _ in members].index(str(path[-1]))
        key, value = members[index][1]
        if index:
            splices.replace((members[index - 1][1].value[1], value[1]), "")
        else:
            splices.replace((key[0], members[1][1].key[0] if len(members) > 1 else value[1]), "")

    def _value_span(self, path: Path) -> Span:
        span = self._next_value_span(0)
        for key in path:
            opening_bracket = self._plain_text[span[0]]
            if opening_bracket == "{":
                span = self._members_of(span[0])[str(key)].value
            elif opening_bracket == "[" and isinstance(key, int):
                span = self._item_spans(span[0])[key]
            else:
                raise TypeError(key)
        return span

    def _key_span(self, path: Path) -> Span:
        start, _ = self._value_span(path[:-1])
        if self._plain_text[start] != "{":
            raise TypeError(path[-1])
        return self._members_of(start)[str(path[-1])].key

    def _list_spans(self, path: Path) -> tuple[Span, list[Span]]:
        span = self._value_span(path)
        if self._plain_text[span[0]] != "[":
            raise TypeError(path[-1])
        return span, self._item_spans(span[0])

    def _key_text(self, key: str) -> str:
        return json.dumps(key)

    def _word_text(self, item: Item) -> str:
        if isinstance(item, MovedValue):
            return self.text[slice(*self._value_span(item.path))]
        return json.dumps(item, ensure_ascii=False)

    def _next_value_span(self, position: int) -> Span:
        """Returns the span of the next value."""
        start = self._after_blanks(position)
        return start, _DECODER.raw_decode(self._plain_text, start)[1]

    def _members_of(self, start: int) -> dict[str, MemberSpans]:
        """Returns the members of the object at a position; of members with the same name, the last one counts."""
        cached_members = self._members_at.get(start)
        if cached_members is not None:
            return cached_members
        members: dict[str, MemberSpans] = {}
        position = self._after_blanks(start + 1)
        while self._plain_text[position] != "}":
            name, end = _DECODER.raw_decode(self._plain_text, position)
            value = self._next_value_span(self._after_blanks(end) + 1)
            members.pop(name, None)
            members[name] = MemberSpans((position, end), value)
            position = self._after_comma(value[1])
        self._members_at[start] = members
        return members

    def _item_spans(self, start: int) -> list[Span]:
        """Returns the spans of the items of the list at a position."""
        items: list[Span] = []
        position = self._after_blanks(start + 1)
        while self._plain_text[position] != "]":
            items.append(self._next_value_span(position))
            position = self._after_comma(items[-1][1])
        return items

    def _after_comma(self, position: int) -> int:
        """Returns the position of the next member or item, or of the closing bracket."""
        position = self._after_blanks(position)
        return self._after_blanks(position + 1) if self._plain_text[position] == "," else position

    def _after_blanks(self, position: int) -> int:
        match = _BLANK.match(self._plain_text, position)
        assert match is not None
        return match.end()


def _parse(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _replacement(match: re.Match[str]) -> str:
    first_char = match[0][0]
    if first_char == '"':
        return match[0]
    # A comma directly after an opening bracket is not a trailing comma, so the NUL makes the parser refuse the text.
    return "\0" if first_char in "[{" else " " * len(match[0])
