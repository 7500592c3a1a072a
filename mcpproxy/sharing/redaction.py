"""Redaction: finds the secrets in a text or in a JSON document, and replaces exactly their bytes.

Everything else keeps its place and its spelling. JSON and base64 inside strings are decoded. No text raises an
exception, except that `redact_document` rejects a text that is not JSON or reaches a limit. The time is linear in the
text.
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
from mcpproxy.sharing.json_places import Edit, JsonToken, NotJson, Path, apply_edits, edits_in_json, tokens
from mcpproxy.sharing.kinds import UNCERTAIN_KINDS, is_known_value
from mcpproxy.sharing.kingfisher import KingfisherScanner, SearchLimitReached, Secret
from mcpproxy.sharing.known_values import KnownValueSearch
from mcpproxy.sharing.names import (
    holds_phone_number,
    holds_secret,
    holds_secret_number,
    holds_session_id,
    is_client_location,
    is_client_metadata,
    is_definition,
    is_harmless,
    is_invalid_trace_context,
    is_payload,
    is_protocol,
)
from mcpproxy.sharing.personal_numbers import is_phone_number
from mcpproxy.sharing.pseudonyms import PSEUDONYM, PseudonymGenerator
from mcpproxy.sharing.search import SecretSearch, TextChooser
from mcpproxy.sharing.word_lists import META_MEMBERS, PROTOCOL_MEMBERS

MAX_JSON_TOKENS: Final = 1_000_000
"""Values and names in one frame, including those of JSON in strings. Each takes some 150 bytes of memory."""
MAX_NESTED_JSON_DEPTH: Final = 8
"""Levels of JSON inside strings that are parsed. Deeper levels are searched as plain text."""
MAX_CLEAN_NAMES: Final = 20_000
"""Names of members without a secret that are remembered."""

_BLOB_NAMES: Final = frozenset({"data", "blob"})
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


class RedactionChoices(TextChooser, Protocol):
    """The user's choice of texts to replace in addition to the default, and of texts to keep."""

    @property
    def unmatched(self) -> list[str]:
        """The user's patterns of texts to replace that have matched nothing so far."""

    def redacts(self, path: Path) -> bool:
        """Whether a value must be replaced whole."""

    def keeps(self, kind: str, secret: str, path: Path) -> bool:
        """Returns whether a text stays although it looks like a secret. May ask the user."""

    def unreviewed(self) -> "RedactionChoices":
        """Returns the same choices without the review."""


class _PlaceMark(IntEnum):
    """How a place in a document is searched."""

    PLAIN = 0
    """Not searched: a number, or a name that is known to be clean."""
    LEAF = 1
    """Searched as a text."""
    INNER = 2
    """A string that contains a document. The places of that document follow."""


class _DocumentPlaces:
    """Collects the texts to search in a document and in the documents in its strings, and then the secrets found.

    It does not keep the places, because a million of them take 350 MB. They are read again if a text must be replaced.
    """

    def __init__(self) -> None:
        self.marks = bytearray()
        """The `_PlaceMark` of each place, in order."""
        self.starts = array("Q")
        """The offset of each leaf's text in the searched text."""
        self.ends = array("Q")
        self.names: list[str] = []
        """The leaves that are names."""
        self.has_forced_replacement = False
        """Whether any value is replaced regardless of the search."""
        self.secrets: dict[int, list[Secret]] = {}
        """The secrets by the number of their leaf, with positions in its text."""
        self._texts: list[str] = []
        self._size = 0

    def add_leaf(self, token: JsonToken) -> None:
        """Add a leaf."""
        # The name comes before the value, as in a settings file, because many rules look for both.
        prefix = "" if token.is_name or token.name in _PROTOCOL_NAMES else f'{token.name}="'
        start = self._size + len(prefix)
        end = start + len(token.text)
        self.marks.append(_PlaceMark.LEAF)
        self.starts.append(start)
        self.ends.append(end)
        self._texts += prefix, token.text, _LEAF_SEPARATOR
        self._size = end + len(_LEAF_SEPARATOR)
        if token.is_name:
            self.names.append(token.text)

    @property
    def state(self) -> tuple[int, int, int, int]:
        """The numbers of places, leaves, names and characters to search so far."""
        return len(self.marks), len(self.starts), len(self.names), self._size

    def restore(self, state: tuple[int, int, int, int]) -> None:
        """Returns to an earlier state, and forgets everything read since."""
        marks, leaves, names, self._size = state
        del self.marks[marks:], self.starts[leaves:], self.ends[leaves:], self.names[names:], self._texts[3 * leaves :]

    def search_leaves(self, search: Callable[[str], Iterable[Secret]]) -> None:
        """Search all leaves together, once."""
        text = "".join(self._texts)
        self._texts = []
        for start, end, kind, inner in search(text) if text else ():
            index = max(0, bisect_right(self.starts, start) - 1)
            while index < len(self.starts) and self.starts[index] < end:
                leaf_start = self.starts[index]
                secret_start, secret_end = max(0, start - leaf_start), min(self.ends[index], end) - leaf_start
                if secret_start < secret_end:
                    self.secrets.setdefault(index, []).append(Secret(secret_start, secret_end, kind, inner))
                index += 1


