"""Redacts HTTP heads and targets: keeps everything that holds no credential, and hashes of the rest.

A header's value is kept if its name is on a short list, because most others may hold a token, a cookie or an account.
Addresses are cleaned everywhere, as `captures.addresses` says. What the body contains in plain text anyway (`Mcp-Name`,
`Mcp-Param-…`) is kept too; a session id is not.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from orjson import dumps

Hash = Callable[[bytes], str]
"""Secret → its replacement."""
Clean = Callable[[bytes], str]
"""Address → the same without anything that could be secret."""

REMEMBERED: Final = 4096
REMEMBERED_BYTES: Final = 512
"""How many header lines are cached, and how long their values may be."""

_KEPT: Final = frozenset(
    b"accept accept-encoding accept-language accept-ranges age allow alt-svc cache-control connection content-encoding "
    b"content-language content-length content-range content-type date expect expires host keep-alive last-modified "
    b"mcp-protocol-version mcp-method mcp-name pragma retry-after server te trailer transfer-encoding upgrade "
    b"user-agent vary via x-accel-buffering x-content-type-options".split()
)
_SAID: Final = frozenset({b"mcp-name", b"mcp-method"})
_SAID_FAMILY: Final = b"mcp-param-"
_KEPT_FAMILIES: Final = (b"access-control-", b"mcp-param-", b"sec-fetch-", b"sec-ch-ua")
ADDRESSES: Final = frozenset({b"location", b"content-location", b"referer", b"origin"})
"""Fields whose values are URLs."""
_CHALLENGES: Final = frozenset({b"www-authenticate", b"proxy-authenticate"})
_CREDENTIALS: Final = frozenset({b"authorization", b"proxy-authorization"})
_SCHEME: Final = re.compile(rb"(?i)(?:bearer|basic|digest|dpop|negotiate) (?=.)").match
"""The schemes that a credential may begin with; for any other, the first word may be the secret."""
_PARAMETER: Final = rb"[\w.-]++ *= *(?:[\w.-]++|\"[^\"]*+\")"
_OPEN_CHALLENGE: Final = re.compile(
    rb"(?i)(?:bearer|basic|digest|dpop)(?: +" + _PARAMETER + rb"(?: *, *" + _PARAMETER + rb")*+)?+ *"
).fullmatch
"""A challenge of a scheme whose challenges contain no responses; in others, such as Negotiate, responses go back and
forth."""
_URL: Final = re.compile(rb"(?i)[a-z][a-z0-9+.-]*+://[^\s\"<>]++").sub
_NAMED: Final = re.compile(rb"(?<![\w.-])([\w.-]++)( *= *)(?:\"([^\"]*+)\"|([\w.-]++))").sub
_CHALLENGE_PARAMETER: Final = re.compile(
    rb"(?<![\w.-])([\w.-]++) *= *(?:\"((?:[^\"\\]|\\.)*+)\"|([\w.-]++))", re.DOTALL
).finditer
_KEPT_PARAMETERS: Final = frozenset(
    b"realm scope error error_uri resource_metadata resource authorization_uri algs algorithm charset qop stale domain "
    b"acr_values max_age userhash".split()
)
"""The parameters of challenges whose values are kept; texts for people and nonces are not."""
MAX_CHALLENGE_BYTES: Final = 8192
"""How much of a field with challenges is read for its parameters."""
MAX_DOCUMENT_DEPTH: Final = 50
"""How many levels of a document are cleaned."""


class FieldRedactor:
    """Makes header lists that a record may hold, and caches them: a client sends the same lines all day."""

    def __init__(self, hashed: Hash, clean: Clean) -> None:
        self._hash = hashed
        self._clean = clean
        self._cache: dict[tuple[bytes, bytes], bytes] = {}

    def __call__(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        """A header list as JSON, `[[name, value], …]`, order, case and duplicates kept."""
        return b"[%b]" % b",".join([self._cache.get(field) or self._make(field) for field in fields])

    def _make(self, field: tuple[bytes, bytes]) -> bytes:
        name, value = field
        stored = dumps([_text(name), self._value(name.lower(), value)])
        if len(value) <= REMEMBERED_BYTES:
            if len(self._cache) >= REMEMBERED:
                self._cache.clear()
            self._cache[field] = stored
        return stored

    def _value(self, name: bytes, value: bytes) -> str:
        if not value or is_kept(name):
            # The body contains these values in plain text anyway.
            is_said = name in _SAID or name.startswith(_SAID_FAMILY)
            return _text(value if is_said or b"://" not in value else _URL(self._cleaned, value))
        if name in ADDRESSES:
            return _text(value) if value == b"null" else self._clean(value)
        if name in _CHALLENGES and _OPEN_CHALLENGE(value):
            return _text(_NAMED(self._cleaned_parameter, value))
        if name in _CREDENTIALS and (scheme := _SCHEME(value)):
            return _text(scheme[0]) + self._hash(value[scheme.end() :])
        return self._hash(value)

    def _cleaned(self, match: re.Match[bytes]) -> bytes:
        return self._clean(match[0]).encode()

    def _cleaned_parameter(self, match: re.Match[bytes]) -> bytes:
        """Clean a parameter of a challenge; a URL in it may be relative."""
        name, equals, quoted, token = match.groups()
        if name.lower() not in _KEPT_PARAMETERS:
            secret = token if quoted is None else quoted
            return b'%b%b"%b"' % (name, equals, self._hash(secret).encode() if secret else b"")
        is_address = quoted is not None and (b"/" in quoted or b"?" in quoted)
        return b'%b%b"%b"' % (name, equals, self._clean(quoted).encode()) if is_address else match[0]


def challenge_parameters(value: bytes) -> Iterator[tuple[str, str]]:
    """Yields the names, in lower case, and the values of the parameters of one or more challenges, as sent."""
    for match in _CHALLENGE_PARAMETER(value[:MAX_CHALLENGE_BYTES]):
        quoted, token = match[2], match[3]
        text = token if quoted is None else re.sub(rb"(?s)\\(.)", rb"\1", quoted)
        yield _text(match[1]).lower(), text.decode("utf-8", "replace")


def is_kept(name: bytes) -> bool:
    """Whether values of a field, named in lower case, are stored in plain text; URLs in them are cleaned."""
    return name in _KEPT or name.startswith(_KEPT_FAMILIES)


def clean_document(value: Any, clean: Clean, depth: int = 0) -> Any:
    """Returns a parsed JSON document with each URL in it cleaned; values nested too deeply are left out."""
    if isinstance(value, str):
        raw = value.encode()
        return clean(raw) if b"://" in raw or raw[:1] in (b"/", b"?") or b"%2f" in raw.lower() else value
    if not isinstance(value, (dict, list)):
        return value
    if depth > MAX_DOCUMENT_DEPTH:
        return None
    if isinstance(value, list):
        return [clean_document(item, clean, depth + 1) for item in value]
    return {name: clean_document(item, clean, depth + 1) for name, item in value.items()}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
