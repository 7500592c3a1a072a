"""Redacts HTTP heads and targets: keeps values that contain no credential, and hashes all others.

The value of a header field is kept if the field is on a short list, because most other fields may contain a token, a
cookie or an account. Addresses are cleaned everywhere, as described in `captures.addresses`. Values that the body
contains in plain text anyway (`Mcp-Name`, `Mcp-Param-…`) are kept, too, but not session ids. A trace context is kept as
described in `captures.trace_context`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from orjson import dumps

from captures.addresses import escaped_text
from captures.trace_context import is_traceparent, redacted_baggage, tracestate_members
from mcpproxy.wire.forwarded import MAX_FORWARDED_BYTES

HashSecret = Callable[[bytes], str]
"""Returns the replacement for a secret."""
CleanAddress = Callable[[bytes], str]
"""Returns an address without anything that could be secret."""

MAX_CACHED_LINES: Final = 4096
MAX_CACHED_VALUE_BYTES: Final = 512
"""The maximum number of cached header lines, and the maximum length of their values."""

_KEPT_FIELDS: Final = frozenset(
    b"accept accept-encoding accept-language accept-ranges age allow alt-svc cache-control connection content-encoding "
    b"content-language content-length content-range content-type date expect expires host keep-alive last-modified "
    b"mcp-protocol-version mcp-method mcp-name pragma retry-after server te trailer transfer-encoding upgrade "
    b"user-agent vary via x-accel-buffering x-content-type-options".split()
)
_FIELDS_FROM_BODY: Final = frozenset({b"mcp-name", b"mcp-method"})
_PREFIX_FROM_BODY: Final = b"mcp-param-"
_KEPT_PREFIXES: Final = (b"access-control-", b"mcp-param-", b"sec-fetch-", b"sec-ch-ua")
ADDRESS_FIELDS: Final = frozenset({b"location", b"content-location", b"referer", b"origin"})
"""The fields whose values are URLs."""
_CHALLENGE_FIELDS: Final = frozenset({b"www-authenticate", b"proxy-authenticate"})
_CREDENTIAL_FIELDS: Final = frozenset({b"authorization", b"proxy-authorization"})
_SCHEME: Final = re.compile(rb"(?i)(?:bearer|basic|digest|dpop|negotiate) (?=.)").match
"""Matches a scheme at the beginning of a credential; with any other first word, that word may be the secret."""
_PARAMETER: Final = rb"[\w.-]++ *= *(?:[\w.-]++|\"[^\"]*+\")"
_OPEN_CHALLENGE: Final = re.compile(
    rb"(?i)(?:bearer|basic|digest|dpop)(?: +" + _PARAMETER + rb"(?: *, *" + _PARAMETER + rb")*+)?+ *"
).fullmatch
"""Matches a challenge of a scheme whose challenges contain no credentials, unlike those of Negotiate."""
_URL: Final = re.compile(rb"(?i)[a-z][a-z0-9+.-]*+://[^\s\"<>]++").sub
_NAMED: Final = re.compile(rb"(?<![\w.-])([\w.-]++)( *= *)(?:\"([^\"]*+)\"|([\w.-]++))").sub
_CHALLENGE_PARAMETER: Final = re.compile(
    rb"(?<![\w.-])([\w.-]++) *= *(?:\"((?:[^\"\\]|\\.)*+)\"|([\w.-]++))", re.DOTALL
).finditer
_KEPT_PARAMETERS: Final = frozenset(
    b"realm scope error error_uri resource_metadata resource authorization_uri algs algorithm charset qop stale domain "
    b"acr_values max_age userhash".split()
)
"""The parameters of challenges whose values are kept, unlike those of nonces and of texts for people."""
MAX_CHALLENGE_BYTES: Final = 8192
"""The maximum number of bytes of a field with challenges that are read for its parameters."""
MAX_DOCUMENT_DEPTH: Final = 50
"""The maximum depth to which a document is cleaned."""
_MAX_PORT_DIGITS: Final = 5
_PUBLIC_SCHEMES: Final = frozenset({b"http", b"https"})
_HOST_FIELDS: Final = frozenset({b"x-forwarded-host", b"forwarded"})
"""The fields that report the host which a client used; it is kept if it is known to be this server's."""
_HOST: Final = re.compile(rb"(?:[\w.-]{1,255}+|\[[0-9a-f:.]{1,45}+\])(?::\d{1,5})?+").fullmatch
_FORWARDED_PARAMETER: Final = rb" *([A-Za-z]++)=(\"[^\"\\]*+\"|[\w!#$%&'*+.^`|~:\[\]-]++) *"
_FORWARDED: Final = re.compile(rb"%b(?:[;,]%b)*+" % (2 * (_FORWARDED_PARAMETER.replace(b"(", b"(?:"),))).fullmatch
_EACH_FORWARDED: Final = re.compile(_FORWARDED_PARAMETER.removesuffix(b" *")).sub
"""What `Forwarded` (RFC 7239) consists of; other characters than the specified ones occur in practice."""


