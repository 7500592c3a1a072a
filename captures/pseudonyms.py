"""The form of the pseudonyms that stand for secrets in redacted copies, also in cassettes."""

import re
from typing import Final

from captures.redact import PREFIX

DOMAIN: Final = ".invalid"
"""A domain reserved by RFC 2606, in which no host can exist."""
PSEUDONYM: Final = re.compile(
    rf"{PREFIX}[0-9a-f]{{16}}|user-[0-9a-f]{{8}}|host-[0-9a-f]{{1,8}}\{DOMAIN}"
    r"|(?<![\w-])(?:token|secret|text|value|user)-[0-9]{1,7}(?![\w-])"
)
"""Matches every pseudonym apart from numbers, network addresses, ids and base64, also those of cassettes."""
