"""What of HTTP heads and targets may be kept: everything that holds no credential, and hashes of the rest.

A header's value is kept where its name stands on a short list, for most others may hold a token, a cookie or an
account. Of a target the path is kept and the query's names, with the values of a few parameters of OAuth that are no
secret. What the body says in clear anyway (`Mcp-Name`, `Mcp-Param-…`) is kept too; a session id is not.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from orjson import dumps

Hash = Callable[[bytes], str]
"""Secret → what stands in its place."""

REMEMBERED: Final = 4096
REMEMBERED_BYTES: Final = 512
"""How many lines of heads are remembered, and how long their values may be."""

_KEPT: Final = frozenset(
    b"accept accept-encoding accept-language accept-ranges age allow alt-svc cache-control connection content-encoding "
    b"content-language content-length content-range content-type date expect expires host keep-alive last-modified "
    b"mcp-protocol-version mcp-method mcp-name origin pragma retry-after server te trailer transfer-encoding upgrade "
    b"user-agent vary via x-accel-buffering x-content-type-options".split()
)
_KEPT_FAMILIES: Final = (b"access-control-", b"mcp-param-", b"sec-fetch-", b"sec-ch-ua")
_ADDRESSES: Final = frozenset({b"location", b"content-location", b"referer"})
_CHALLENGES: Final = frozenset({b"www-authenticate", b"proxy-authenticate"})
_CREDENTIALS: Final = frozenset({b"authorization", b"proxy-authorization"})
_SCHEME: Final = re.compile(rb"(?i)(?:bearer|basic|digest|dpop|negotiate) (?=.)").match
"""What a credential begins with; in others the first word may be the secret."""
_PARAMETER: Final = rb"[\w.-]++ *= *(?:[\w.-]++|\"[^\"]*+\")"
_OPEN_CHALLENGE: Final = re.compile(
    rb"(?i)(?:bearer|basic|digest|dpop)(?: +" + _PARAMETER + rb"(?: *, *" + _PARAMETER + rb")*+)?+ *"
).fullmatch
"""One challenge of a scheme that holds no answer to one; in others, such as Negotiate, answers go back and forth."""
_OPEN_PARAMETERS: Final = frozenset(
    {b"response_type", b"code_challenge_method", b"resource", b"redirect_uri", b"scope", b"grant_type"}
)


class FieldRedactor:
    """Makes header lists that a record may hold, and remembers what it made: a client sends the same lines all day."""

    def __init__(self, hashed: Hash) -> None:
        self._hash = hashed
        self._made: dict[tuple[bytes, bytes], bytes] = {}

    def __call__(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        """A header list as JSON, `[[name, value], …]`, order, case and doubles kept."""
        return b"[%b]" % b",".join([self._made.get(field) or self._make(field) for field in fields])

    def _make(self, field: tuple[bytes, bytes]) -> bytes:
        name, value = field
        made = dumps([_text(name), _value(name.lower(), value, self._hash)])
        if len(value) <= REMEMBERED_BYTES:
            if len(self._made) >= REMEMBERED:
                self._made.clear()
            self._made[field] = made
        return made


def _value(name: bytes, value: bytes, hashed: Hash) -> str:
    if not value or name in _KEPT or name.startswith(_KEPT_FAMILIES):
        return _text(value)
    if name in _ADDRESSES:
        return redacted_target(value, hashed)
    if name in _CHALLENGES and _OPEN_CHALLENGE(value):
        return _text(value)
    if name in _CREDENTIALS and (found := _SCHEME(value)):
        return _text(found[0]) + hashed(value[found.end() :])
    return hashed(value)


def redacted_target(target: bytes, hashed: Hash) -> str:
    """A request target, or an address, without the secrets of its query, its fragment and its user."""
    scheme, marks, rest = target.partition(b"://")
    if not marks or b"/" in scheme or b"?" in scheme:
        scheme, marks, rest = b"", b"", target
    head, hash_mark, fragment = rest.partition(b"#")
    path, question, query = head.partition(b"?")
    if marks:
        authority, slash, tail = path.partition(b"/")
        user, at, host = authority.rpartition(b"@")
        path = (hashed(user).encode() if at else b"") + at + host + slash + tail
    text = _text(scheme + marks + path + question) + "&".join(_parameter(word, hashed) for word in query.split(b"&"))
    return text + (f"#{hashed(fragment)}" if hash_mark else "")


def _parameter(word: bytes, hashed: Hash) -> str:
    name, equals, value = word.partition(b"=")
    if not equals:
        # A word without a name may itself be the secret.
        return hashed(word) if word else ""
    return f"{_text(name)}={_text(value) if name in _OPEN_PARAMETERS or not value else hashed(value)}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
