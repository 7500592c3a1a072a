"""Numbered pseudonyms, which replace the secrets in a cassette: names in the order in which the secrets appear.

They need no key. So the same conversation, recorded again, gets the same pseudonyms, although its tokens differ. A
number reveals nothing about the secret that it replaces.
"""

import re
from collections import Counter
from hashlib import blake2b
from typing import Final

from captures.redact import PREFIX
from mcpproxy.sharing.pseudonyms import PHONE_PSEUDONYM, PseudonymGenerator, fill_characters

_HASH: Final = re.compile(rf"{PREFIX}[0-9a-f]{{16}}").fullmatch
_NOUNS: Final = {
    "body": "value",
    "chosen": "value",
    "client-metadata": "value",
    "blob": "value",
    "unparsed": "text",
    "named-secret": "secret",
    "assigned-secret": "secret",
    "known-value": "secret",
}
"""The nouns in the names of secrets, by kind; all other kinds are tokens."""
_DIGITS: Final = re.compile("[0-9]")
_HEXADECIMAL_DIGITS: Final = frozenset("0123456789abcdefABCDEF")


class NumberedPseudonyms(PseudonymGenerator):
    """Numbers the secrets of one cassette, each kind from 1."""

    def __init__(self) -> None:
        super().__init__(bytes(32))
        self._numbers: dict[bytes, int] = {}
        """By digest of kind and secret, because secrets can be long."""
        self._counts: Counter[str] = Counter()
        self._names: dict[bytes, str] = {}

    def _number(self, kind: str, secret: str) -> int:
        """Returns the number of a secret among those of its kind; it is new if the secret is."""
        key = _key(kind, secret)
        if key not in self._numbers:
            self._counts[kind] += 1
            self._numbers[key] = self._counts[kind]
        return self._numbers[key]

    def _digest(self, kind: str, secret: str, size: int) -> bytes:
        return (self._number(kind, secret) % (1 << 8 * size)).to_bytes(size)

    def tag(self, secret: str, kind: str = "") -> str:
        """Returns a noun with a number, such as `token-1`; for what a recorder hashes, a hash that is a number.

        A secret keeps the noun of its first occurrence.
        """
        if kind == "hash" or _HASH(secret):
            return f"{PREFIX}{self._number('hash', secret):016x}"
        key = _key("tag", secret)
        if key not in self._names:
            noun = _NOUNS.get(kind, "token")
            self._counts[noun] += 1
            self._names[key] = f"{noun}-{self._counts[noun]}"
        return self._names[key]

    def user(self, name: str) -> str:
        """Returns a user name, such as `user-1`."""
        return f"user-{self._number('user', name.lower())}"

    def host(self, name: str) -> str:
        """Returns a host name in a domain that cannot exist, such as `host-1.invalid`."""
        return f"host-{self._number('host', name.lower())}.invalid"

    def phone(self, number: str) -> str:
        """Returns a telephone number that cannot exist, with as many digits, and the other characters unchanged."""
        digits = _DIGITS.findall(number)
        width = len(digits) - len(PHONE_PSEUDONYM)
        text = str(self._number("phone", "".join(digits))).zfill(max(width, 1))
        return fill_characters(number, str.isdigit, PHONE_PSEUDONYM + text)

    def iban(self, account: str) -> str:
        """Returns a bank account that cannot exist, with the same length, and the spaces unchanged."""
        characters = re.sub("[^A-Z0-9]", "", account)
        text = str(self._number("iban", characters)).zfill(max(len(characters) - 4, 1))
        return fill_characters(account, str.isalnum, f"XX00{text}")

    def identifier(self, digits: str) -> str:
        """Returns a number in as many hexadecimal digits, with the other characters unchanged."""
        count = sum(char in _HEXADECIMAL_DIGITS for char in digits)
        new_digits = iter(f"{self._number('id', digits.lower()):0{max(count, 1)}x}")
        return "".join(next(new_digits, "0") if char in _HEXADECIMAL_DIGITS else char for char in digits)


def _key(kind: str, secret: str) -> bytes:
    return blake2b(f"{kind}:{secret}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
