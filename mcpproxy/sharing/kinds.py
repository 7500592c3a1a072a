"""The kinds of what is replaced, as far as the code treats some differently from others."""

from typing import Final

PERSONAL_NUMBERS: Final = frozenset({"phone-number", "iban", "mac-address"})
"""Kinds that are found only on request."""
PERSONAL: Final = PERSONAL_NUMBERS | frozenset(
    {"email", "user-name", "user-word", "host", "ip-address", "personal-in-base64", "personal-in-percent-encoding"}
    | {"personal-in-hexadecimal"}
)
"""Kinds that identify a person or a host, but give no access."""
UNCERTAIN: Final = PERSONAL_NUMBERS | frozenset({"host", "ip-address", "user-word", "card-number", "url-parameter"})
"""Kinds that are left alone in ids, cursors and other words of the protocol."""
_IN: Final = "-in-"


def kind_in_encoding(kind: str, encoding: str) -> str:
    """The kind of a secret that is encoded, such as `secret-in-base64`; of several encodings, it has the outermost."""
    plain = kind.partition(_IN)[0]
    is_personal = plain == "personal" or plain in PERSONAL or plain == "card-number"
    return f"{'personal' if is_personal else 'secret'}{_IN}{encoding}"


def is_encoded(kind: str) -> bool:
    """Whether a kind says that the secret is encoded."""
    return _IN in kind
