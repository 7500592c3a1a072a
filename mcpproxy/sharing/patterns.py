"""Finds credentials and personal data by their form: tokens, e-mail addresses, user and host names, card numbers.

This complements the catalogue of service tokens, which was made for source code. In source code, a token without a
keyword next to it may be an example, and e-mail addresses and home directories are not leaks. Every pattern takes
linear time: repetitions are bounded or possessive, and the text after a repetition cannot begin within it. Most
patterns have literals, one of which every match contains. They are tried only on texts with such a literal, because the
search for a literal is a hundred times as fast.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from mcpproxy.sharing.card_numbers import card_numbers
from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.logins import login_parts
from mcpproxy.sharing.network_addresses import identifying_addresses, is_address, is_harmless_address
from mcpproxy.sharing.notations import notation_secrets
from mcpproxy.sharing.passwords import assigned_secrets
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


class _CredentialPattern(NamedTuple):
    """A pattern that finds one kind of credential."""

    kind: str
    literals: tuple[str, ...]
    """Every credential of this kind contains one of these."""
    pattern: re.Pattern[str]


def _pattern(kind: str, literals: str, pattern: str) -> _CredentialPattern:
    return _CredentialPattern(kind, tuple(literals.split()), re.compile(pattern))


_CREDENTIAL_PATTERNS: Final = (
    # As the vendors document their tokens.
    _pattern("aws-key-id", "AKIA ASIA ABIA ACCA", r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _pattern("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,255}+"),
    _pattern("github-token", "github_pat_", r"(?<![A-Za-z0-9])github_pat_\w{40,255}+"),
    _pattern("gitlab-token", "glpat-", r"(?<![A-Za-z0-9])glpat-[\w-]{18,255}+"),
    _pattern("ai-provider-key", "sk-", r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]{0,200}+[0-9])[\w-]{18,300}+"),
    _pattern("stripe-key", "_live_ _test_", r"(?<![A-Za-z0-9])(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,255}+"),
    _pattern("webhook-secret", "whsec_", r"(?<![A-Za-z0-9])whsec_[A-Za-z0-9+/=]{16,255}+"),
    _pattern("slack-token", "xox xapp-", r"(?<![A-Za-z0-9])(?:xox[a-z]|xapp)-[\w-]{10,300}+"),
    _pattern("google-key", "AIza", r"(?<![A-Za-z0-9])AIza[\w-]{30,100}+"),
    _pattern("google-token", "ya29. 1//0 GOCSPX-", r"(?<![A-Za-z0-9])(?:ya29\.|1//0|GOCSPX-)[\w-]{20,2000}+"),
    _pattern("hugging-face-token", "hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,100}+"),
    _pattern(
        "package-registry-token", "npm_ pypi-", r"(?<![A-Za-z0-9])(?:npm_[A-Za-z0-9]{30,100}+|pypi-[\w-]{40,400}+)"
    ),
    _pattern("sendgrid-key", "SG.", r"(?<![A-Za-z0-9])SG\.[\w-]{16,64}+\.[\w-]{16,100}+"),
    _pattern("mailgun-key", "key-", r"(?<![A-Za-z0-9])key-[0-9a-f]{32}\b"),
    _pattern("twilio-key", "SK AC", r"(?<![A-Za-z0-9])(?:SK|AC)[0-9a-f]{32}\b"),
    _pattern("notion-token", "ntn_ secret_", r"(?<![A-Za-z0-9])(?:ntn_|secret_)[A-Za-z0-9]{32,100}+"),
    _pattern("search-provider-key", "tvly- fc-", r"(?<![A-Za-z0-9])(?:tvly-[\w-]{16,100}+|fc-[0-9a-f]{32}\b)"),
    _pattern("telegram-token", ":AA", r"(?<![A-Za-z0-9])[0-9]{8,10}:AA[\w-]{32,36}+"),
    _pattern("jwt", "ey", r"(?<![A-Za-z0-9_-])ey[JA][\w-]{8,20000}+\.[\w-]{4,200000}+(?:\.[\w-]{0,20000}+){0,3}+"),
    _pattern(
        "private-key",
        "KEY",
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-\x1f]|-(?!----END)){0,100000}+(?:-----END [A-Z0-9 ]{1,80}-----)?+",
    ),
    # In a PuTTY key file, the private key comes after the number of its lines, and before its MAC.
    _pattern(
        "private-key",
        "Private-Lines:",
        r"Private-Lines:[ \t]{0,4}+[0-9]{1,4}\s{1,4}+(?P<value>(?:[A-Za-z0-9+/=]{1,200}+(?![-:])\s{0,4}+){1,1000}+"
        r"(?:Private-(?:MAC|Hash):[ \t]{0,4}+[0-9a-f]{32,64})?+)",
    ),
    # Tokens that the catalogue reports only next to another value, or only if they look random enough.
    _pattern(
        "service-token",
        "AKCp cmVmd AIK_SECRET_ cnvca mdb_sa_sk_ pscale_ ramp_sec_ sb_secret_ packagist_ lsv2_ hvs. hvb.",
        r"(?<![A-Za-z0-9])(?:AKCp[A-Za-z0-9]{68,70}|cmVmd[A-Za-z0-9]{59}|AIK_SECRET_[A-Za-z0-9]{64}|cnvca[\w-]{51}"
        r"|mdb_sa_sk_[\w-]{40}|pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}|ramp_sec_[A-Za-z0-9]{48}|sb_secret_[\w-]{31}"
        r"|packagist_(?:ort|out|acs)_[0-9a-f]{64,96}|lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|hv[sb]\.[\w-]{90,300})"
        r"(?![A-Za-z0-9])",
    ),
    _pattern(
        "azure-ad-secret", "Q~", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"
    ),
    _pattern(
        "salesforce-session",
        "!A",
        r"(?<![A-Za-z0-9])00[A-Za-z0-9]{13}!A[A-Za-z0-9._-]{79,260}+",
    ),
    _pattern(
        "service-key",
        "algolia Algolia ALGOLIA datadog Datadog DATADOG upstash Upstash UPSTASH zoho Zoho ZOHO",
        r"(?<![A-Za-z])(?i:algolia|datadog|upstash|zoho)[ \t\w.-]{0,24}[\"']?[ \t]{0,4}[=:]>?[ \t]{0,4}[\"']?"
        r"(?P<value>(?=[A-Za-z]{0,63}[0-9])[A-Za-z0-9]{32,64})(?![A-Za-z0-9])",
    ),
    _pattern(
        "discord-token",
        "MT Mj Mz ND NT Nj Nz OD OT mfa.",  # base64 of the first two digits of the bot's id
        r"(?:[MNO](?<![\w.-].)[DTjz][\w-]{22,26}\.[\w-]{6,7}\.[\w-]{27,45}|m(?<![\w.-].)fa\.[\w-]{60,100}+)"
        r"(?![\w-]|\.\w)",
    ),
    _pattern(
        "azure-sas-signature",
        "sig",
        r"(?<![A-Za-z0-9])sig[\"']?[ \t]{0,2}[=:][ \t]{0,2}[\"']?(?=[a-z+/_-]{0,60}[A-Z0-9%])"
        r"(?P<value>(?:[A-Za-z0-9+/_-]|%2[BbFf]){30,200}+(?:={1,2}|(?:%3[Dd]){1,2})?+)",
    ),
)
_SCHEME_CREDENTIAL: Final = re.compile(
    r"(?:bearer|basic|digest|dpop|negotiate|token|apikey)[ \t]{1,4}+"
    r"(?=[a-z0-9._~+/=-]{0,80}?[0-9+/=_.~-])(?P<value>[a-z0-9._~+/=-]{16,20000}+)"
)
_SCHEME_LITERALS: Final = ("bearer ", "basic ", "digest ", "dpop ", "negotiate ", "token ", "apikey ", "bearer\t")
_match_challenge_parameter: Final = re.compile(r"[a-z_-]{3,30}=").match
"""Matches a parameter after a scheme, as in a server's challenge, which is not a credential."""
_URL: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}+://[^\s\"<>`^\\\x00-\x1f{}|]{1,8192}+", re.ASCII
)
_INNER_URL: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}+://[^\s\"'<>`^\\\x00-\x1f{}|/?#&;,]{1,300}+", re.ASCII
)
"""Matches the beginning of a URL inside another URL, such as in the value of a parameter."""
_AUTHORITY: Final = re.compile(
    r"(?P<scheme>[^:]++)://(?:(?P<user>[^/?#]*)@)?(?P<host>\[[^\]/?#]*+\]|[^/?#:@'),]*+)(?::[0-9]{0,5}+)?"
)
_PARAMETER: Final = re.compile(r"[?&;#](?P<name>[^=&;#]{0,100}+)=(?P<value>[^&;#'),]++)")