class FieldRedactor:
    """Redacts header lists for records, and caches the lines, because a client sends the same lines all day."""

    def __init__(self, hashed: HashSecret, clean: CleanAddress, public_host: str | None = None) -> None:
        """Start with an empty cache.

        Args:
            hashed: returns the replacement for a secret.
            clean: returns an address without anything that could be secret.
            public_host: the host, with its port if it is not the default, by which clients are known to reach the
                server; proxies may report it.
        """
        self._hash = hashed
        self._clean = clean
        self._public_host = (public_host or "").lower().encode()
        self._cache: dict[tuple[bytes, bytes], bytes] = {}

    def __call__(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Returns a header list as JSON, `[[name, value], …]`, with order, case and duplicates preserved."""
        fields = tuple(fields)
        return b"[%b]" % b",".join([self._cache.get(field) or self._redacted_line(field, fields) for field in fields])

    def _redacted_line(self, field: tuple[bytes, bytes], fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
        name, value = field
        if name.lower() in _HOST_FIELDS:  # not cached, because it depends on another field
            return dumps([escaped_text(name), self._redacted_host_field(name.lower(), value, fields)])
        line = dumps([escaped_text(name), self._redacted_value(name.lower(), value)])
        if len(value) <= MAX_CACHED_VALUE_BYTES:
            if len(self._cache) >= MAX_CACHED_LINES:
                self._cache.clear()
            self._cache[field] = line
        return line

    def _redacted_value(self, name: bytes, value: bytes) -> str:
        if not value or is_kept(name):
            # The body contains these values in plain text anyway.
            is_in_body = name in _FIELDS_FROM_BODY or name.startswith(_PREFIX_FROM_BODY)
            return escaped_text(value if is_in_body or b"://" not in value else _URL(self._cleaned, value))
        if name in ADDRESS_FIELDS:
            return escaped_text(value) if value == b"null" else self._clean(value)
        if name in _CHALLENGE_FIELDS and _OPEN_CHALLENGE(value):
            return escaped_text(_NAMED(self._cleaned_parameter, value))
        if name in _CREDENTIAL_FIELDS and (scheme := _SCHEME(value)):
            return escaped_text(scheme[0]) + self._hash(value[scheme.end() :])
        if name == b"baggage":
            return redacted_baggage(value, self._hash)
        if (name == b"traceparent" and is_traceparent(value)) or (
            name == b"tracestate" and tracestate_members(value) is not None
        ):
            return escaped_text(value)
        if (name == b"x-forwarded-proto" and value.lower() in _PUBLIC_SCHEMES) or (
            name == b"x-forwarded-port" and len(value) <= _MAX_PORT_DIGITS and value.isdigit()
        ):
            return escaped_text(value)
        return self._hash(value)

    def _redacted_host_field(self, name: bytes, value: bytes, fields: tuple[tuple[bytes, bytes], ...]) -> str:
        hosts = (self._public_host, *(host.lower() for field, host in fields if field.lower() == b"host"))
        known_hosts = [host for host in hosts if _HOST(host)]
        if name == b"x-forwarded-host":
            return escaped_text(value) if not value or value.lower() in known_hosts else self._hash(value)

        def redacted(match: re.Match[bytes]) -> bytes:
            parameter, quoted = match[1].lower(), match[2].startswith(b'"')
            text = match[2][1:-1] if quoted else match[2]
            is_kept = (parameter == b"proto" and text.lower() in _PUBLIC_SCHEMES) or (
                parameter == b"host" and text.lower() in known_hosts
            )
            if is_kept or not text:
                return match[0]
            return match[0][: match.start(2) - match.start()] + b'"%b"' % self._hash(text).encode()

        if len(value) > MAX_FORWARDED_BYTES or not _FORWARDED(value):
            return self._hash(value) if value else ""
        return escaped_text(_EACH_FORWARDED(redacted, value))

    def _cleaned(self, match: re.Match[bytes]) -> bytes:
        return self._clean(match[0]).encode()

    def _cleaned_parameter(self, match: re.Match[bytes]) -> bytes:
        """Returns a parameter of a challenge without secrets; a URL in it may be relative."""
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
        yield escaped_text(match[1]).lower(), text.decode("utf-8", "replace")


def is_kept(name: bytes) -> bool:
    """Returns whether the values of a field are stored in plain text, with their URLs cleaned.

    Args:
        name: the name of the field in lower case.
    """
    return name in _KEPT_FIELDS or name.startswith(_KEPT_PREFIXES)


def clean_document(value: Any, clean: CleanAddress, depth: int = 0) -> Any:
    """Returns a parsed JSON document with every URL cleaned; containers that are nested too deeply become None."""
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
