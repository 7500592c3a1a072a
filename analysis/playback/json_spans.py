"""Where the members of an object, and the elements of an array, begin and end in JSON text.

An edit can then replace one value and keep every other byte. The parser finds the spans of ordinary JSON; what it
refuses, such as lone surrogates or nesting 100,000 deep, and objects with duplicate members are scanned, without
recursion, in time that is linear in the bytes.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec
import orjson

_SPACE: Final = rb"[ \t\r\n]*+"
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_match_opening: Final = re.compile(_SPACE + rb"([\[{])" + _SPACE).match
_match_name: Final = re.compile(rb"(" + _STRING + rb")" + _SPACE + b":" + _SPACE, re.DOTALL).match
_match_separator: Final = re.compile(_SPACE + rb"([,\]}])" + _SPACE).match
_match_scalar: Final = re.compile(_STRING + rb'|[^ \t\r\n,:"\[\]{}]++', re.DOTALL).match
# A quote by itself matches if its string does not end, or else the search would start again after each quote.
_structure: Final = re.compile(_STRING + rb'|"|[\[{]++|[\]}]++', re.DOTALL)
_CLOSING: Final = {b"{": b"}", b"[": b"]"}
_MAX_NAME_BYTES: Final = 512
"""Longer names are not decoded: no caller looks for them, even if each character is escaped."""

_decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Span(NamedTuple):
    """One member of an object, or one element of an array."""

    name: str
    """The member's name; empty for elements, and for names that are too long or not Unicode."""
    start: int
    """The offset of the value."""
    end: int
    """The offset after the value."""


def spans_of(text: bytes, start: int = 0, end: int | None = None) -> list[Span]:
    """Returns the members of an object or the elements of an array, in order, with all duplicates.

    Args:
        text: contains the value.
        start: the offset of the value, or of white space before it.
        end: the offset after it; None for all of the text.

    Returns:
        Nothing if the value is neither, or if what was read of it is not JSON.
    """
    end = len(text) if end is None else end
    opening = _match_opening(text, start, end)
    if opening is None:
        return []
    values: Any
    try:
        values = (_decode_object if opening[1] == b"{" else _decode_array)(memoryview(text)[start:end])
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _scanned(text, opening, end)
    spans = _located(text, opening, end, values)
    return _scanned(text, opening, end) if spans is None else spans


def _located(
    text: bytes, opening: re.Match[bytes], end: int, values: dict[str, msgspec.Raw] | list[msgspec.Raw]
) -> list[Span] | None:
    """Returns where the parsed values are; None if the text has more of them, which is so if a member occurs twice."""
    spans: list[Span] = []
    position, separator = opening.end(), b","
    is_object = isinstance(values, dict)
    for name, value in values.items() if isinstance(values, dict) else (("", value) for value in values):
        if is_object:
            match = _match_name(text, position, end)
            if match is None:
                return None
            position = match.end()
        token = bytes(value)
        if not text.startswith(token, position):
            return None
        spans.append(Span(name, position, position + len(token)))
        match = _match_separator(text, position + len(token), end)
        if match is None:
            return None
        separator, position = match[1], match.end()
    if not spans:
        return spans
    return spans if separator == _CLOSING[opening[1]] and position == end else None


def _scanned(text: bytes, opening: re.Match[bytes], end: int) -> list[Span]:
    spans: list[Span] = []
    position, separator = opening.end(), b","
    while separator == b",":
        name = ""
        if opening[1] == b"{":
            match = _match_name(text, position, end)
            if match is None:
                return []
            name, position = _decoded(match[1]), match.end()
        value_end = _value_end(text, position, end)
        match = _match_separator(text, value_end, end) if value_end is not None else None
        if match is None or value_end is None:
            return []
        spans.append(Span(name, position, value_end))
        separator, position = match[1], match.end()
    return spans if separator == _CLOSING[opening[1]] and position == end else []


def _value_end(text: bytes, start: int, end: int) -> int | None:
    """Returns the offset after the value that begins at `start`, or None if none does."""
    if text[start : start + 1] not in _CLOSING:
        match = _match_scalar(text, start, end)
        return match and match.end()
    depth = 0
    for match in _structure.finditer(text, start, end):
        first, size = text[match.start()], match.end() - match.start()
        if first in b"[{":
            depth += size
        elif first in b"]}":
            if size >= depth:
                return match.start() + depth
            depth -= size
        elif size == 1:
            return None
    return None


def _decoded(token: bytes) -> str:
    if len(token) > _MAX_NAME_BYTES:
        return ""
    try:
        name = orjson.loads(token)
    except ValueError:
        return ""
    return name if isinstance(name, str) else ""