# --- personal data

_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+\u00c0-\u024f-])[A-Za-z0-9._%+\u00c0-\u024f-]{1,64}+@(?:[A-Za-z0-9-]{1,63}+\.){1,8}[A-Za-z]{2,24}+(?![A-Za-z0-9]|[.-][A-Za-z0-9])"
)
_HOME_PATH: Final = re.compile(
    r"(?:(?<![A-Za-z0-9_.])(?:/var|/export|/mnt/[a-z]|/cygdrive/[a-z]|/[a-z])?/(?:home|Users)/|(?<![A-Za-z])[A-Za-z]:(?:\\{1,64}+|/)Users(?:\\{1,64}+|/)"
    r"|%2[Ff](?:home|Users)%2[Ff])(?P<user>[^/\\\s\"'`:;,<>|*?()\[\]{}$%&=#\x00-\x1f]{1,64}+)"
)
HOME_LITERALS: Final = ("home/", "Users/", "Users\\", "home%2", "Users%2")
_INTERNAL_HOST: Final = re.compile(
    r"(?<![A-Za-z0-9_.@/%-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}"
    r"(?:internal|intranet|local|lan|corp|home|private|localdomain)\b(?![(\w-]|\.\w)"
)
_HOST_LITERALS: Final = (".internal", ".intranet", ".local", ".lan", ".corp", ".home", ".private")
_AFTER_AUTHORITY: Final = re.compile(r"[\s/?#\"<>]").search
"""Matches a character that cannot be in the user or the password of a URL."""
_MAX_URL_PREFIX_CHARS: Final = 200
"""The characters before an apparent e-mail address that are searched for the beginning of a URL.

The end of `scheme://user:password@host` looks like an e-mail address, but is a password and a host.
"""


