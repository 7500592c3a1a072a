"""Removes secrets from URLs: keeps where a URL leads in plain text, and hashes any part that could grant access.

Many hosted servers authenticate by a token in the path or the query. So a path segment is kept only if it is on a
short list of common words; every other segment becomes a keyed hash. In a query, parameter names that look ordinary are
kept, and so are the values of the few OAuth parameters (RFC 6749, RFC 8707) that hold no secret; addresses inside those
values are cleaned in the same way. Equal segments get equal hashes, so addresses can still be compared with each other.

An MCP client waits for its server while this module loads, so it uses neither `re` nor `urllib`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    Hash = Callable[[bytes], str]
    """Secret → its replacement."""

KEPT_SEGMENTS: Final = frozenset(
    # transports
    b"mcp sse message messages api rpc jsonrpc json-rpc stream streamable http stdio events ws rest public "
    b"server servers "
    # OAuth, OpenID Connect, and documents that describe a server (RFC 8414, RFC 8615, RFC 9728)
    b".well-known oauth-protected-resource oauth-authorization-server openid-configuration oauth oauth2 oidc auth "
    b"authorize authorization token register registration revoke revocation introspect userinfo logout login "
    b"callback redirect "
    b"consent device device_authorization jwks jwks.json cb connect openid-connect protocol realms default".split()
)
"""Path segments that name the kind of endpoint and are too common to be secret."""

KEPT_VALUES: Final = {
    b"response_type": frozenset({b"code", b"token", b"id_token", b"none"}),
    b"code_challenge_method": frozenset({b"S256", b"plain"}),
    b"grant_type": frozenset(
        {
            b"authorization_code",
            b"refresh_token",
            b"client_credentials",
            b"password",
            b"urn:ietf:params:oauth:grant-type:device_code",
            b"urn:ietf:params:oauth:grant-type:jwt-bearer",
            b"urn:ietf:params:oauth:grant-type:token-exchange",
        }
    ),
}
_ADDRESSES: Final = frozenset({b"resource", b"redirect_uri"})
_SCOPES: Final = frozenset({b"scope"})
_NESTED: Final = 2
"""How many levels of addresses within addresses are examined."""
_MAX_WORD_BYTES: Final = 40
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS: Final = b"0123456789"
_NAME: Final = frozenset(_LETTERS + _DIGITS + b".-_")
_IPV6: Final = frozenset(b"0123456789abcdefABCDEF:.")
_WEB: Final = frozenset({b"http", b"https", b"ws", b"wss"})
_HEX: Final = {b"%02x" % value: bytes([value]) for value in range(256)}


def is_segment(text: str) -> bool:
    """Whether a text can be one segment of a path; a leading hyphen suggests that an option's value was forgotten."""
    return bool(text) and not text.startswith("-") and set(text).isdisjoint("/?#")


def clean_address(text: bytes, hashed: Hash, keep: frozenset[bytes] = frozenset(), depth: int = 0) -> str:
    """An absolute or relative URL with hashes in place of what could be secret.

    Args:
        text: the URL, or a request's target (RFC 9112 §3.2), as sent.
        hashed: makes a hash of a secret.
        keep: segments that the user wants kept in addition to `KEPT_SEGMENTS`.
        depth: how many addresses this one is nested in.
    """
    rest, sharp, fragment = text.partition(b"#")
    rest, question, query = rest.partition(b"?")
    scheme, marks, path = rest.partition(b"://")
    if marks and _is_plain(scheme, b"+.-"):
        authority, slash, path = path.partition(b"/")
        is_web = scheme.lower() in _WEB
        front = f"{scheme.decode()}://{_authority(authority, hashed, is_web=is_web)}{'/' if slash else ''}"
    else:
        front, path = "", rest
    segments = [_segment(segment, hashed, keep) for segment in path.split(b"/")]
    if not front and segments[0].partition(":")[2]:
        front = "./"  # a relative reference with a colon in its first segment would begin with a scheme (RFC 3986 §4.2)
    clean = front + "/".join(segments) + ("?" if question else "")
    clean += "&".join([_parameter(word, hashed, keep, depth) for word in query.split(b"&")])
    return clean + (f"#{hashed(fragment) if fragment else ''}" if sharp else "")


