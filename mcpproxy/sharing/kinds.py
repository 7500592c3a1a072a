"""The kinds of secrets that the code treats differently from others."""

from typing import Final

PERSONAL_NUMBER_KINDS: Final = frozenset({"phone-number", "iban", "mac-address"})
"""Kinds that are found only on request."""
PERSONAL_KINDS: Final = PERSONAL_NUMBER_KINDS | frozenset(
    {
        "email",
        "user-name",
        "user-word",
        "login-user",
        "host",
        "ip-address",
        "personal-in-base64",
        "personal-in-percent-encoding",
    }
    | {"personal-in-hexadecimal"}
)
"""Kinds that identify a person or a host, but give no access."""
KNOWN_VALUE: Final = "known-value"
"""The kind of a value that is secret only because it was recognised elsewhere."""
_KIND_INFIX: Final = "-in-"
_ENCODINGS: Final = ("base64", "hexadecimal", "percent-encoding")
UNCERTAIN_KINDS: Final = PERSONAL_NUMBER_KINDS | frozenset(
    {"host", "ip-address", "user-word", "card-number", "url-parameter", KNOWN_VALUE}
    | {f"{KNOWN_VALUE}{_KIND_INFIX}{encoding}" for encoding in _ENCODINGS}
)
"""Kinds that are not replaced in ids, cursors and other values of the protocol."""


def kind_in_encoding(kind: str, encoding: str) -> str:
    """Returns the kind of an encoded secret, such as `secret-in-base64`, with the outermost of several encodings."""
    family = kind.partition(_KIND_INFIX)[0]
    if family not in ("personal", KNOWN_VALUE):
        family = "personal" if family in PERSONAL_KINDS or family == "card-number" else "secret"
    return f"{family}{_KIND_INFIX}{encoding}"


def is_known_value(kind: str) -> bool:
    """Whether a kind is that of a value that was recognised elsewhere, encoded or not."""
    return kind.startswith(KNOWN_VALUE)


def is_encoded(kind: str) -> bool:
    """Whether a kind says that the secret is encoded."""
    return _KIND_INFIX in kind
