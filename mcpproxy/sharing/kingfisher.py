"""Finds the tokens, keys and passwords of hundreds of services with Kingfisher's catalogue of rules.

Its engine takes linear time for any text, opens no connection while it scans, and decodes base64 as well. The rules are
compiled once (some 4 s), and then read from mcpproxy's cache directory (0.3 s).
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from kingfisher_sdk import Rules, Scanner

from captures.paths import cache_directory
from mcpproxy.sharing.placeholders import is_placeholder

_FOLDER: Final = "secret-rules"
_PUNCTUATION: Final = bytes({*range(32), *range(127, 256)} - {*b"\n"}) + rb"""!"#$&'()*,;<>?@[\]^`{|}"""
_BLANK_PUNCTUATION: Final = bytes.maketrans(_PUNCTUATION, b" " * len(_PUNCTUATION))
_ENDINGS: Final = tuple((mark + blank, b" " + blank) for mark in (b".", b"/") for blank in (b" ", b"\n", mark))
"""Characters that can be part of a token but may also end a word, and their replacements at the end of a word."""
_COLON_AFTER_TOKEN: Final = re.compile(rb":(?=[ \n:])(?<=[A-Za-z0-9_+/=.-]{16}:)")
"""Matches a colon after a possible token. After a shorter word, the colon may belong between a name and its token."""
_KEY_BEGINS: Final = b"-----BEGIN"
_MAX_PRIVATE_KEYS: Final = 100
"""Private keys in one text that the rules search for. For each beginning of a key without an end, they scan the rest of
the text. The patterns in `patterns` find keys, too, in linear time."""

MAX_SCAN_S: Final = 10.0
"""The time limit for the search of a text. A search of 16 MiB of ordinary text takes a twentieth of a second."""


class SearchLimitReached(ValueError):
    """A text takes too long to search, or contains too many secrets, so that it must be replaced whole."""


class PlainSecret(NamedTuple):
    """The decoded text of an encoded secret."""

    kind: str
    text: str


class Secret(NamedTuple):
    """A stretch of a text that is, or may be, a secret."""

    start: int
    end: int
    kind: str
    """A few words that describe the secret, joined by hyphens."""
    inner: PlainSecret | None = None
    """The secret that the stretch encodes, if it is encoded."""


@cache
def catalogue() -> "KingfisherScanner":
    """Returns the scanner with the compiled rules, which are loaded once."""
    return KingfisherScanner()


class KingfisherScanner:
    """Searches texts with the compiled rules."""

    def __init__(self) -> None:
        cache_folder = cache_directory()
        folder = Path(cache_folder, _FOLDER) if cache_folder is not None else None
        # Rules of low confidence are used, too: a false alarm costs little, and a shared secret cannot be recalled.
        rules = Rules(confidence="low", cache_dir=folder, cache=folder is not None)
        self._scanner = Scanner(rules)

    def secrets(self, text: str) -> list[Secret]:
        """Returns the secrets in a text, in no particular order; they may overlap.

        Raises:
            SearchLimitReached: the search takes too long.
        """
        raw = text.encode("utf-8", "replace")  # a lone surrogate counts as one character in both
        if raw.count(_KEY_BEGINS) > _MAX_PRIVATE_KEYS:
            raw = raw.replace(_KEY_BEGINS, b" " * len(_KEY_BEGINS))
        matches = dict.fromkeys(chain(self._scan_bytes(raw), self._scan_bytes(_blank_punctuation(raw))))
        if not matches:
            return []
        is_ascii = len(raw) == len(text)
        secrets = []
        for start, end, kind, _ in matches:
            if not is_ascii:
                start, end = len(raw[:start].decode("utf-8", "replace")), len(raw[:end].decode("utf-8", "replace"))
            if not is_placeholder(text[start:end]):
                secrets.append(Secret(start, end, kind))
        return secrets

    def _scan_bytes(self, raw: bytes) -> Iterator[Secret]:
        """Yields the secrets that one search finds, with positions in bytes.

        Raises:
            SearchLimitReached: the search takes too long.
        """
        try:
            findings = self._scanner.scan(raw, timeout=MAX_SCAN_S)
        except TimeoutError as error:
            raise SearchLimitReached(f"it takes more than {MAX_SCAN_S:.0f} s to search") from error
        for finding in findings:
            location = finding.location
            yield Secret(location["start_offset"], location["end_offset"], kind_of(finding.rule_id))


def kind_of(rule: str) -> str:
    """Returns the kind of the secrets that a rule finds: its id without the catalogue and the number of the variant."""
    _, name, *_ = rule.split(".")
    return name.rpartition("/")[2]


def _blank_punctuation(raw: bytes) -> bytes:
    """Replace the punctuation between words with blanks, so that each word stays at its position.

    Many rules expect a token to end with its line, or before a blank, a quote or a semicolon. In prose, a comma or a
    bracket may follow it. (`re.sub` would take twenty times the memory of the text.)
    """
    words = raw.translate(_BLANK_PUNCTUATION) + b"\n"
    for mark, blanks in _ENDINGS:
        words = words.replace(mark, blanks)
    if not _COLON_AFTER_TOKEN.search(words):
        return words
    blanked_words = bytearray(words)
    for colon in _COLON_AFTER_TOKEN.finditer(words):
        blanked_words[colon.start()] = ord(" ")
    return bytes(blanked_words)