class Redactor:
    """Redacts texts and documents for one share."""

    def __init__(
        self,
        pseudonyms: PseudonymGenerator,
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
            known: the values and user names that were recognised in the capture.
            on_secret: called with each secret that the user does not keep, and the text around it.
        """
        self.pseudonyms = pseudonyms
        self.search = SecretSearch(catalogue, choices, known, blobs=not unparsed, personal=personal)
        """Finds the secrets in texts."""
        self._on_secret = on_secret
        self._choices = choices
        self.keeps_bodies = bodies
        """Whether values in bodies stay if they are not secret."""
        self._keeps_unparsed = unparsed
        self._replaces_personal_numbers = personal
        self._clean_names: set[str] = set()
        self._places_left = MAX_JSON_TOKENS
        self.renamed_members: dict[str, str] = {}
        """The pseudonyms of members' names, by name."""

    def redact_text(self, text: str, replacements: list[Replacement], path: Path = None) -> str:
        """Returns a text with its secrets replaced, or all of it; adds each replacement to `replacements`."""
        try:
            secrets = self.search.secrets(text)
        except SearchLimitReached:
            secrets = [Secret(0, len(text), "unparsed")]
        return apply_edits(text, self._edits(text, secrets, replacements, path))

    def redact_label(self, text: str, replacements: list[Replacement], path: Path = None) -> str:
        """Redact the name of a server or a file like a text, and also replaces user names, as in `anna-notes`."""
        redacted_text = self.redact_text(text, replacements, path)
        words = [
            Secret(*word.span(), "user-word")
            for word in _LABEL_WORD.finditer(redacted_text)
            if self.search.is_user(word[0])
        ]
        return self.replace_secrets(redacted_text, words, replacements, path)

    def redact_document(self, text: str, replacements: list[Replacement]) -> str:
        """Returns a JSON text with its secrets replaced; adds each replacement to `replacements`.

        Raises:
            NotJson: the text is not JSON.
            SearchLimitReached: the text takes too long to search, or contains too many secrets or values.
        """
        places = _DocumentPlaces()
        self._places_left = MAX_JSON_TOKENS
        self.search.has_decoded = False
        self._read_document(text, None, 0, places)
        places.search_leaves(self.search.secrets)
        if not places.secrets and not places.has_forced_replacement:
            if not self.search.has_decoded:
                self._clean_names.update(islice(places.names, max(0, MAX_CLEAN_NAMES - len(self._clean_names))))
            return text
        return apply_edits(
            text, self._document_edits(text, None, iter(places.marks), count(), places.secrets, replacements)
        )

    def replace_secrets(
        self, text: str, secrets: Iterable[Secret], replacements: list[Replacement], path: Path = None
    ) -> str:
        """Replace given secrets in a text, unless the user keeps them; adds each replacement to `replacements`."""
        return apply_edits(text, self._edits(text, secrets, replacements, path))

    def pseudonym(self, kind: str, secret: str) -> str:
        """Returns the pseudonym for a secret of a kind."""
        if kind in _DIGIT_KINDS and "\\" in secret:  # the digits are written as escapes
            return self.pseudonyms.tag(secret, kind)
        if kind == "known-value" and self.search.known_value_search.is_host(secret):
            return self.pseudonyms.host(secret)
        return self._pseudonym_in_form(kind, secret)

    def _pseudonym_in_form(self, kind: str, secret: str) -> str:
        """Returns a pseudonym in the form that secrets of the kind have."""
        pseudonyms = self.pseudonyms
        match kind:
            case "email":
                return pseudonyms.email(secret)
            case "user-name" | "user-word" | "login-user":
                return pseudonyms.user(secret)
            case "host":
                return pseudonyms.host(secret)
            case "card-number" | "number":
                return pseudonyms.number(secret)
            case "phone-number":
                return pseudonyms.phone(secret)
            case "iban":
                return pseudonyms.iban(secret)
            case "mac-address":
                return pseudonyms.mac(secret)
            case "ip-address":
                return pseudonyms.ip_address(secret)
            case "secret-in-hexadecimal" | "personal-in-hexadecimal" | "known-value-in-hexadecimal":
                return pseudonyms.identifier(secret)
            case "blob" | "secret-in-base64" | "personal-in-base64" | "known-value-in-base64":
                return pseudonyms.base64(secret)
        return pseudonyms.tag(secret, kind)

    def _read_document(self, text: str, base: Path, depth: int, places: _DocumentPlaces) -> None:
        """Read a document and the documents in its strings.

        Raises:
            NotJson: the text is not JSON.
            SearchLimitReached: the frame has too many values.
        """
        has_meta = _may_have_meta(text)
        for token in tokens(text, base):
            self._places_left -= 1
            if self._places_left < 0:
                raise SearchLimitReached(f"it contains more than {MAX_JSON_TOKENS:,} values")
            if not token.is_string:
                places.marks.append(_PlaceMark.PLAIN)
                places.has_forced_replacement = places.has_forced_replacement or self._kind_of_number(token) is not None
            elif (
                token.is_name and token.text in self._clean_names and not (has_meta and is_client_location(token.path))
            ):
                places.marks.append(_PlaceMark.PLAIN)
            elif token.is_name or not self._read_inner_document(token, depth, places):
                places.add_leaf(token)
                if not places.has_forced_replacement:
                    places.has_forced_replacement = (
                        has_meta and is_client_location(token.path)
                        if token.is_name
                        else self._kind_of_all(token, has_meta=has_meta) is not None
                    )

    def _read_inner_document(self, token: JsonToken, depth: int, places: _DocumentPlaces) -> bool:
        """Read a string as a document if it contains one; returns whether it does."""
        if (
            token.text[:1] not in _DOCUMENT_STARTS
            or depth >= MAX_NESTED_JSON_DEPTH
            or self._choices.redacts(token.path)
        ):
            return False
        if token.text.lstrip(" \t\r\n")[:1] not in ("{", "[", '"'):
            return False
        if is_client_metadata(token.path):
            return False  # it is replaced whole
        state = places.state
        places.marks.append(_PlaceMark.INNER)
        try:
            self._read_document(token.text, token.path, depth + 1, places)
        except NotJson:
            places.restore(state)
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
        replacements: list[Replacement],
    ) -> list[Edit]:
        """Read a document again; returns its edits. `marks` and `leaves` include the documents in its strings."""
        edits: list[Edit] = []
        has_meta = _may_have_meta(text)
        for token in tokens(text, base):
            mark = next(marks)
            string_edits: list[Edit] = []
            if not token.is_string:
                pseudonym = self._number_pseudonym(token, replacements)
                if pseudonym is not None:
                    edits.append(Edit(token.start, token.end, pseudonym))
            elif mark == _PlaceMark.INNER:
                string_edits = self._document_edits(token.text, token.path, marks, leaves, secrets, replacements)
            elif mark == _PlaceMark.LEAF:
                string_edits = self._string_edits(token, secrets.get(next(leaves), ()), replacements, has_meta=has_meta)
            if string_edits:
                edits += edits_in_json(text[token.start : token.end], string_edits, token.start)
        return edits

    def _string_edits(
        self, token: JsonToken, secrets: Sequence[Secret], replacements: list[Replacement], *, has_meta: bool
    ) -> list[Edit]:
        """Returns the edits of a string's text."""
        text, path = token.text, token.path
        if token.is_name:
            if has_meta and is_client_location(path):
                secrets = [Secret(0, len(text), "client-metadata")]
            if not secrets and not self.search.has_decoded and len(self._clean_names) < MAX_CLEAN_NAMES:
                self._clean_names.add(text)
            if is_definition(path, is_name=True):
                secrets = [secret for secret in secrets if not is_known_value(secret.kind)]
            edits = self._edits(text, secrets, replacements, path)
            if edits and len(self.renamed_members) < MAX_CLEAN_NAMES:
                self.renamed_members[text] = apply_edits(text, edits)
            return edits
        kind = self._kind_of_all(token, has_meta=has_meta)
        if kind is None and not secrets:  # nearly all strings; the rest of the function takes longer
            return []
        if is_protocol(path) and kind != "client-metadata":
            secrets = [secret for secret in secrets if secret.kind not in UNCERTAIN_KINDS]
        elif kind is not None:
            self._report_secrets(text, secrets, path)
            secrets = [Secret(*_credential_span(text), kind)]
        elif is_definition(path):
            secrets = [secret for secret in secrets if not is_known_value(secret.kind)]
        return self._edits(text, secrets, replacements, path)

    def _kind_of_all(self, token: JsonToken, *, has_meta: bool) -> str | None:
        """Returns the reason for replacing a string whole, or None. `has_meta` is false if there is no `_meta`."""
        if self._choices.redacts(token.path):
            return "chosen"
        if holds_secret(token.name) and not is_harmless(token.text):
            return "named-secret"
        if holds_session_id(token.name, token.text):
            return "named-secret"
        if has_meta and (is_client_metadata(token.path) or is_invalid_trace_context(token.path, token.text)):
            return "client-metadata"
        if (
            token.name in _BLOB_NAMES
            and _BLOB(token.text)
            and not self._keeps_unparsed
            and decoded_base64(token.text) is None
        ):
            return "blob"
        return None if self.keeps_bodies or not is_payload(token.path) else "body"

    def _kind_of_number(self, token: JsonToken) -> str | None:
        """Returns the reason for replacing a number, or None."""
        if is_protocol(token.path):
            return None
        if self._choices.redacts(token.path):
            return "chosen"
        if holds_secret_number(token.name):
            return "named-secret"
        if is_card_number(token.text):
            return "card-number"
        if self._replaces_personal_numbers and holds_phone_number(token.name) and is_phone_number(token.text):
            return "phone-number"
        return None if self.keeps_bodies or not is_payload(token.path) else "body"

    def _number_pseudonym(self, token: JsonToken, replacements: list[Replacement]) -> str | None:
        """Returns the pseudonym for a number, or None if the number stays."""
        kind = self._kind_of_number(token)
        if kind is None or self._choices.keeps(kind, token.text, token.path):
            return None
        pseudonym = self.pseudonym(kind if kind == "phone-number" else "number", token.text)
        replacements.append(Replacement(kind, token.text, pseudonym, token.path))
        return pseudonym

    def _edits(self, text: str, secrets: Iterable[Secret], replacements: list[Replacement], path: Path) -> list[Edit]:
        """Returns the edits that replace secrets. Overlapping secrets are replaced together."""
        edits: list[Edit] = []
        secrets = list(secrets)
        self._report_secrets(text, secrets, path)
        for start, end, kind, _ in _merge_overlapping(secrets):
            secret = text[start:end]
            if not secret or PSEUDONYM.fullmatch(secret) or self._choices.keeps(kind, secret, path):
                continue
            pseudonym = self.pseudonym(kind, secret)
            edits.append(Edit(start, end, pseudonym))
            replacements.append(Replacement(kind, secret, pseudonym, path))
        return edits

    def _report_secrets(self, text: str, secrets: Iterable[Secret], path: Path) -> None:
        """Calls `on_secret` with the secrets that the user does not keep."""
        if self._on_secret is not None:
            for secret in secrets:
                if not self._choices.keeps(secret.kind, text[secret.start : secret.end], path):
                    self._on_secret(secret, text)


