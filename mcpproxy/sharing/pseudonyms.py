"""Keyed pseudonyms, which replace the secrets in a redacted copy.

The random key is made for one share and discarded with this object. So a secret has the same pseudonym throughout a
share, and a different one in the next share, and guesses cannot be tested. A pseudonym keeps the form that a reader or
a schema expects: an address stays an address, a number stays a number with as many digits, base64 stays base64. No
pseudonym looks like a secret.
"""

import os
import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import blake2b
from ipaddress import IPv6Address
from itertools import cycle
from typing import Final

from captures.pseudonyms import DOMAIN, PSEUDONYM
from captures.redact import PREFIX

__all__ = ["MAC_PSEUDONYM", "PHONE_PSEUDONYM", "PSEUDONYM", "PseudonymGenerator", "fill_characters", "passes_luhn"]

_KEY_BYTES: Final = 32
PHONE_PSEUDONYM: Final = "999"
"""The beginning of telephone numbers that are pseudonyms. No country and no area has this code."""
MAC_PSEUDONYM: Final = "02005e"
"""The beginning of MAC addresses that are pseudonyms: the prefix of IANA, with the bit for local assignment."""
_IBAN_PSEUDONYM: Final = "XX00"
"""The beginning of bank accounts that are pseudonyms. This country and these check digits do not exist."""


class PseudonymGenerator:
    """Computes the pseudonyms of one share."""

    def __init__(self, key: bytes | None = None) -> None:
        """Only tests pass a `key`; otherwise it is random."""
        self._key = key or os.urandom(_KEY_BYTES)

    def _digest(self, kind: str, secret: str, size: int) -> bytes:
        data = secret.encode("utf-8", "surrogatepass")
        return blake2b(data, key=self._key, digest_size=size, person=kind.encode()).digest()

    def tag(self, secret: str, kind: str = "") -> str:  # noqa: ARG002
        """Returns `hmac:` and 16 hexadecimal digits, the form of redacted secrets, whatever their kind."""
        return PREFIX + self._digest("tag", secret, 8).hex()

    def tag_of_bytes(self, secret: bytes) -> str:
        """Returns the same as `tag`, for bytes."""
        return self.tag(secret.decode("utf-8", "surrogateescape"))

    def user(self, name: str) -> str:
        """Returns a user name. It is the same in upper and lower case, as on most systems."""
        return f"user-{self._digest('user', name.lower(), 4).hex()}"

    def host(self, name: str) -> str:
        """Returns a host name in a domain that cannot exist."""
        return f"host-{self._digest('host', name.lower(), 4).hex()}{DOMAIN}"

    def email(self, address: str) -> str:
        """Returns an e-mail address."""
        name, _, host = address.rpartition("@")
        return f"{self.user(name)}@{self.host(host)}"

    def ip_address(self, address: str) -> str:
        """Returns an IPv4 or IPv6 address, and keeps brackets around it."""
        bare_address = address.strip("[]")
        return address.replace(
            bare_address, self.ipv6(bare_address) if ":" in bare_address else self.ipv4(bare_address)
        )

    def ipv4(self, address: str) -> str:
        """Returns an IPv4 address in 240.0.0.0/4, which is reserved and never routed (RFC 1112)."""
        first_byte, *other_bytes = self._digest("ipv4", address, 4)
        return ".".join(map(str, (240 | first_byte & 7, *other_bytes)))

    def ipv6(self, address: str) -> str:
        """Returns an IPv6 address in 2001:db8::/32, which is reserved for documentation (RFC 3849).

        All spellings of an address have the same pseudonym.
        """
        digits = self._digest("ipv6", _normal_address(address), 12).hex()
        return "2001:db8:" + ":".join(digits[start : start + 4] for start in range(0, 24, 4))

    def number(self, digits: str) -> str:
        """Returns other digits in the same places, with the other characters unchanged; never a valid card number."""
        stream = int.from_bytes(self._digest("number", re.sub("[^0-9]", "", digits), 32))
        chars = []
        for char in digits:
            if char.isascii() and char.isdigit():
                stream, value = divmod(stream, 9)
                chars.append(str(value + 1))  # never 0, with which a number in JSON cannot begin
            else:
                chars.append(char)
        text = "".join(chars)
        if passes_luhn(text):
            last_digit_index = max(index for index, char in enumerate(text) if char.isdigit())
            text = text[:last_digit_index] + str(int(text[last_digit_index]) % 9 + 1) + text[last_digit_index + 1 :]
        return text

    def phone(self, number: str) -> str:
        """Returns a telephone number that cannot exist, with as many digits, and the other characters unchanged."""
        digits = re.sub("[^0-9]", "", number)
        stream = int.from_bytes(self._digest("phone", digits, 32))
        return fill_characters(number, str.isdigit, PHONE_PSEUDONYM + str(stream))

    def iban(self, account: str) -> str:
        """Returns a bank account that cannot exist, with the same length, and the spaces unchanged."""
        stream = int.from_bytes(self._digest("iban", re.sub("[^A-Z0-9]", "", account), 32))
        return fill_characters(account, str.isalnum, _IBAN_PSEUDONYM + str(stream))

    def mac(self, address: str) -> str:
        """Returns a locally assigned MAC address, with the separators unchanged."""
        digits = re.sub("[^0-9a-f]", "", address.lower())
        return fill_characters(address, str.isalnum, MAC_PSEUDONYM + self._digest("mac", digits, 3).hex())

    def identifier(self, digits: str) -> str:
        """Returns other hexadecimal digits in the same places, with the other characters unchanged."""
        stream = self._digest("id", digits.lower(), 64).hex()
        new_digits = iter(stream * (len(digits) // len(stream) + 1))
        return "".join(next(new_digits) if char in "0123456789abcdefABCDEF" else char for char in digits)

    def base64(self, data: str) -> str:
        """Returns the base64 of a tag."""
        return b64encode(self.tag(data).encode()).decode()


def fill_characters(text: str, is_replaced: Callable[[str], bool], new_chars: str) -> str:
    """Replace some characters of a text with `new_chars`, in order, and from the start again after the last one."""
    remaining_chars = cycle(new_chars)
    return "".join(next(remaining_chars) if is_replaced(char) else char for char in text)


def _normal_address(address: str) -> str:
    """Returns an IPv6 address in its shortest spelling, without a zone; any other text in lower case."""
    try:
        return str(IPv6Address(address.partition("%")[0]))
    except ValueError:
        return address.lower()


def passes_luhn(text: str) -> bool:
    """Whether the digits in a text have a valid check digit (ISO/IEC 7812-1)."""
    digits = [int(char) for char in text if char.isascii() and char.isdigit()]
    doubled_digits = [value * 2 - 9 * (value > 4) for value in digits[-2::-2]]
    return len(digits) > 1 and (sum(digits[::-2]) + sum(doubled_digits)) % 10 == 0