def is_web_address(word: bytes) -> bool:
    """Whether a word is exactly one HTTP or WebSocket URL."""
    scheme, marks, rest = word.partition(b"://")
    return bool(marks and rest) and scheme.lower() in _WEB and not rest[:1].isspace()


def _authority(authority: bytes, hashed: Hash, *, is_web: bool) -> str:
    """User, host and port. With an application's own scheme, the host part can be anything."""
    user, at, host = authority.rpartition(b"@")
    shown = host.decode() if not host or (is_web and _is_host(host)) else hashed(host)
    return (hashed(user) + "@" if at else "") + shown


def _is_host(host: bytes) -> bool:
    """Whether a text is a host name or an address, perhaps with a port (RFC 3986 §3.2.2)."""
    if host.startswith(b"["):
        name, _, port = host[1:].partition(b"]")
        is_name = b":" in name and _IPV6.issuperset(name)
        port = port.removeprefix(b":") or b"0"
    else:
        name, _, port = host.partition(b":")
        is_name, port = _NAME.issuperset(name), port or b"0"
    return is_name and len(name) <= 255 and port.isdigit() and len(port) <= 5


def _segment(segment: bytes, hashed: Hash, keep: frozenset[bytes]) -> str:
    if (
        segment in (b"", b".", b"..", b"*")
        or segment.lower() in KEPT_SEGMENTS
        or segment in keep
        or _is_version(segment)
    ):
        return _text(segment)
    return hashed(segment)


def _is_version(segment: bytes) -> bool:
    """`v1`, `v2.1`, or a revision of the protocol such as `2025-11-25`."""
    if segment[:1] in (b"v", b"V"):
        return 2 <= len(segment) <= 6 and not segment[1:].strip(b".0123456789")
    return (
        len(segment) == 10
        and segment[:2] == b"20"
        and segment[4:5] == segment[7:8] == b"-"
        and (segment.replace(b"-", b"").isdigit())
    )


def _parameter(word: bytes, hashed: Hash, keep: frozenset[bytes], depth: int) -> str:
    name, equals, value = word.partition(b"=")
    if not word:
        return ""
    # A word without a name may itself be the secret, and base64 pads it with what looks like an empty value.
    if not equals or not _is_plain(name, b"_.-") or (not value.strip(b"=") and (value or not name.islower())):
        return hashed(word)
    return f"{_text(name)}={_value(name, value, hashed, keep, depth) if value else ''}"


def _value(name: bytes, value: bytes, hashed: Hash, keep: frozenset[bytes], depth: int) -> str:
    plain = _unquote(value)
    if name in KEPT_VALUES:
        words = plain.replace(b"+", b" ").split(b" ")
        return _text(value) if all(word in KEPT_VALUES[name] for word in words) else hashed(value)
    if name in _ADDRESSES and b"://" in plain and depth < _NESTED:
        return _quote(clean_address(plain, hashed, keep, depth + 1))
    if name in _SCOPES:
        words = plain.replace(b"+", b" ").split(b" ")
        return "+".join([_quote(_scope(word, hashed, keep, depth)) for word in words])
    return hashed(value)


def _scope(word: bytes, hashed: Hash, keep: frozenset[bytes], depth: int) -> str:
    if b"://" in word:
        return clean_address(word, hashed, keep, depth + 1) if depth < _NESTED else hashed(word)
    return _text(word) if not word or _is_plain(word, b"_.-:/*") else hashed(word)


def _is_plain(word: bytes, marks: bytes) -> bool:
    """Whether a word looks like a name: letters and these marks, at most two digits at its end, and not long."""
    stem = word.rstrip(_DIGITS)
    return (
        bool(stem)
        and len(word) <= _MAX_WORD_BYTES
        and len(word) - len(stem) <= 2
        and stem[:1].isalpha()
        and not stem.translate(None, _LETTERS + marks)
    )


def _unquote(text: bytes) -> bytes:
    first, *rest = text.split(b"%")
    return first + b"".join([_HEX.get(part[:2].lower(), b"%" + part[:2]) + part[2:] for part in rest])


def _quote(text: str) -> str:
    """Quote a text so that it is a single query value again."""
    for sign in "%&#+ ":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
