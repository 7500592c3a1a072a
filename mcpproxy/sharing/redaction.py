"""Redaction: finds the secrets in a text or in a JSON document, and replaces them byte by byte.

What is not a secret keeps its place and its spelling. JSON and base64 inside strings are decoded. Nothing here raises
because of a text, except that `document` rejects a text that is not JSON; the time is linear in the text.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import count, islice
from typing import Final, NamedTuple, Protocol

from mcpproxy.sharing.card_numbers import is_card_number
from mcpproxy.sharing.encodings import decoded_base64
from mcpproxy.sharing.json_places import Edit, JsonToken, NotJson, Path, edited, tokens, within
from mcpproxy.sharing.kinds import UNCERTAIN, is_known_value
from mcpproxy.sharing.kingfisher import KingfisherScanner, SearchLimitReached, Secret
from mcpproxy.sharing.known_values import KnownValueSearch
from mcpproxy.sharing.names import (
    holds_phone_number,
    holds_secret,
    holds_secret_number,
    is_client_metadata,
    is_definition,
    is_harmless,
    is_payload,
    is_protocol,
)
from mcpproxy.sharing.personal_numbers import is_phone_number
from mcpproxy.sharing.pseudonyms import PSEUDONYM, Pseudonyms
from mcpproxy.sharing.search import ChosenText, SecretSearch
from mcpproxy.sharing.word_lists import META, PROTOCOL

MAX_JSON_TOKENS: Final = 1_000_000
"""The most values and names in one frame, those of JSON in strings among them: each takes some 150 bytes of memory."""
MAX_NESTED_JSON_DEPTH: Final = 8
"""How many levels of JSON inside strings are parsed; below that, it is searched as plain text."""
MAX_CLEAN_NAMES: Final = 20_000
"""How many names of members without a secret are remembered."""

_BLOBS: Final = frozenset({"data", "blob"})
_BLOB: Final = re.compile(r"[A-Za-z0-9+/\r\n]{64,}+={0,2}\s*").fullmatch
_LABEL_WORD: Final = re.compile(r"[A-Za-z0-9]++")
_SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|digest|dpop|negotiate|token)[ \t]++(?=\S)").match


class Replacement(NamedTuple):
    """A secret and its pseudonym."""

    kind: str
    secret: str
    pseudonym: str
    path: Path
    """The path to it in a JSON document."""


class RedactionChoices(ChosenText, Protocol):
    """The user's additions to what is replaced by default, and exceptions to it."""

    @property
    def unmatched(self) -> list[str]:
        """The user's patterns of what is replaced that have matched nothing so far."""

    def redacts(self, path: Path) -> bool:
        """Whether a value is replaced whole."""

    def keeps(self, kind: str, secret: str, path: Path) -> bool:
        """Whether something stays although it looks like a secret."""

    def unreviewed(self) -> "RedactionChoices":
        """The same choices, except that the user is not asked."""


class _PlaceKind(IntEnum):
    """What a place of a document is."""

    PLAIN = 0
    """Not searched: a number, or a name that is known to be clean."""
    LEAF = 1
    """A text that is searched."""
    INNER = 2
    """A string that spells a document, whose places follow."""


class _DocumentPlaces:
    """What was read of a document and of those in its strings: what to search, and then the secrets found.

    It does not keep the places: a million of them take 350 MB. They are read again if anything is to be replaced.
    """

    def __init__(self) -> None:
        self.marks = bytearray()
        """A `_PlaceKind` for each place, in order."""
        self.starts = array("Q")
        """Where the text of each leaf begins in the searched text."""
        self.ends = array("Q")
        self.names: list[str] = []
        """The leaves that are names."""
        self.is_touched = False
        """Whether something is replaced regardless of what the search finds."""
        self.secrets: dict[int, list[Secret]] = {}
        """The secrets by number of the leaf, with positions in its text."""
        self._texts: list[str] = []
        self._size = 0

    def add(self, place: JsonToken) -> None:
        """Add a leaf."""
        # The name next to the value, as in a file of settings, because many rules look for both.
        front = "" if place.is_name or place.name in _OWN_NAMES else f'{place.name}="'
        start = self._size + len(front)
        end = start + len(place.text)
        self.marks.append(_PlaceKind.LEAF)
        self.starts.append(start)
        self.ends.append(end)
        self._texts += front, place.text, _BEHIND
        self._size = end + len(_BEHIND)
        if place.is_name:
            self.names.append(place.text)

    @property
    def state(self) -> tuple[int, int, int, int]:
        """How far it is read: places, leaves, names, characters to search."""
        return len(self.marks), len(self.starts), len(self.names), self._size

    def back(self, state: tuple[int, int, int, int]) -> None:
        """Return to an earlier state: forget what was read since."""
        marks, leaves, names, self._size = state
        del self.marks[marks:], self.starts[leaves:], self.ends[leaves:], self.names[names:], self._texts[3 * leaves :]

    def searched(self, search: Callable[[str], Iterable[Secret]]) -> None:
        """Search all leaves together, once."""
        whole = "".join(self._texts)
        self._texts = []
        for start, end, kind, inner in search(whole) if whole else ():
            index = max(0, bisect_right(self.starts, start) - 1)
            while index < len(self.starts) and self.starts[index] < end:
                begin = self.starts[index]
                first, last = max(0, start - begin), min(self.ends[index], end) - begin
                if first < last:
                    self.secrets.setdefault(index, []).append(Secret(first, last, kind, inner))
                index += 1


