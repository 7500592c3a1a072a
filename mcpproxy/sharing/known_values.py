"""Finds values that were recognised as secret elsewhere in a capture, even if nothing else shows that they are secret.

A password may be in a member `password` and again as a word in prose, and a host in a URL and again by itself. An
automaton searches for all values at once, in a time that does not depend on their number. A value must be distinctive,
as the word `password` may be a password, too.
"""

import re
from base64 import b64encode
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final
from urllib.parse import unquote

from ahocorasick_rs import AhoCorasick, MatchKind

from analysis.protocol.extensions import KNOWN_METHODS
from mcpproxy.sharing.kinds import KNOWN_VALUE, PERSONAL_NUMBER_KINDS, kind_in_encoding
from mcpproxy.sharing.kingfisher import PlainSecret, Secret
from mcpproxy.sharing.names import holds_secret, is_harmless
from mcpproxy.sharing.passwords import follows_password
from mcpproxy.sharing.patterns import is_harmless_host, lower_case
from mcpproxy.sharing.pseudonyms import PSEUDONYM
from mcpproxy.sharing.word_lists import COMMON_ACCOUNTS, FAMOUS_HOSTS, FILE_ENDINGS, NON_PASSWORDS, OBJECT_NAMES

MAX_VALUES: Final = 10_000
"""Values to search for. A capture can contain any number."""
MAX_VALUE_CHARS: Final = 1024
"""The length of one value."""
MAX_VALUES_CHARS: Final = 1 << 20
"""The length of all values together. The automaton takes some 20 bytes for each character."""
MIN_VALUE_CHARS: Final = 8
MIN_LETTERS: Final = 20
"""The length of a value that consists of letters only. Words are shorter."""
MAX_USER_NAMES: Final = 50
"""User names to search for. A capture can contain any number of paths with them."""
MIN_USER_CHARS: Final = 3
MIN_ENCODED_USER_CHARS: Final = 5
"""The length of a user name whose encoded forms are searched for. A shorter one, in hexadecimal, could be a number."""
_MAX_UNDECODED_CHARS: Final = 11
"""The length of a value whose encoded forms are searched for. A longer one is found by decoding: `encodings` decodes
words of at least 16 characters of base64, or 24 hexadecimal digits."""
_MAX_COUNTED: Final = 200_000
"""Different values that are counted after they were left out."""

_EXCLUDED_KINDS: Final = PERSONAL_NUMBER_KINDS | frozenset(
    {"email", "login-user", "ip-address", "card-number", "user-word", "blob", "client-metadata", "body", "unparsed"}
    | {KNOWN_VALUE}
)
"""Kinds that are recognised everywhere by their form, and kinds that are replaced only because of their position. The
user in a login, for example, is often a word, such as `sys`."""
_IDENTIFIER_KIND_ENDINGS: Final = ("-id", "-name", "-username", "-domain", "-url")
"""Endings of the catalogue's kinds that are not secret, such as the name of an account."""
_PRECAUTION_KINDS: Final = frozenset({"url-parameter"})
"""Kinds whose values may be anything, and are searched for only if they look random."""
_HOST: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}", re.ASCII).fullmatch
_MAX_HOST_CHARS: Final = 253
_HOST_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789-."
_NEXT_LABEL: Final = re.compile(r"\.[a-z0-9_]").match
_ADDRESS: Final = re.compile(r"[~/\\.]|[A-Za-z]:[\\/]|[A-Za-z][A-Za-z0-9+.-]{1,30}://").match
"""Matches the beginning of a path or a URL. The secrets in it are values of their own."""
_NUMBER: Final = re.compile(
    r"[0-9][0-9.,:/ _-]*[a-z%]{0,3}|v?[0-9]{1,9}(?:\.[0-9]{1,9})+(?:[-+.][0-9a-z.+-]*)?"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9:.,]+(?:z|[+-][0-9:]+)?"
).fullmatch
"""Matches a number, a version or a time, in lower case."""
_NO_SEPARATORS: Final = dict.fromkeys(map(ord, "-_./: "))
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*(?:\.[A-Za-z_$][A-Za-z0-9_$]*)*").fullmatch
_CAMEL_WORD: Final = re.compile(r"[A-Z]?[a-z]{2,}")
_MIN_WORD_SHARE: Final = 0.8
"""The part of an identifier's letters that must belong to words. In random text, few do."""
_MAX_DIGITS: Final = 6
"""The number of digits in an identifier."""
_TYPE: Final = re.compile(
    r"(?:^|[a-z_])(?:[Uu]?[Ii]nt|[Ff]loat|[Bb]ase|[Ss]ha|SHA|[Mm]d|MD|[Uu]tf|UTF|[Aa]es|AES|[Ee]d|[Oo][Aa]uth)[0-9]"
).search
"""Matches names of types and algorithms with a number, such as `Uint8Array`."""
_MIN_RANDOM_CHARS: Final = 16
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_BORDER: Final = re.compile(r"\b", re.ASCII)
_BORDER_CHARACTER: Final = "\x00"
_CORE: Final = re.compile(r"[a-z0-9_.-]+")
"""Matches characters that JSON never escapes."""