def credentials(text: str) -> Iterator[Secret]:
    """Yields the tokens, keys and passwords in a text."""
    for kind, literals, pattern in _CREDENTIAL_PATTERNS:
        if any(literal in text for literal in literals):
            group = "value" if "value" in pattern.groupindex else 0
            for match in pattern.finditer(text):
                if not is_placeholder(match[group]):
                    yield Secret(*match.span(group), kind)
    lower_text = lower_case(text)
    if any(literal in lower_text for literal in _SCHEME_LITERALS):
        for match in _SCHEME_CREDENTIAL.finditer(lower_text):
            if not _match_challenge_parameter(match["value"]) and not is_placeholder(match["value"]):
                yield Secret(*match.span("value"), "credential")
    yield from assigned_secrets(text, lower_text)
    yield from notation_secrets(text)
    yield from _url_credentials(text)
    for start, end, kind in login_parts(text):
        if kind == "login":
            yield Secret(start, end, kind)


def _url_credentials(text: str) -> Iterator[Secret]:
    for url_start, url, authority in _urls(text):
        user = authority["user"]
        if user and not PSEUDONYM.fullmatch(user):
            yield Secret(url_start + authority.start("user"), url_start + authority.end("user"), "url-user")
        for parameter in _PARAMETER.finditer(url, authority.end()):
            if is_secret_parameter(parameter["name"], parameter["value"]):
                yield Secret(url_start + parameter.start("value"), url_start + parameter.end("value"), "url-parameter")


def personal_data(text: str) -> Iterator[Secret]:
    """Yields e-mail addresses, user names in paths and logins, hosts, network addresses and card numbers in a text."""
    yield from _emails(text)
    for start, end in _home_users(text):
        yield Secret(start, end, "user-name")
    yield from _hosts(text)
    yield from _login_data(text)
    for start, end in identifying_addresses(text):
        yield Secret(start, end, "ip-address")
    for start, end in card_numbers(text):
        yield Secret(start, end, "card-number")