class Redactor:
    """Redacts texts and documents for one share."""

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        catalogue: KingfisherScanner,
        choices: RedactionChoices,
        *,
        bodies: bool,
        unparsed: bool,
        personal: bool = False,
        known: KnownValueSearch | None = None,
        on_secret: Callable[[Secret, str], None] | None = None,
    ) -> None:
        """Create a redactor.

        Args:
            pseudonyms: the pseudonyms of the share.
            catalogue: the rules for secrets.
            choices: the user's choices.
            bodies: whether values in bodies stay if they are not secret.
            unparsed: whether binary data stays, although it cannot be searched.
            personal: whether telephone numbers, bank accounts and MAC addresses are replaced.
            known: the values, and the names of users, that were recognised in the capture.
            on_secret: called with each secret that the user does not keep, and the text that it is in.
        """
        self.pseudonyms = pseudonyms
        self.search = SecretSearch(catalogue, choices, known, blobs=not unparsed, personal=personal)
        """Finds the secrets in texts."""
        self._on_secret = on_secret
        self._choices = choices
        self.bodies = bodies
        """Whether values in bodies stay if they are not secret."""
        self._unparsed = unparsed
        self._personal = personal
        self._clean_names: set[str] = set()
        self._places_left = MAX_JSON_TOKENS
        self.renamed: dict[str, str] = {}
        """Names of members, and their pseudonyms."""

    def text(self, text: str, made: list[Replacement], path: Path = None) -> str:
        """A text with its secrets replaced, or all of it; the replacements are added to `made`."""
        try:
            secrets = self.search.secrets(text)
        except SearchLimitReached:
            secrets = [Secret(0, len(text), "unparsed")]
        return edited(text, self._edits(text, secrets, made, path))

    def label(self, text: str, made: list[Replacement], path: Path = None) -> str:
        """The name of a server or a file, redacted like a text; in `anna-notes`, a user's name is a word too."""
        kept = self.text(text, made, path)
        words = [
            Secret(*word.span(), "user-word") for word in _LABEL_WORD.finditer(kept) if self.search.is_user(word[0])
        ]
        return self.replaced(kept, words, made, path)

    def document(self, text: str, made: list[Replacement]) -> str:
        """A JSON text with its secrets replaced; the replacements are added to `made`.

        Raises:
            NotJson: it is not JSON.
            SearchLimitReached: it takes too long to search, or holds too many secrets.
        """
        reading = _DocumentPlaces()
        self._places_left = MAX_JSON_TOKENS
        self.search.has_decoded = False
        self._read(text, None, 0, reading)
        reading.searched(self.search.secrets)
        if not reading.secrets and not reading.is_touched:
            if not self.search.has_decoded:
                self._clean_names.update(islice(reading.names, max(0, MAX_CLEAN_NAMES - len(self._clean_names))))
            return text
        return edited(text, self._document_edits(text, None, iter(reading.marks), count(), reading.secrets, made))

    def replaced(self, text: str, secrets: Iterable[Secret], made: list[Replacement], path: Path = None) -> str:
        """A text with given secrets replaced, unless the user keeps them."""
        return edited(text, self._edits(text, secrets, made, path))

    def pseudonym(self, kind: str, secret: str) -> str:
        """The pseudonym for a secret of a kind."""
        if kind in _DIGITS and "\\" in secret:  # they are spelt as escapes
            return self.pseudonyms.tag(secret)
        if kind == "known-value" and self.search.known.is_host(secret):
            return self.pseudonyms.host(secret)
        return self._pseudonym_in_form(kind, secret)

    def _pseudonym_in_form(self, kind: str, secret: str) -> str:
        """A pseudonym that looks like a secret of the kind."""
        make = self.pseudonyms
        match kind:
            case "email":
                return make.email(secret)
            case "user-name" | "user-word" | "login-user":
                return make.user(secret)
            case "host":
                return make.host(secret)
            case "card-number" | "number":
                return make.number(secret)
            case "phone-number":
                return make.phone(secret)
            case "iban":
                return make.iban(secret)
            case "mac-address":
                return make.mac(secret)
            case "ip-address":
                return make.ip_address(secret)
            case "secret-in-hexadecimal" | "personal-in-hexadecimal" | "known-value-in-hexadecimal":
                return make.identifier(secret)
            case "blob" | "secret-in-base64" | "personal-in-base64" | "known-value-in-base64":
                return make.base64(secret)
        return make.tag(secret)

    def _read(self, text: str, base: Path, depth: int, reading: _DocumentPlaces) -> None:
        """Read a document and those in its strings.

        Raises:
            NotJson: it is not JSON.
            SearchLimitReached: the frame has too many values.
        """
        has_meta = _may_have_meta(text)
        for place in tokens(text, base):
            self._places_left -= 1
            if self._places_left < 0:
                raise SearchLimitReached(f"it holds more than {MAX_JSON_TOKENS:,} values")
            if not place.is_string:
                reading.marks.append(_PlaceKind.PLAIN)
                reading.is_touched = reading.is_touched or self._kind_of_number(place) is not None
            elif place.is_name and place.text in self._clean_names:
                reading.marks.append(_PlaceKind.PLAIN)
            elif place.is_name or not self._is_inner(place, depth, reading):
                reading.add(place)
                if not place.is_name and not reading.is_touched:
                    reading.is_touched = self._kind_of_all(place, has_meta=has_meta) is not None

    def _is_inner(self, place: JsonToken, depth: int, reading: _DocumentPlaces) -> bool:
        """Read a string as a document if it spells one; returns whether it does."""
        if place.text[:1] not in _OPENING or depth >= MAX_NESTED_JSON_DEPTH or self._choices.redacts(place.path):
            return False
        if place.text.lstrip(" \t\r\n")[:1] not in ("{", "[", '"'):
            return False
        state = reading.state
        reading.marks.append(_PlaceKind.INNER)
        try:
            self._read(place.text, place.path, depth + 1, reading)
        except NotJson:
            reading.back(state)
            return False
        return True

    # --- edits

    def _document_edits(
        self,
        text: str,
        base: Path,
        marks: Iterator[int],
        leaves: Iterator[int],
        secrets: Mapping[int, Sequence[Secret]],
        made: list[Replacement],
    ) -> list[Edit]:
        """The edits of a document, read a second time; `marks` and `leaves` continue with those in its strings."""
        edits: list[Edit] = []
        has_meta = _may_have_meta(text)
        for place in tokens(text, base):
            mark = next(marks)
            own: list[Edit] = []
            if not place.is_string:
                pseudonym = self._number(place, made)
                if pseudonym is not None:
                    edits.append(Edit(place.start, place.end, pseudonym))
            elif mark == _PlaceKind.INNER:
                own = self._document_edits(place.text, place.path, marks, leaves, secrets, made)
            elif mark == _PlaceKind.LEAF:
                own = self._string_edits(place, secrets.get(next(leaves), ()), made, has_meta=has_meta)
            if own:
                edits += within(text[place.start : place.end], own, place.start)
        return edits

    def _string_edits(
        self, place: JsonToken, secrets: Sequence[Secret], made: list[Replacement], *, has_meta: bool
    ) -> list[Edit]:
        """The edits of a string's text."""
        text, path = place.text, place.path
        if place.is_name:
            if not secrets and not self.search.has_decoded and len(self._clean_names) < MAX_CLEAN_NAMES:
                self._clean_names.add(text)
            if is_definition(path, is_name=True):
                secrets = [secret for secret in secrets if not is_known_value(secret.kind)]
            edits = self._edits(text, secrets, made, path)
            if edits and len(self.renamed) < MAX_CLEAN_NAMES:
                self.renamed[text] = edited(text, edits)
            return edits
        kind = self._kind_of_all(place, has_meta=has_meta)
        if kind is None and not secrets:  # nearly all: what follows takes longer
            return []
        if is_protocol(path):
            secrets = [secret for secret in secrets if secret.kind not in UNCERTAIN]
        elif kind is not None:
            self._report(text, secrets, path)
            secrets = [Secret(*_after_scheme(text), kind)]
        elif is_definition(path):
            secrets = [secret for secret in secrets if not is_known_value(secret.kind)]
        return self._edits(text, secrets, made, path)

    def _kind_of_all(self, place: JsonToken, *, has_meta: bool) -> str | None:
        """The reason for replacing a string whole, or None. `has_meta` is false if the document has no `_meta`."""
        if self._choices.redacts(place.path):
            return "chosen"
        if holds_secret(place.name) and not is_harmless(place.text):
            return "named-secret"
        if has_meta and is_client_metadata(place.path):
            return "client-metadata"
        if place.name in _BLOBS and _BLOB(place.text) and not self._unparsed and decoded_base64(place.text) is None:
            return "blob"
        return None if self.bodies or not is_payload(place.path) else "body"

    def _kind_of_number(self, place: JsonToken) -> str | None:
        """The reason for replacing a number, or None."""
        if is_protocol(place.path):
            return None
        if self._choices.redacts(place.path):
            return "chosen"
        if holds_secret_number(place.name):
            return "named-secret"
        if is_card_number(place.text):
            return "card-number"
        if self._personal and holds_phone_number(place.name) and is_phone_number(place.text):
            return "phone-number"
        return None if self.bodies or not is_payload(place.path) else "body"

    def _number(self, place: JsonToken, made: list[Replacement]) -> str | None:
        """The pseudonym for a number, or None if it stays."""
        kind = self._kind_of_number(place)
        if kind is None or self._choices.keeps(kind, place.text, place.path):
            return None
        pseudonym = self.pseudonym(kind if kind == "phone-number" else "number", place.text)
        made.append(Replacement(kind, place.text, pseudonym, place.path))
        return pseudonym

    def _edits(self, text: str, secrets: Iterable[Secret], made: list[Replacement], path: Path) -> list[Edit]:
        """The edits for secrets; overlapping secrets are replaced together."""
        edits: list[Edit] = []
        secrets = list(secrets)
        self._report(text, secrets, path)
        for start, end, kind, _ in _apart(secrets):
            secret = text[start:end]
            if not secret or PSEUDONYM.fullmatch(secret) or self._choices.keeps(kind, secret, path):
                continue
            pseudonym = self.pseudonym(kind, secret)
            edits.append(Edit(start, end, pseudonym))
            made.append(Replacement(kind, secret, pseudonym, path))
        return edits

    def _report(self, text: str, secrets: Iterable[Secret], path: Path) -> None:
        """Call `on_secret` with the secrets that the user does not keep."""
        if self._on_secret is not None:
            for secret in secrets:
                if not self._choices.keeps(secret.kind, text[secret.start : secret.end], path):
                    self._on_secret(secret, text)


