"""What a text reveals by its form: credentials, addresses of people, names of users and hosts, card numbers.

It complements the catalogue of services' tokens, which is made for source code: there a token without a word next to
it may be an example, and e-mail addresses and home directories are not leaks. Every pattern takes linear time:
repetitions are bounded or possessive, and what follows one cannot begin inside it. Most patterns are tried only if a
text has a mark without which they cannot match, as searching for a word is a hundred times as fast.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from mcpproxy.sharing.card_numbers import card_numbers
from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.logins import logins
from mcpproxy.sharing.network_addresses import addresses, is_address, is_public_address
from mcpproxy.sharing.notations import noted
from mcpproxy.sharing.passwords import assigned
from mcpproxy.sharing.placeholders import is_placeholder
from mcpproxy.sharing.pseudonyms import PSEUDONYM
from mcpproxy.sharing.punctuation import end_of_word
from mcpproxy.sharing.word_lists import (
    COMMON_USERS,
    NETWORK_SCHEMES,
    PLAIN_PARAMETERS,
    PUBLIC_HOSTS,
    SPEC_HOSTS,
    SPECIAL_DOMAINS,
)

# --- credentials


class _Form(NamedTuple):
    """The form of a credential."""

    kind: str
    marks: tuple[str, ...]
    """One of them is in every such credential."""
    pattern: re.Pattern[str]


def _form(kind: str, marks: str, pattern: str) -> _Form:
    return _Form(kind, tuple(marks.split()), re.compile(pattern))


_FORMS: Final = (
    # As the vendors document them.
    _form("aws-key-id", "AKIA ASIA ABIA ACCA", r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _form("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,255}+"),
    _form("github-token", "github_pat_", r"(?<![A-Za-z0-9])github_pat_\w{40,255}+"),
    _form("gitlab-token", "glpat-", r"(?<![A-Za-z0-9])glpat-[\w-]{18,255}+"),
    _form("ai-provider-key", "sk-", r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]{0,200}+[0-9])[\w-]{18,300}+"),
    _form("stripe-key", "_live_ _test_", r"(?<![A-Za-z0-9])(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,255}+"),
    _form("webhook-secret", "whsec_", r"(?<![A-Za-z0-9])whsec_[A-Za-z0-9+/=]{16,255}+"),
    _form("slack-token", "xox xapp-", r"(?<![A-Za-z0-9])(?:xox[a-z]|xapp)-[\w-]{10,300}+"),
    _form("google-key", "AIza", r"(?<![A-Za-z0-9])AIza[\w-]{30,100}+"),
    _form("google-token", "ya29. 1//0 GOCSPX-", r"(?<![A-Za-z0-9])(?:ya29\.|1//0|GOCSPX-)[\w-]{20,2000}+"),
    _form("hugging-face-token", "hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,100}+"),
    _form("package-registry-token", "npm_ pypi-", r"(?<![A-Za-z0-9])(?:npm_[A-Za-z0-9]{30,100}+|pypi-[\w-]{40,400}+)"),
    _form("sendgrid-key", "SG.", r"(?<![A-Za-z0-9])SG\.[\w-]{16,64}+\.[\w-]{16,100}+"),
    _form("mailgun-key", "key-", r"(?<![A-Za-z0-9])key-[0-9a-f]{32}\b"),
    _form("twilio-key", "SK AC", r"(?<![A-Za-z0-9])(?:SK|AC)[0-9a-f]{32}\b"),
    _form("notion-token", "ntn_ secret_", r"(?<![A-Za-z0-9])(?:ntn_|secret_)[A-Za-z0-9]{32,100}+"),
    _form("search-provider-key", "tvly- fc-", r"(?<![A-Za-z0-9])(?:tvly-[\w-]{16,100}+|fc-[0-9a-f]{32}\b)"),
    _form("telegram-token", ":AA", r"(?<![A-Za-z0-9])[0-9]{8,10}:AA[\w-]{32,36}+"),
    _form("jwt", "ey", r"(?<![A-Za-z0-9_-])ey[JA][\w-]{8,20000}+\.[\w-]{4,200000}+(?:\.[\w-]{0,20000}+){0,3}+"),
    _form(
        "private-key",
        "KEY",
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-\x1f]|-(?!----END)){0,100000}+(?:-----END [A-Z0-9 ]{1,80}-----)?+",
    ),
    # A file of PuTTY has the number of lines before them, and their MAC after them.
    _form(
        "private-key",
        "Private-Lines:",
        r"Private-Lines:[ \t]{0,4}+[0-9]{1,4}\s{1,4}+(?P<value>(?:[A-Za-z0-9+/=]{1,200}+(?![-:])\s{0,4}+){1,1000}+"
        r"(?:Private-(?:MAC|Hash):[ \t]{0,4}+[0-9a-f]{32,64})?+)",
    ),
    # Tokens that the catalogue reports only together with another value, or only if they look random enough to it.
    _form(
        "service-token",
        "AKCp cmVmd AIK_SECRET_ cnvca mdb_sa_sk_ pscale_ ramp_sec_ sb_secret_ packagist_ lsv2_ hvs. hvb.",
        r"(?<![A-Za-z0-9])(?:AKCp[A-Za-z0-9]{68,70}|cmVmd[A-Za-z0-9]{59}|AIK_SECRET_[A-Za-z0-9]{64}|cnvca[\w-]{51}"
        r"|mdb_sa_sk_[\w-]{40}|pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}|ramp_sec_[A-Za-z0-9]{48}|sb_secret_[\w-]{31}"
        r"|packagist_(?:ort|out|acs)_[0-9a-f]{64,96}|lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|hv[sb]\.[\w-]{90,300})"
        r"(?![A-Za-z0-9])",
    ),
    _form(
        "azure-ad-secret", "Q~", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"
    ),
    _form(
        "salesforce-session",
        "!A",
        r"(?<![A-Za-z0-9])00[A-Za-z0-9]{13}!A[A-Za-z0-9._-]{79,260}+",
    ),
    _form(
        "service-key",
        "algolia Algolia ALGOLIA datadog Datadog DATADOG upstash Upstash UPSTASH zoho Zoho ZOHO",
        r"(?<![A-Za-z])(?i:algolia|datadog|upstash|zoho)[ \t\w.-]{0,24}[\"']?[ \t]{0,4}[=:]>?[ \t]{0,4}[\"']?"
        r"(?P<value>(?=[A-Za-z]{0,63}[0-9])[A-Za-z0-9]{32,64})(?![A-Za-z0-9])",
    ),
    _form(
        "discord-token",
        "MT Mj Mz ND NT Nj Nz OD OT mfa.",  # base64 of the first two digits of the bot's id
        r"(?:[MNO](?<![\w.-].)[DTjz][\w-]{22,26}\.[\w-]{6,7}\.[\w-]{27,45}|m(?<![\w.-].)fa\.[\w-]{60,100}+)"
        r"(?![\w-]|\.\w)",
    ),
    _form(
        "azure-sas-signature",
        "sig",
        r"(?<![A-Za-z0-9])sig[\"']?[ \t]{0,2}[=:][ \t]{0,2}[\"']?(?=[a-z+/_-]{0,60}[A-Z0-9%])"
        r"(?P<value>(?:[A-Za-z0-9+/_-]|%2[BbFf]){30,200}+(?:={1,2}|(?:%3[Dd]){1,2})?+)",
    ),
)
_CREDENTIAL: Final = re.compile(
    r"(?:bearer|basic|digest|dpop|negotiate|token|apikey)[ \t]{1,4}+"
    r"(?=[a-z0-9._~+/=-]{0,80}?[0-9+/=_.~-])(?P<value>[a-z0-9._~+/=-]{16,20000}+)"
)
_CREDENTIAL_MARKS: Final = ("bearer ", "basic ", "digest ", "dpop ", "negotiate ", "token ", "apikey ", "bearer\t")
_CHALLENGE: Final = re.compile(r"[a-z_-]{3,30}=").match
"""A parameter after a scheme, as in the challenges of servers: not a credential."""
_URL: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}+://[^\s\"<>`^\\\x00-\x1f{}|]{1,8192}+", re.ASCII
)
_INNER_URL: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}+://[^\s\"'<>`^\\\x00-\x1f{}|/?#&;,]{1,300}+", re.ASCII
)
"""The beginning of a URL in another, such as the value of a parameter."""
_AUTHORITY: Final = re.compile(
    r"(?P<scheme>[^:]++)://(?:(?P<user>[^/?#]*)@)?(?P<host>\[[^\]/?#]*+\]|[^/?#:@'),]*+)(?::[0-9]{0,5}+)?"
)
_PARAMETER: Final = re.compile(r"[?&;#](?P<name>[^=&;#]{0,100}+)=(?P<value>[^&;#'),]++)")
# --- people and places

_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+\u00c0-\u024f-])[A-Za-z0-9._%+\u00c0-\u024f-]{1,64}+@(?:[A-Za-z0-9-]{1,63}+\.){1,8}[A-Za-z]{2,24}+(?![A-Za-z0-9]|[.-][A-Za-z0-9])"
)
_HOME: Final = re.compile(
    r"(?:(?<![A-Za-z0-9_.])(?:/var|/export|/mnt/[a-z]|/cygdrive/[a-z]|/[a-z])?/(?:home|Users)/|(?<![A-Za-z])[A-Za-z]:(?:\\{1,64}+|/)Users(?:\\{1,64}+|/)"
    r"|%2[Ff](?:home|Users)%2[Ff])(?P<user>[^/\\\s\"'`:;,<>|*?()\[\]{}$%&=#\x00-\x1f]{1,64}+)"
)
HOME_MARKS: Final = ("home/", "Users/", "Users\\", "home%2", "Users%2")
_HOST: Final = re.compile(
    r"(?<![A-Za-z0-9_.@/%-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}"
    r"(?:internal|intranet|local|lan|corp|home|private|localdomain)\b(?![(\w-]|\.\w)"
)
_HOST_MARKS: Final = (".internal", ".intranet", ".local", ".lan", ".corp", ".home", ".private")
_AFTER_AUTHORITY: Final = re.compile(r"[\s/?#\"<>]").search
"""What cannot be in the user and the password of a URL."""
_USER_BEFORE: Final = 200
"""Characters before what looks like an address, in which it may show to be a password: `scheme://user:password@host`."""


def credentials(text: str) -> Iterator[Secret]:
    """Tokens, keys and passwords."""
    for kind, marks, pattern in _FORMS:
        if any(mark in text for mark in marks):
            group = "value" if "value" in pattern.groupindex else 0
            for match in pattern.finditer(text):
                if not is_placeholder(match[group]):
                    yield Secret(*match.span(group), kind)
    lower = text.lower() if text.isascii() else text.translate(_LOWER)
    if any(mark in lower for mark in _CREDENTIAL_MARKS):
        for match in _CREDENTIAL.finditer(lower):
            if not _CHALLENGE(match["value"]) and not is_placeholder(match["value"]):
                yield Secret(*match.span("value"), "credential")
    yield from assigned(text, lower)
    yield from noted(text)
    yield from _in_urls(text)
    for start, end, kind in logins(text):
        if kind == "login":
            yield Secret(start, end, kind)


def _in_urls(text: str) -> Iterator[Secret]:
    for at, url, authority in _urls(text):
        user = authority["user"]
        if user and not PSEUDONYM.fullmatch(user):
            yield Secret(at + authority.start("user"), at + authority.end("user"), "url-user")
        for value in _PARAMETER.finditer(url, authority.end()):
            if is_secret_parameter(value["name"], value["value"]):
                yield Secret(at + value.start("value"), at + value.end("value"), "url-parameter")


def people(text: str) -> Iterator[Secret]:
    """E-mail addresses, users' names in paths and logins, hosts, network addresses, card numbers."""
    yield from _emails(text)
    for start, end in _homes(text):
        yield Secret(start, end, "user-name")
    yield from _hosts(text)
    yield from _in_logins(text)
    for start, end in addresses(text):
        yield Secret(start, end, "ip-address")
    for start, end in card_numbers(text):
        yield Secret(start, end, "card-number")


