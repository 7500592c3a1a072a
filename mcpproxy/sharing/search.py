"""Searches a text for secrets, including text that is encoded in it, on several levels.

Every command that finds or replaces secrets uses this search, which treats decoded text like plain text. The time is
linear in the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final, Protocol

from mcpproxy.sharing.encodings import views
from mcpproxy.sharing.kingfisher import KingfisherScanner, SearchLimitReached, Secret
from mcpproxy.sharing.known_values import KnownValueSearch
from mcpproxy.sharing.patterns import credentials, personal_data
from mcpproxy.sharing.personal_numbers import personal_numbers
from mcpproxy.sharing.placeholders import is_placeholder
from mcpproxy.sharing.pseudonyms import PSEUDONYM
from mcpproxy.sharing.punctuation import end_of_word

MAX_FRAME_SECRETS: Final = 100_000
"""Secrets in one text. A text with more is a list of secrets, and is replaced whole."""
MAX_DECODINGS: Final = 3
"""Levels of encodings, one inside the other, that are decoded."""
MAX_DECODED_TIMES: Final = 8
"""The size of all decoded text, as a multiple of the text's size. Text in three encodings takes twice its size."""
_MIN_DECODED_CHARS: Final = 1 << 16
"""The number of characters that are decoded even if the text is short."""
_DATA_URI: Final = re.compile(r"(?i)\bdata:[^,\s\x1f]{0,200};base64,(?P<data>[A-Za-z0-9+/_%-]{16,}+=*)")
_USER_WORD: Final = re.compile(r"[A-Za-z0-9_]++(?:[.-][A-Za-z0-9_]++)*+")
_KINDS_WITH_PUNCTUATION: Final = frozenset({"ip-address", "url-user"})
"""Kinds that can end with punctuation: `fe80::`, `[::1]`, and a password before `@`."""


class TextChooser(Protocol):
    """The user's regular expressions for texts to replace."""

    def matches(self, text: str) -> Iterable[Secret]:
        """Yields further stretches of a text to replace."""


class SecretSearch:
    """Searches texts for one share."""

    def __init__(
        self,
        catalogue: KingfisherScanner,
        choices: TextChooser,
        known: KnownValueSearch | None = None,
        *,
        blobs: bool,
        personal: bool = False,
    ) -> None:
        """Create a search.

        Args:
            catalogue: the rules for secrets.
            choices: the user's choices.
            known: the values and user names that were recognised in the capture.
            blobs: whether data URIs are reported, although they cannot be searched.
            personal: whether telephone numbers, bank accounts and MAC addresses are found.
        """
        self.known_value_search = known or KnownValueSearch()
        """Finds the values that were recognised in the capture."""
        self.has_decoded = False
        """Whether anything other than escapes was decoded since this was last reset."""
        self._catalogue = catalogue
        self._choices = choices
        self._finds_blobs = blobs
        self._finds_personal_numbers = personal

    def secrets(self, text: str) -> list[Secret]:
        """Returns the secrets in a text, in no particular order; they may overlap.

        Raises:
            SearchLimitReached: the text has too many secrets, or the search takes too long.
        """
        return self._search_levels(text, MAX_DECODINGS, _DecodingLimit(len(text)))

    def is_user(self, word: str) -> bool:
        """Whether a word is the name of a known user."""
        return word.lower() in self.known_value_search.users

    def _search_levels(self, text: str, depth: int, limit: "_DecodingLimit") -> list[Secret]:
        secrets = list(islice(self._plain_secrets(text), MAX_FRAME_SECRETS + 1))
        # The text itself is searched as well: an apparent escape may be a folder, as in `C:\Users\nina`.
        for view in views(text) if depth else ():
            limit.count_decoded(len(view.text))
            self.has_decoded = self.has_decoded or view.is_encoded
            secrets += view.original_secrets(self._search_levels(view.text, depth - 1, limit))
        if len(secrets) > MAX_FRAME_SECRETS:
            raise SearchLimitReached(f"it holds more than {MAX_FRAME_SECRETS:,} secrets")
        return _without_pseudonyms(text, secrets) if secrets else secrets

    def _plain_secrets(self, text: str) -> Iterator[Secret]:
        """Yields the secrets in a text, without decoding it."""
        return chain(
            _without_punctuation(text, chain(self._catalogue.secrets(text), credentials(text), personal_data(text))),
            personal_numbers(text) if self._finds_personal_numbers else (),
            self._data_uris(text),
            self._user_words(text),
            self._choices.matches(text),
            self.known_value_search.secrets(text),
        )

    def _data_uris(self, text: str) -> Iterator[Secret]:
        if self._finds_blobs:
            for uri in _DATA_URI.finditer(text):
                yield Secret(*uri.span("data"), "blob")

    def _user_words(self, text: str) -> Iterator[Secret]:
        lower_text = text.lower()
        if not any(user in lower_text for user in self.known_value_search.users):
            return
        for word in _USER_WORD.finditer(text):
            name = word[0].strip("_")
            if self.is_user(word[0]):
                yield Secret(*word.span(), "user-word")
            elif self.is_user(name):
                start = word.start() + word[0].index(name)
                yield Secret(start, start + len(name), "user-word")


def _without_punctuation(text: str, secrets: Iterable[Secret]) -> Iterator[Secret]:
    """Yields secrets without the punctuation of sentences that end with them."""
    for secret in secrets:
        end = secret.end
        if secret.kind not in _KINDS_WITH_PUNCTUATION:
            end = end_of_word(text, secret.start, end)
        if end == secret.end:
            yield secret
        elif not is_placeholder(text[secret.start : end]):
            yield secret._replace(end=end)


class _DecodingLimit:
    """Limits the number of characters that are decoded for one text."""

    def __init__(self, size: int) -> None:
        self._remaining_chars = MAX_DECODED_TIMES * size + _MIN_DECODED_CHARS

    def count_decoded(self, size: int) -> None:
        """Count decoded characters.

        Raises:
            SearchLimitReached: there are too many.
        """
        self._remaining_chars -= size
        if self._remaining_chars < 0:
            raise SearchLimitReached(f"it encodes more than {MAX_DECODED_TIMES} times its size")


def _without_pseudonyms(text: str, secrets: list[Secret]) -> list[Secret]:
    """Returns the secrets that are not pseudonyms or parts of them, because a redacted copy may be shared again."""
    pseudonyms = [match.span() for match in PSEUDONYM.finditer(text)]
    if not pseudonyms:
        return secrets
    starts = [start for start, _ in pseudonyms]

    def is_in_pseudonym(secret: Secret) -> bool:
        index = bisect_right(starts, secret.start) - 1
        return index >= 0 and secret.end <= pseudonyms[index][1]

    return [secret for secret in secrets if not is_in_pseudonym(secret)]
