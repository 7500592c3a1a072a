"""Redacts fragments of JSON: keeps the skeleton of a message, and replaces everything else.

A message that a server spread over several lines, or that broke off, is not JSON, so any value in it may be secret. But
its brackets, the members of the envelope and the names of methods show what went wrong, and are never secret.
"""

import re
from collections.abc import Iterator
from typing import Final

from analysis.protocol.extensions import KNOWN_METHODS
from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.word_lists import SKELETON_WORDS

_PIECE: Final = re.compile(
    r"(?P<blank>[ \t\r\n\v\f]++)"
    r'|(?P<text>"(?:[^"\\]++|\\.)*+"?)'
    r"|(?P<punctuation>[\[\]{}:,])"
    r"|(?P<constant>(?:true|false|null|-?[0-9]{1,6})(?![^\s,:\[\]{}\"]))"
    r"|(?P<header>(?i:content-length:[ \t]{0,9}[0-9]{1,9}))"
    r"|(?P<other>[^\s\[\]{}:,\"]++)",
    re.DOTALL,
)
_SKELETON_WORDS: Final = frozenset({*KNOWN_METHODS, *SKELETON_WORDS})
_META: Final = re.compile(r"io\.modelcontextprotocol/[A-Za-z]{1,40}").fullmatch


def secrets_in_fragment(text: str) -> Iterator[Secret]:
    """Yields everything in a text that is not part of the skeleton of a message."""
    for match in _PIECE.finditer(text):
        start, end = match.span()
        group = match.lastgroup
        if group == "text":
            end -= match[0].endswith('"') and end - start > 1
            word = text[start + 1 : end]
            if word and word not in _SKELETON_WORDS and not _META(word):
                yield Secret(start + 1, end, "unparsed")
        elif group == "other":
            yield Secret(start, end, "unparsed")
