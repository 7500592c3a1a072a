"""Finds secrets by their notation: command options, XML, SQL, `.pgpass`, environment variables, password hashes.

Every pattern takes linear time, and is tried only if the text contains a mark that every match must have.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.names import holds_secret, is_harmless
from mcpproxy.sharing.passwords import is_random
from mcpproxy.sharing.punctuation import end_of_word
from mcpproxy.sharing.word_lists import NON_PASSWORDS

_MIN_VARIABLE_CHARS: Final = 12


class _Notation(NamedTuple):
    """A notation for secrets."""

    marks: tuple[str, ...]
    """Every text in this notation contains one of these."""
    pattern: re.Pattern[str]
    """The pattern whose group `value` matches the secret."""
    is_secret: Callable[[re.Match[str]], bool]
    """Returns whether a match is a secret."""


def _value(match: re.Match[str]) -> str:
    """Returns the value of a match, without the punctuation of a sentence that ends with it."""
    start, end = match.span("value")
    return match.string[start : end_of_word(match.string, start, end)]


def _is_random(match: re.Match[str]) -> bool:
    value = _value(match)
    is_name = value.isupper() and value.replace("_", "").isalpha()  # DB_PASSWORD
    return not is_name and _is_password(match) and is_random(value)


def _is_under_name(match: re.Match[str]) -> bool:
    return holds_secret(match["name"]) and _is_password(match)


def _is_password(match: re.Match[str]) -> bool:
    value = _value(match)
    return not is_harmless(value) and value.lower() not in NON_PASSWORDS


def _is_key(match: re.Match[str]) -> bool:
    value = _value(match)
    has_digits_and_letters = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    # `S3_SSE_KEY = "fs.s3.sse.enabled"` is the name of a setting.
    return len(value) >= _MIN_VARIABLE_CHARS and has_digits_and_letters and "." not in value and is_random(value)


def _is_any(_match: re.Match[str]) -> bool:
    return True


_NOTATIONS: Final = (
    # deploy --password hunter22
    _Notation(
        ("--",),
        re.compile(
            r"(?i)(?<![\w-])--(?:[a-z0-9]{1,20}-){0,3}(?:password|passwd|passphrase|pass|pwd|secret|token|api-?key)"
            r"[ \t]{1,4}+[\"']?(?P<value>[^\s\"'`<>\x1f;|&,-][^\s\"'`<>\x1f;|&,]{5,300}+)"
        ),
        _is_random,
    ),
    # curl -u admin:hunter22
    _Notation(
        ("curl",),
        re.compile(
            r"(?<!\w)curl[ \t][^\n\x1f]{0,300}?(?<=[ \t])(?:-u|--user)[ \t=]{0,4}[\"']?[\w.@+-]{1,64}+:"
            r"(?P<value>[^\s\"'\x1f]{3,200}+)"
        ),
        _is_password,
    ),
    # ACME_KEY=…
    _Notation(
        ("_KEY", "_PAT", "_DSN", "_PASS", "_CREDENTIAL", "_WEBHOOK"),
        re.compile(
            r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{0,60}_(?:KEY|PAT|DSN|PASS|CREDENTIALS?|WEBHOOK)"
            r"[ \t]{0,2}=[ \t]{0,2}[\"']?(?P<value>[^\s\"'`<>\x1f;|&,(){}\[\]]{8,4096}+)"
        ),
        _is_key,
    ),
    # <password>hunter22</password>
    _Notation(
        ("</",),
        re.compile(r"<(?:[\w.-]{1,40}:)?(?P<name>[\w.-]{3,60}+)>(?P<value>[^\s<>\x1f]{3,200}+)</"),
        _is_under_name,
    ),
    # <add key="Password" value="hunter22"/>
    _Notation(
        ("value=",),
        re.compile(
            r"(?:key|name)=(?P<quote>[\"'])(?P<name>[\w.:-]{3,60}+)(?P=quote)\s{1,20}+value=(?P=quote)"
            r"(?P<value>[^\"'<>\x1f]{3,200}+)(?P=quote)"
        ),
        _is_under_name,
    ),
    # CREATE USER shop IDENTIFIED BY 'hunter22'
    _Notation(
        ("IDENTIFIED", "identified", "PASSWORD", "password"),
        re.compile(r"(?i)(?<![\w-])(?:identified by|password)[ \t]{1,4}+'(?P<value>[^\s'\x1f]{3,200}+)'(?!\w)"),
        _is_password,
    ),
    # db.acme.io:5432:shop:anna:hunter22
    _Notation(
        (":5432:", ":5433:", ":6432:", ":*:"),
        re.compile(
            r"(?<![^\s\"'=])[\w.*-]{1,255}+:(?:[0-9]{2,5}+|\*):[\w*-]{1,63}+:[\w.*@-]{1,63}+:"
            r"(?P<value>[^\s:\"',;&\x1f]{6,200}+)(?![^\s\"',;&])"
        ),
        _is_random,
    ),
    # $2b$12$…, $6$…$…
    _Notation(
        ("$2", "$1$", "$5$", "$6$", "$y$", "$apr1$", "$argon2"),
        re.compile(
            r"(?<![\w$])(?P<value>\$(?:2[abxy]?\$[0-9]{2}\$[./A-Za-z0-9]{53}"
            r"|(?:1|5|6|y|apr1|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+-]{20,200}+))"
        ),
        _is_any,
    ),
    # https://discord.com/api/webhooks/…/…, https://acme.webhook.office.com/webhookb2/…
    _Notation(
        ("/webhooks/", "/webhookb2/"),
        re.compile(r"/(?:webhooks/(?=[0-9]{15,21}/)|webhookb2/)(?P<value>[\w@/-]{60,400}+)"),
        _is_any,
    ),
)


def notation_secrets(text: str) -> Iterator[Secret]:
    """Yields the secrets that their notation reveals."""
    for marks, pattern, holds in _NOTATIONS:
        if any(mark in text for mark in marks):
            for match in pattern.finditer(text):
                if holds(match):
                    yield Secret(*match.span("value"), "assigned-secret")