def _emails(text: str) -> Iterator[Secret]:
    for match in _EMAIL.finditer(text) if "@" in text else ():
        before = text[max(0, match.start() - _USER_BEFORE) : match.start()]
        if not _ends_in_password(before) and not is_public_host(match[0].rpartition("@")[2]):
            yield Secret(*match.span(), "email")


def _ends_in_password(before: str) -> bool:
    """Whether a text ends within the password of a URL, as `redis://:abc!` does."""
    _, scheme, authority = before.rpartition("://")
    return bool(scheme) and ":" in authority and _AFTER_AUTHORITY(authority) is None


def _homes(text: str) -> Iterator[tuple[int, int]]:
    """Where the users' names in a text's paths of home directories are."""
    for match in _HOME.finditer(text) if any(mark in text for mark in HOME_MARKS) else ():
        start, end = match.span("user")
        end = end_of_word(text, start, end)
        if is_user(text[start:end]):
            yield start, end


def _hosts(text: str) -> Iterator[Secret]:
    for at, _, authority in _urls(text):
        host, scheme = authority["host"], authority["scheme"].lower()
        if scheme not in ("file", "data") and not is_public_host(host):
            start, end = at + authority.start("host"), at + authority.end("host")
            if is_address(host):
                yield Secret(start, end, "ip-address")
            elif "." in host or scheme in NETWORK_SCHEMES:
                yield Secret(start, end, "host")
    if any(mark in text for mark in _HOST_MARKS):
        for match in _HOST.finditer(text):
            if not is_public_host(match[0]):
                yield Secret(*match.span(), "host")


