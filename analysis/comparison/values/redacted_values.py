"""Recognises what replaced a secret in a redacted copy, which must not count as a change of the secret itself.

A stand-in equals only what it can stand for: `token-1` a word that looks like a secret, an address an address. So an
error, a missing value or another type in the place of a secret is a change.
"""

import re
from typing import Any, Final

from analysis.comparison.values.normaliser import json_type
from analysis.comparison.values.varying_text import (
    REDACTED_ACCOUNT,
    REDACTED_EMAIL,
    REDACTED_HOST,
    REDACTED_IP,
    REDACTED_MAC,
    REDACTED_USER,
    placeholder,
)

RULE: Final = "redacted"
"""The rule under which is counted what differed only in such a way."""

_NUMBER: Final = "[1-9][0-9]{0,8}"
_STAND_IN: Final = re.compile(
    rf"\b(?:(?P<value>(?:value|text)-{_NUMBER})|(?P<secret>(?:token|secret)-{_NUMBER})"
    rf"|(?P<email>user-{_NUMBER}@host-{_NUMBER}\.invalid)|(?P<user>user-{_NUMBER})|(?P<host>host-{_NUMBER}\.invalid))"
    r"(?![\w-])"
    rf"|(?P<tag>{placeholder('redaction tag')})|(?P<tagged_email>{REDACTED_EMAIL})|(?P<tagged_user>{REDACTED_USER})"
    rf"|(?P<tagged_host>{REDACTED_HOST})|(?P<ip>{REDACTED_IP})|(?P<mac>{REDACTED_MAC})"
    rf"|(?P<account>{REDACTED_ACCOUNT})",
    re.ASCII,
)
"""What stands for a secret in a normalised text, by kind."""
_KINDS: Final = {"tag": "secret", "tagged_email": "email", "tagged_user": "user", "tagged_host": "host"}
"""The kinds of the groups that are not named for theirs."""
_MEANINGS: Final = {
    "value": re.compile(r"(?s:.+)").fullmatch,
    "secret": re.compile(r"(?=\S*[^\W\d_])(?=\S*\d)\S{8,}").fullmatch,
    "email": re.compile(r"[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)+").fullmatch,
    "user": re.compile(r"[^\s@]+").fullmatch,
    "host": re.compile(r"[\w-]+(?:\.[\w-]+)+").fullmatch,
    "ip": re.compile(
        r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|(?=[^:]*:[^:]*:)[0-9A-Fa-f:]{2,39}(?:\.[0-9]{1,3}){0,3}"
    ).fullmatch,
    "mac": re.compile(r"[0-9A-Fa-f]{2}(?:[:-]?[0-9A-Fa-f]{2}){5}").fullmatch,
    "account": re.compile(r"[A-Z]{2}[0-9]{2}[0-9A-Z ]{8,34}").fullmatch,
}
"""What a stand-in of each kind can stand for."""
_EXAMPLES: Final = {
    placeholder("id"): "0a1b2c3d4e5f6a7b",
    placeholder("redaction tag"): "hmac:0a1b2c3d4e5f6a7b",
    REDACTED_EMAIL: "user-0a1b2c3d@host-0a1b2c3d.invalid",
    REDACTED_USER: "user-0a1b2c3d",
    REDACTED_HOST: "host-0a1b2c3d.invalid",
    REDACTED_IP: "240.0.0.1",
    REDACTED_MAC: "02:00:5e:00:00:01",
    REDACTED_ACCOUNT: "XX00 0000 0000",
}
"""A text for each part of a secret that can be replaced by the name of its kind in a normalised text."""
_PLACEHOLDER: Final = re.compile("⟨[^⟨⟩]{1,40}⟩")


def is_same_but_redacted(redacted: Any, other: Any, *, is_other_redacted: bool = False) -> bool:
    """Whether two different normalised values can be equal apart from secrets that were replaced in one of them.

    Args:
        redacted: the value in a redacted copy.
        other: the value on the other side.
        is_other_redacted: whether the other side is a redacted copy, too.
    """
    if not isinstance(redacted, str) or json_type(other) != "string" or json_type(redacted) != "string":
        return False
    stand_ins = list(_STAND_IN.finditer(redacted))
    if not stand_ins:
        return False
    if not isinstance(other, str):  # a text that is JSON
        return stand_ins[0]["value"] == redacted
    ends = [match.end() for match in stand_ins]
    starts = [match.start() for match in stand_ins]
    words = [redacted[end:start] for end, start in zip(ends, [*starts[1:], len(redacted)], strict=True)]
    if not other.startswith(redacted[: starts[0]]):
        return False
    position = starts[0]
    for number, (match, word) in enumerate(zip(stand_ins, words, strict=True), 1):
        if number == len(words):
            end = len(other) - len(word)
            if not other.endswith(word):
                return False
        else:
            end = other.find(word, position + 1)
        if end <= position or not _can_be(_kind(match), other[position:end], is_other_redacted):
            return False
        position = end + len(word)
    return True


def _kind(match: re.Match[str]) -> str:
    group = str(match.lastgroup)
    return _KINDS.get(group, group)


def _can_be(kind: str, text: str, is_redacted: bool) -> bool:
    """Whether a stand-in of a kind can stand for a part of a normalised text."""
    if is_redacted:
        stand_in = _STAND_IN.fullmatch(text)
        if stand_in is not None:
            other_kind = _kind(stand_in)
            # A keyed tag also replaces what was chosen with `--redact`.
            return other_kind == kind or (kind == "value" and stand_in.lastgroup == "tag")
    if kind in ("mac", "account") and text == placeholder("id"):
        return True
    return _MEANINGS[kind](_PLACEHOLDER.sub(lambda found: _EXAMPLES.get(found[0], " "), text)) is not None