def is_distinctive(value: str) -> bool:
    """Whether a text differs so much from words, numbers and names that it is the same secret wherever it occurs."""
    lower_value = value.lower()
    if not MIN_VALUE_CHARS <= len(value) <= MAX_VALUE_CHARS or PSEUDONYM.search(value) or _ADDRESS(value):
        return False
    if lower_value in NON_PASSWORDS or is_harmless(value) or value in KNOWN_METHODS or _NUMBER(lower_value):
        return False
    if any("\ud800" <= character <= "\udfff" for character in value):
        return False
    letters = value.translate(_NO_SEPARATORS)
    if letters.isalpha():
        return len(letters) >= MIN_LETTERS and not holds_secret(value)
    return any(char.isalnum() for char in value)


def _is_identifier(value: str) -> bool:
    """Whether a text may be code: names of several words, as in `Uint8Array` and `base64.b16encode`."""
    if _IDENTIFIER(value) is None:
        return False
    words = _CAMEL_WORD.findall(value)
    letters = sum(character.isalpha() for character in value)
    digits = sum(character.isdigit() for character in value)
    return len(words) > 1 and digits <= _MAX_DIGITS and sum(map(len, words)) >= _MIN_WORD_SHARE * letters


def _is_mixed(value: str) -> bool:
    """Whether a possible name in code is a password after `password=`: it has digits, but not those of a type."""
    return "." not in value and any(char.isdigit() for char in value) and _TYPE(value) is None


def is_distinctive_host(host: str) -> bool:
    """Whether a host has at least two labels, is not public, and is not a file or expression such as `readme.md`."""
    lower_host = host.lower()
    first_label, _, other_labels = lower_host.partition(".")
    return (
        len(host) >= MIN_VALUE_CHARS
        and _HOST(lower_host) is not None
        and not is_harmless_host(lower_host)
        and first_label not in OBJECT_NAMES
        and other_labels not in FILE_ENDINGS
        and lower_host.removeprefix("www.") not in FAMOUS_HOSTS
    )