def _emails(text: str) -> Iterator[Secret]:
    for match in _EMAIL.finditer(text) if "@" in text else ():
        url_prefix = text[max(0, match.start() - _MAX_URL_PREFIX_CHARS) : match.start()]
        if not _ends_in_password(url_prefix) and not is_harmless_host(match[0].rpartition("@")[2]):
            yield Secret(*match.span(), "email")


def _ends_in_password(url_prefix: str) -> bool:
    """Whether a text ends within the password of a URL, as `redis://:abc!` does."""
    _, scheme, authority = url_prefix.rpartition("://")
    return bool(scheme) and ":" in authority and _AFTER_AUTHORITY(authority) is None


def _home_users(text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of each user name in the paths of home directories in a text."""
    for match in _HOME_PATH.finditer(text) if any(literal in text for literal in HOME_LITERALS) else ():
        start, end = match.span("user")
        end = end_of_word(text, start, end)
        if may_name_person(text[start:end]):
            yield start, end


def _hosts(text: str) -> Iterator[Secret]:
    for url_start, _, authority in _urls(text):
        host, scheme = authority["host"], authority["scheme"].lower()
        if scheme not in ("file", "data") and not is_harmless_host(host):
            start, end = url_start + authority.start("host"), url_start + authority.end("host")
            if is_address(host):
                yield Secret(start, end, "ip-address")
            elif "." in host or scheme in NETWORK_SCHEMES:
                yield Secret(start, end, "host")
    if any(literal in text for literal in _HOST_LITERALS):
        for match in _INTERNAL_HOST.finditer(text):
            if not is_harmless_host(match[0]):
                yield Secret(*match.span(), "host")


def _login_data(text: str) -> Iterator[Secret]:
    for start, end, kind in login_parts(text):
        value = text[start:end]
        if kind == "host" and not is_harmless_host(value):
            yield Secret(start, end, "ip-address" if is_address(value) else "host")
        elif kind == "login-user" and may_name_person(value):
            yield Secret(start, end, kind)


def _urls(text: str) -> Iterator[tuple[int, str, re.Match[str]]]:
    """Yields each URL in a text, and each URL inside another one, as its start, its text and its authority."""
    for match in _URL.finditer(text) if "://" in text else ():
        url_text = text[match.start() : end_of_word(text, *match.span())]
        authority = _AUTHORITY.match(url_text)
        if authority is not None:
            yield match.start(), url_text, authority
            for inner_match in _INNER_URL.finditer(url_text, authority.end()):
                authority = _AUTHORITY.match(inner_match[0])
                if authority is not None:
                    yield match.start() + inner_match.start(), inner_match[0], authority


@lru_cache(4096)
def is_harmless_host(host: str) -> bool:
    """Whether a host reveals nothing: this machine, a well-known site, a name from specifications, or a pseudonym."""
    name = host.lower().strip("[]").rstrip(".")
    if not name or name in PUBLIC_HOSTS or name.endswith(SPECIAL_DOMAINS):
        return True
    if any(name == spec_host or name.endswith(f".{spec_host}") for spec_host in SPEC_HOSTS):
        return True
    return is_harmless_address(name)


def is_secret_parameter(name: str, value: str) -> bool:
    """Whether the value of a URL's parameter may be a secret."""
    decoded_value = unquote(value)
    is_word = decoded_value.replace(".", "").isalpha() and len(decoded_value) < 20
    is_harmless = is_word or is_placeholder(decoded_value) or PSEUDONYM.fullmatch(decoded_value) is not None
    return name.lower() not in PLAIN_PARAMETERS and len(decoded_value) >= 4 and not is_harmless


def may_name_person(name: str) -> bool:
    """Whether the user name in the path of a home directory, or in a login, may identify a person."""
    return name.lower() not in COMMON_USERS and bool(name.strip(".")) and not PSEUDONYM.fullmatch(name)


def home_users(text: str) -> Iterator[str]:
    """Yields the user names in the paths of home directories in a text."""
    return (text[start:end] for start, end in _home_users(text))


_ASCII_LOWER: Final = {ord(char): char.lower() for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
"""For `str.translate`: unlike `str.lower`, it never changes the length of a text, so positions stay valid."""


def lower_case(text: str) -> str:
    """Returns a text in lower case, with the same length."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)
