"""Text search: finds a text in messages, and the lines of a capture that may contain one.

A word in a filter is searched for in the bytes as they were sent, and case matters. The key `text` searches the text
that the bytes mean: JSON's escapes are resolved, and case matters only if the text contains a capital letter.

`candidate_lines` finds the lines of a capture that may contain a message with the text, by searching bytes. It never
misses one, however the peer or the recorder has escaped it, but some of its lines do not contain the text.
"""

import re
from collections.abc import Iterator
from typing import Final

CHARS_BEFORE: Final = 8
"""How many characters before an occurrence are in its excerpt."""
CHARS_AFTER: Final = 160
"""How many characters from an occurrence on are in its excerpt."""
MAX_SEARCHED_BYTES: Final = 1 << 20
"""How many bytes of a message are searched for an excerpt."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LONGEST_ESCAPE: Final = len(r"\u00e9")
_SIMPLE_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ASCII_RUN: Final = re.compile(r"[0-9A-Za-z]+")
_NON_ASCII_RUN: Final = re.compile(r"[^\x00-\x7f]+")
_ESCAPED_ASCII: Final = re.compile(rb"\\u00(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])")
"""An escaped ASCII letter or digit, which never needs an escape."""
_ESCAPED_ANY: Final = re.compile(rb"\\u")
_ENCODED: Final = b'"raw_b64"'
"""The name of the member with the bytes of a frame that are not UTF-8."""


class TextSearch:
    """A search for one text."""

    def __init__(self, text: str, *, is_literal: bool) -> None:
        """Prepare the search.

        Args:
            text: the text; an empty one is in every message.
            is_literal: whether to search the bytes as they were sent, in which case matters; otherwise, what they mean.
        """
        self.text = text
        self._is_literal = is_literal
        self.ignores_case = not is_literal and text == text.lower()
        """Whether upper and lower case are the same."""
        self._searched_bytes = text.encode()
        self._is_ascii = text.isascii()
        anchor = max(_ASCII_RUN.findall(text), key=len, default="")
        self._escape, self._escape_start = _ESCAPED_ASCII, b"\\u00"
        if not anchor:
            # Of other characters, those without upper and lower case are searched for, unless they are escaped.
            runs = _NON_ASCII_RUN.findall(text)
            anchor = max((run for run in runs if not self.ignores_case or run == run.upper()), key=len, default="")
            self._escape, self._escape_start = _ESCAPED_ANY, b"\\u"
        self._anchor = anchor.encode()
        """The part of the text that is searched for first; empty if there is none, so that all lines are candidates."""

    def is_in(self, raw: bytes) -> bool:
        """Returns whether a message contains the text."""
        if self._is_literal:
            return self._searched_bytes in raw
        haystack = raw.lower() if self.ignores_case else raw
        if self._anchor and self._anchor not in haystack and not self._escape.search(haystack):
            return False
        if self._is_ascii or not self.ignores_case:
            position = haystack.find(self._searched_bytes)
            if (
                position >= 0
                and b"\\" not in haystack[max(0, position - _LONGEST_ESCAPE) : position] + self._searched_bytes
            ):
                return True
            if position < 0 and b"\\" not in raw:
                return False
        meaning = _unescaped(raw.decode("utf-8", "replace"))
        if not self.ignores_case:
            return self.text in meaning
        if self._is_ascii:
            return self._searched_bytes in meaning.encode("utf-8", "replace").lower()
        return self.text in meaning.lower()

    def excerpt(self, raw: bytes) -> str:
        """Returns the text around the first occurrence in a message, without escapes; empty if it is far inside."""
        meaning = _unescaped(raw[:MAX_SEARCHED_BYTES].decode("utf-8", "replace"))
        # A few letters change their number when they become lower case; that moves only the excerpt.
        position = (meaning.lower() if self.ignores_case else meaning).find(self.text)
        if position < 0:
            return ""
        start = max(0, position - CHARS_BEFORE) if position > CHARS_BEFORE else 0
        return ("…" if start else "") + " ".join(meaning[start : position + CHARS_AFTER].split())

    def candidate_lines(self, lines: bytes) -> Iterator[tuple[int, int]]:
        """Yields start and end of each line that may contain a message with the text.

        Args:
            lines: whole lines of a capture; the last one may lack its LF.
        """
        end = len(lines)
        if not self._anchor:
            start = 0
            while start < end:
                line_end = lines.find(b"\n", start)
                line_end = end if line_end < 0 else line_end
                yield start, line_end
                start = line_end + 1
            return
        haystack = lines.lower() if self.ignores_case else lines
        has_escapes = self._escape_start in lines
        has_encoded = _ENCODED in lines
        position = 0
        while position < end:
            found = [haystack.find(self._anchor, position)]
            if has_escapes:
                match = self._escape.search(lines, position)
                has_escapes = match is not None
                found.append(match.start() if match is not None else -1)
            if has_encoded:
                found.append(lines.find(_ENCODED, position))
                has_encoded = found[-1] >= 0
            found = [place for place in found if place >= 0]
            if not found:
                return
            first = min(found)
            line_end = lines.find(b"\n", first)
            line_end = end if line_end < 0 else line_end
            yield lines.rfind(b"\n", 0, first) + 1, line_end
            position = line_end + 1


def _unescaped(text: str) -> str:
    """Returns JSON text with its escapes resolved, also outside of strings."""
    if "\\" not in text:
        return text
    resolved = _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _SIMPLE_ESCAPES.get(match[2], match[2]), text
    )
    # Two escapes of surrogates are one character.
    return resolved.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