_PROTOCOL_NAMES: Final = PROTOCOL_MEMBERS | META_MEMBERS
"""Names that sound like those of secrets, but whose values are harmless."""
_DIGIT_KINDS: Final = frozenset({"card-number", "phone-number", "iban", "mac-address", "ip-address"})
"""Kinds whose pseudonyms have other digits in the same places."""
_DOCUMENT_STARTS: Final = frozenset('{[" \t\r\n')
_LEAF_SEPARATOR: Final = '"\x1f\n'
"""Separates leaves in the searched text."""


def _may_have_meta(text: str) -> bool:
    """Whether a document may have a member `_meta`, whose name may be written with escapes."""
    return "_meta" in text or "\\u" in text


def _merge_overlapping(secrets: Iterable[Secret]) -> Iterator[Secret]:
    """Yields secrets in order, and one secret in place of several that overlap, with the kind of the longest."""
    merged_secret: Secret | None = None
    longest_size = 0
    for secret in sorted(secrets, key=lambda secret: (secret.start, -secret.end)):
        size = secret.end - secret.start
        if merged_secret is None or secret.start >= merged_secret.end:
            if merged_secret is not None:
                yield merged_secret
            merged_secret, longest_size = secret, size
        elif secret.end > merged_secret.end:
            # With a pseudonym for each, an address that contains a user name, say, would no longer be an address.
            kind = secret.kind if size > longest_size else merged_secret.kind
            merged_secret, longest_size = Secret(merged_secret.start, secret.end, kind), max(size, longest_size)
    if merged_secret is not None:
        yield merged_secret


def _credential_span(text: str) -> tuple[int, int]:
    """Returns the start and end of the credential after a scheme, or of the whole text if it has no scheme."""
    match = _SCHEME(text)
    return (match.end() if match else 0), len(text)