def _in_logins(text: str) -> Iterator[Secret]:
    for start, end, kind in logins(text):
        value = text[start:end]
        if kind == "host" and not is_public_host(value):
            yield Secret(start, end, "ip-address" if is_address(value) else "host")
        elif kind == "login-user" and is_user(value):
            yield Secret(start, end, kind)


def _urls(text: str) -> Iterator[tuple[int, str, re.Match[str]]]:
    """The URLs in a text, and those in them: where each begins, itself, and its authority."""
    for url in _URL.finditer(text) if "://" in text else ():
        whole = text[url.start() : end_of_word(text, *url.span())]
        authority = _AUTHORITY.match(whole)
        if authority is not None:
            yield url.start(), whole, authority
            for inner in _INNER_URL.finditer(whole, authority.end()):
                authority = _AUTHORITY.match(inner[0])
                if authority is not None:
                    yield url.start() + inner.start(), inner[0], authority


@lru_cache(4096)
def is_public_host(host: str) -> bool:
    """Whether a host reveals nothing: this machine, a name that specifications use, or a pseudonym."""
    name = host.lower().strip("[]").rstrip(".")
    if not name or name in PUBLIC_HOSTS or name.endswith(SPECIAL_DOMAINS):
        return True
    if any(name == known or name.endswith(f".{known}") for known in SPEC_HOSTS):
        return True
    return is_public_address(name)


def is_secret_parameter(name: str, value: str) -> bool:
    """Whether the value of a URL's parameter may be a secret."""
    plain = unquote(value)
    is_word = plain.replace(".", "").isalpha() and len(plain) < 20
    is_harmless = is_word or is_placeholder(plain) or PSEUDONYM.fullmatch(plain) is not None
    return name.lower() not in PLAIN_PARAMETERS and len(plain) >= 4 and not is_harmless


def is_user(name: str) -> bool:
    """Whether a name in the path of a home directory can be that of a person."""
    return name.lower() not in COMMON_USERS and bool(name.strip(".")) and not PSEUDONYM.fullmatch(name)


def home_users(text: str) -> Iterator[str]:
    """The names of users in a text's paths of home directories."""
    return (text[start:end] for start, end in _homes(text))


_LOWER: Final = {ord(char): char.lower() for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
"""`str.lower` can make a text longer, and then positions would not fit."""