class KnownValues:
    """Collects the recognised values of a capture."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        """In lower case."""
        self.secrets: dict[str, None] = {}
        """In the order in which they were recognised."""
        self._users: Counter[str] = Counter()
        self._size = 0
        self._left_out: set[int] = set()

    def add(self, secret: Secret, text: str) -> None:
        """Add a secret that was recognised in a text, if it is distinctive."""
        kind, value = secret.inner or PlainSecret(secret.kind, text[secret.start : secret.end])
        if kind == "user-name":
            self._add_user(value)
        elif kind == "host":
            if is_distinctive_host(value):
                self._add(value.lower(), is_host=True)
        elif kind == "url-user":
            for part in value.split(":", 1):
                self._add_secret(part)
                self._add_secret(unquote(part))
        elif kind in _PRECAUTION_KINDS:
            if _is_random(value):
                self._add_secret(value)
        elif kind == "assigned-secret" and _is_identifier(value):
            # `key: Uint8Array` is not a password, but `password=Qwe9rtyMoth4` is one.
            if follows_password(text, secret.start) and _is_mixed(value):
                self._add_secret(value)
        elif kind not in _EXCLUDED_KINDS and not kind.endswith(_IDENTIFIER_KIND_ENDINGS):
            self._add_secret(value)

    @property
    def count(self) -> int:
        """The number of values, without user names."""
        return len(self.hosts) + len(self.secrets)

    @property
    def left_out(self) -> int:
        """The number of values that are not searched for because they are too many or too long."""
        return len(self._left_out)

    @property
    def users(self) -> frozenset[str]:
        """The user names that occur most often in paths, in lower case."""
        names = (
            name
            for name, _ in self._users.most_common()
            if len(name) >= MIN_USER_CHARS and name not in COMMON_ACCOUNTS and not name.isdigit()
        )
        return frozenset(islice(names, MAX_USER_NAMES))

    def _add_user(self, name: str) -> None:
        lower_name = name.lower()
        if lower_name in self._users or len(self._users) < MAX_VALUES:
            self._users[lower_name] += 1

    def _add_secret(self, value: str) -> None:
        if is_distinctive(value):
            self._add(value)
        elif len(value) > MAX_VALUE_CHARS:
            self._leave_out(value)

    def _add(self, value: str, *, is_host: bool = False) -> None:
        values: set[str] | dict[str, None] = self.hosts if is_host else self.secrets
        if value in values:
            return
        if self.count >= MAX_VALUES or self._size + len(value) > MAX_VALUES_CHARS:
            self._leave_out(value)
        elif is_host:
            self.hosts.add(value)
            self._size += len(value)
        else:
            self.secrets[value] = None
            self._size += len(value)

    def _leave_out(self, value: str) -> None:
        if len(self._left_out) < _MAX_COUNTED:
            self._left_out.add(hash(value))


def _is_random(value: str) -> bool:
    """Whether a text is as long as a key, and has both digits and letters."""
    has_digits_and_letters = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return len(value) >= _MIN_RANDOM_CHARS and has_digits_and_letters and not _UUID(value.lower())


class KnownValueSearch:
    """Finds known values in texts, at word borders, in upper and lower case."""

    def __init__(self, values: KnownValues | None = None) -> None:
        """Build the automatons. Without values, nothing is found."""
        values = values or KnownValues()
        self.users = values.users
        """User names, in lower case, which this search finds only if they are encoded."""
        self._hosts = frozenset(values.hosts)
        self._kinds: dict[str, str] = {}
        for value in (*values.hosts, *values.secrets):
            self._kinds.setdefault(lower_case(value), KNOWN_VALUE)
        values_to_encode = [user for user in values.users if len(user) >= MIN_ENCODED_USER_CHARS]
        values_to_encode += [value for value in (*values.hosts, *values.secrets) if len(value) <= _MAX_UNDECODED_CHARS]
        for value in values_to_encode:
            raw = value.encode("utf-8", "surrogatepass")
            encoded_once = b64encode(raw)
            for base64 in (encoded_once.decode(), b64encode(encoded_once).decode()):
                for spelling in (lower_case(base64), lower_case(base64.rstrip("="))):
                    self._kinds.setdefault(spelling, kind_in_encoding(KNOWN_VALUE, "base64"))
            self._kinds.setdefault(raw.hex(), kind_in_encoding(KNOWN_VALUE, "hexadecimal"))
        self._patterns = list(self._kinds)
        self._automaton = _automaton(self._patterns)
        self._border_automaton: AhoCorasick | None = None
        cores = {_core(value) for value in (*self._patterns, *values.users)}
        self._has_no_core = "" in cores
        self._cores = _automaton(sorted(cores - {""}))

    def secrets(self, text: str) -> Iterator[Secret]:
        """Yields the stretches of a text that are known values."""
        if self._automaton is None:
            return
        lower_text = lower_case(text)
        matches = _matches(self._automaton, lower_text)
        if not matches:
            return
        if not all(_is_at_borders(lower_text, start, end) for _, start, end in matches):
            # Another value may begin or end within a word that contains a value.
            yield from self._secrets_at_borders(lower_text)
            return
        for pattern, start, end in matches:
            yield from self._secret(lower_text, self._patterns[pattern], start, end)

    def may_occur(self, text: str) -> bool:
        """Whether a text may contain a known value or a user name. The text may have JSON escapes, but no encoded text.

        False is certain, unless letters are written as escapes (`\\u0061`).
        """
        if self._has_no_core:
            return True
        return self._cores is not None and bool(_matches(self._cores, lower_case(text)))

    def is_host(self, value: str) -> bool:
        """Whether a known value is a known host, or a subdomain of one."""
        lower_value = value.lower()
        while lower_value and lower_value not in self._hosts:
            lower_value = lower_value.partition(".")[2]
        return bool(lower_value)

    def _secrets_at_borders(self, lower_text: str) -> Iterator[Secret]:
        """Yields the same as `secrets`. Inserts a character at each word border, which takes twenty times as long."""
        if self._border_automaton is None:
            marked_patterns = [_BORDER.sub(_BORDER_CHARACTER, pattern) for pattern in self._patterns]
            self._border_automaton = _automaton(marked_patterns)
        assert self._border_automaton is not None
        borders = [match.start() + index for index, match in enumerate(_BORDER.finditer(lower_text))]
        """The offsets of the inserted characters."""
        for pattern, start, end in _matches(self._border_automaton, _BORDER.sub(_BORDER_CHARACTER, lower_text)):
            # The border characters before a position do not count: they are not in the text.
            text_start, text_end = start - bisect_left(borders, start), end - bisect_left(borders, end)
            yield from self._secret(lower_text, self._patterns[pattern], text_start, text_end)

    def _secret(self, lower_text: str, value: str, start: int, end: int) -> Iterator[Secret]:
        """Yields the secret at a position. A known host is extended to the longer host that ends with it.

        Yields nothing if that host is public or may be code.
        """
        if value in self._hosts:
            start = _start_of_host(lower_text, start)
            if (
                lower_text[end : end + 1] == "("
                or _NEXT_LABEL(lower_text, end)
                or is_harmless_host(lower_text[start:end])
            ):
                return
        yield Secret(start, end, self._kinds[value])


def _start_of_host(lower_text: str, host_start: int) -> int:
    """Returns the start of the host that ends with the known host at a position."""
    search_start = max(0, host_start - _MAX_HOST_CHARS)
    prefix = lower_text[search_start:host_start]
    return (
        host_start - len(prefix) + len(prefix.rstrip(_HOST_CHARACTERS)) if prefix.endswith((".", "-")) else host_start
    )


def _automaton(patterns: list[str]) -> AhoCorasick | None:
    """Returns an automaton that finds the longest patterns, or None if there are no patterns."""
    return AhoCorasick(patterns, matchkind=MatchKind.LeftmostLongest, store_patterns=False) if patterns else None


def _matches(automaton: AhoCorasick, text: str) -> list[tuple[int, int, int]]:
    """Returns the patterns found in a text: the number of each, its start and its end."""
    try:
        return automaton.find_matches_as_indexes(text)
    except UnicodeEncodeError:  # a lone surrogate
        return automaton.find_matches_as_indexes(text.encode("utf-8", "replace").decode())


def _core(value: str) -> str:
    """Returns the longest stretch of a value that is the same in JSON."""
    return max(_CORE.findall(value), key=len, default="")


def _is_at_borders(lower_text: str, start: int, end: int) -> bool:
    """Whether a stretch begins and ends at word borders."""
    return not (_is_inside_word(lower_text, start) or _is_inside_word(lower_text, end))


def _is_inside_word(lower_text: str, position: int) -> bool:
    return 0 < position < len(lower_text) and _is_word(lower_text[position - 1]) and _is_word(lower_text[position])


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
