"""Scans a capture for likely secrets, with the same search as redaction, without changing anything."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from captures.damage import Damage
from captures.frame import Frame
from captures.reader import Capture
from mcpproxy.sharing.capture_search import searched_items
from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.first_pass import FirstPass
from mcpproxy.sharing.json_places import pointer_of
from mcpproxy.sharing.kinds import KNOWN_VALUE, PERSONAL_KINDS
from mcpproxy.sharing.kingfisher import Secret, catalogue
from mcpproxy.sharing.known_values import KnownValueSearch
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from mcpproxy.sharing.redaction import Redactor

_MAX_SHOWN_CHARS: Final = 4
_PRECAUTION_KINDS: Final = frozenset({"url-parameter", "client-metadata"})
"""Kinds that are replaced only as a precaution."""


class LikelySecret(NamedTuple):
    """A likely secret."""

    seq: int
    """The number of the record that contains it."""
    rec: str
    """The type of that record."""
    pointer: str
    """The JSON Pointer to it in the message of a frame; empty outside of JSON. Untrusted text."""
    kind: str
    masked: str
    """Its first characters. Untrusted text."""
    size: int
    """Its length in characters."""
    secret: str
    """The whole secret, to recognise it elsewhere. It must never be printed."""
    is_personal: bool
    """Whether it identifies a person or a host, but gives no access."""


def masked_secret(secret: str) -> str:
    """Returns the beginning of a secret: at most four characters, and at most a quarter of it."""
    return secret[: min(_MAX_SHOWN_CHARS, len(secret) // 4)] + "…"


def likely_secrets(capture: Capture, *, personal: bool = False) -> Iterator[LikelySecret | Damage]:
    """Yields the likely secrets of a capture in order, and the damage, which could contain more.

    Args:
        capture: the capture.
        personal: whether to include e-mail addresses, users, hosts, telephone numbers, bank accounts and MAC addresses;
            otherwise only credentials are reported.
    """
    first_pass = FirstPass()

    def redactor(
        known: KnownValueSearch | None = None, on_secret: Callable[[Secret, str], None] | None = None
    ) -> Redactor:
        return Redactor(
            PseudonymGenerator(),
            catalogue(),
            ShareChoices(),
            bodies=True,
            unparsed=True,
            personal=personal,
            known=known,
            on_secret=on_secret,
        )

    first_pass.read(capture, redactor(on_secret=first_pass.values.add), lambda _: None)
    known = first_pass.known_value_search
    is_copy = "redacted_by" in capture.header.members
    for searched_item in searched_items(capture, redactor(known=known), first_pass.is_unchanged):
        if isinstance(searched_item, Damage):
            # A kill leaves an unfinished line, which does not damage other records.
            if searched_item.cause != "torn":
                yield searched_item
            continue
        item = searched_item.item
        rec = "frame" if isinstance(item, Frame) else item.rec
        for kind, secret, _, path in searched_item.replacements:
            if is_copy and kind == "named-secret" and secret.isdigit():
                continue  # the pseudonym of a number looks like any number
            is_personal = kind in PERSONAL_KINDS or (kind == KNOWN_VALUE and known.is_host(secret))
            if kind not in _PRECAUTION_KINDS and (personal or not is_personal):
                yield LikelySecret(
                    item.seq, rec, pointer_of(path), kind, masked_secret(secret), len(secret), secret, is_personal
                )