_OWN_NAMES: Final = PROTOCOL | META
"""Names that sound like those of secrets, but whose values are harmless."""
_DIGITS: Final = frozenset({"card-number", "phone-number", "iban", "mac-address", "ip-address"})
"""Kinds whose pseudonyms have other digits in the same places."""
_OPENING: Final = frozenset('{[" \t\r\n')
_BEHIND: Final = '"\x1f\n'
"""The separator of leaves in the searched text."""


def _may_have_meta(text: str) -> bool:
    """Whether a document may have a member `_meta`, which can be spelt with escapes."""
    return "_meta" in text or "\\u" in text


def _apart(secrets: Iterable[Secret]) -> Iterator[Secret]:
    """Secrets in order; of several that overlap, one that covers them all and has the kind of the longest."""
    kept: Secret | None = None
    longest = 0
    for secret in sorted(secrets, key=lambda secret: (secret.start, -secret.end)):
        size = secret.end - secret.start
        if kept is None or secret.start >= kept.end:
            if kept is not None:
                yield kept
            kept, longest = secret, size
        elif secret.end > kept.end:
            # An address that contains a user's name, say, would no longer be one with two pseudonyms in it.
            kind = secret.kind if size > longest else kept.kind
            kept, longest = Secret(kept.start, secret.end, kind), max(size, longest)
    if kept is not None:
        yield kept


def _after_scheme(text: str) -> tuple[int, int]:
    """The credential in the value of an Authorization header, or all of any other text."""
    scheme = _SCHEME(text)
    return (scheme.end() if scheme else 0), len(text)
