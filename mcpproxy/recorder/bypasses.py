"""Detects what in a response leads a client around the recorder, and warns of it."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from mcpproxy.wire.response import ResponseHead

BYPASS_WARNINGS: Final = {
    "bypass/location": "a response sends the client directly to {}",
    "bypass/content-location": "the Content-Location of a response leads directly to {}",
    "bypass/endpoint": "the server's endpoint event leads directly to {}: the client will refuse it or go there",
    "bypass/resource": "the server's OAuth metadata is for {}: a client that checks this will not log in",
    "bypass/challenge": "the server's OAuth challenge sends the client to {} for its metadata",
    "bypass/issuer": "the server's OAuth metadata names {} as the authorization server",
    "bypass/cookie": "the server sets a cookie that a client cannot keep for this address ({})",
}
"""The message on stderr for each flag of something that leads the client around the recorder; printed once a cause."""
REWRITABLE_FLAGS: Final = frozenset({"bypass/location", "bypass/endpoint"})
"""The flags that an address of the upstream itself can have only if addresses are not rewritten."""
_MAX_ISSUERS: Final = 8
_LOOPBACK_HOST: Final = re.compile(r"localhost|127\.[\d.]+|::1").fullmatch
_METADATA_PARAMETER: Final = re.compile(rb'(?i)\bresource_metadata="?([^",\s]++)').search


class Bypass(NamedTuple):
    """Something in a response that leads the client around the recorder."""

    flag: str
    """A key of `BYPASS_WARNINGS`."""
    detail: str
    """The origin to which it leads, or what else is wrong."""


class BypassDetector:
    """Detects bypasses in the responses of one recording, and warns of each cause once."""

    def __init__(
        self,
        tell: Callable[[str], None],
        origin: str,
        is_own: Callable[[str], bool],
        *,
        is_public: bool,
        rewrites_addresses: bool,
    ) -> None:
        """Start without a warning.

        Args:
            tell: shows one line to the user.
            origin: scheme, host and port of the URL at which the server is reached.
            is_own: returns whether an address belongs to that server.
            is_public: whether clients use that URL themselves, instead of mcpproxy's.
            rewrites_addresses: whether addresses of the server in responses are made relative.
        """
        self._say = tell
        self._origin = origin
        parts = urlsplit(origin)
        self._scheme, self._host = parts.scheme, (parts.hostname or "").lower()
        self._is_own = is_own
        self._is_public = is_public
        self._rewrites_addresses = rewrites_addresses
        self._reported: set[tuple[str, str]] = set()
        """What was reported: the flag, or the cause if that is the same for several flags, and the remedy."""

    def in_address(self, flag: str, address: str, host: str) -> Bypass | None:
        """Returns the bypass if an address from the server names another host than the client uses, otherwise None.

        Args:
            flag: the flag of the bypass.
            address: the address, which may be relative.
            host: the `Host` of the request, in lower case.
        """
        return Bypass(flag, _origin(address)) if self._names_other_host(flag, address, host) else None

    def _names_other_host(self, flag: str, address: str, host: str) -> bool:
        try:
            parts = urlsplit(address)
            if self._is_public:
                return parts.netloc != "" and self._is_not_public(flag, address)
        except ValueError:  # not a valid address, so no client can go there
            return False
        return parts.netloc != "" and (parts.scheme or "http", parts.netloc.lower()) != ("http", host)

    def _is_not_public(self, flag: str, address: str) -> bool:
        """Returns whether an address is wrong, because it is not the public one, or for other issuers as `_cause` says.

        Raises:
            ValueError: the address is not valid.
        """
        if flag == "bypass/issuer":
            return self._cause(address) is not None
        return not self._is_own(address) or urlsplit(address).scheme not in ("", self._scheme)

    def _cause(self, address: str) -> str | None:
        """Returns why an address is wrong if several addresses of a server usually are; None for any other address."""
        parts = urlsplit(address)
        host = parts.hostname or ""
        if _LOOPBACK_HOST(host) and not _LOOPBACK_HOST(self._host):
            return "loopback"
        return "scheme" if host == self._host and parts.scheme not in ("", self._scheme) else None

    def in_head(
        self, head: ResponseHead, host: str, forwarded: Mapping[tuple[str, bytes], bytes], *, is_login: bool
    ) -> Iterator[Bypass]:
        """Yields the bypasses in the head of a response.

        Args:
            head: the head, as the server sent it.
            host: the `Host` of the request, in lower case.
            forwarded: what was forwarded in place of an address, by the name of its field and the address.
            is_login: whether the response is a step of a login, which may lead elsewhere.
        """
        fields = head.headers
        for name in ("location", "content-location"):
            for value in fields.values_of(name.encode()):
                address = forwarded.get((name, value), value).decode("latin-1")
                if not is_login and (bypass := self.in_address(f"bypass/{name}", address, host)):
                    yield bypass
        for value in () if self._is_public else fields.values_of(b"set-cookie"):
            attributes = [word.strip().lower() for word in value.split(b";")[1:]]
            if b"secure" in attributes or any(word.startswith(b"domain=") for word in attributes):
                yield Bypass("bypass/cookie", "Secure, or for a domain")
        for value in fields.values_of(b"www-authenticate"):
            metadata_url = _METADATA_PARAMETER(value)
            if metadata_url and (
                bypass := self.in_address("bypass/challenge", metadata_url[1].decode("latin-1"), host)
            ):
                yield bypass

    def report(self, bypass: Bypass) -> None:
        """Report a bypass on stderr, once for each cause and remedy."""
        flag, detail = bypass
        remedy = self._remedy(flag, detail)
        cause = (self._cause(detail) if self._is_public else None) or flag
        if (cause, remedy) not in self._reported:
            self._reported.add((cause, remedy))
            self._say(f"{BYPASS_WARNINGS[flag].format(detail)} ({flag}); traffic to it is not recorded{remedy}")

    def _remedy(self, flag: str, detail: str) -> str:
        if self._is_public:
            return f"; clients reach this server by {self._origin}, and so it should describe itself"
        if flag == "bypass/location" and detail.startswith("https:") and self._origin.startswith("http:"):
            is_same_host = urlsplit(detail).hostname == urlsplit(self._origin).hostname
            return f"; to record it, start with {detail}/… instead of {self._origin}/…" if is_same_host else ""
        is_rewritable = flag in REWRITABLE_FLAGS and not self._rewrites_addresses and self._is_own(detail)
        return "; without --no-rewrite-location, mcpproxy would make that address relative" if is_rewritable else ""


def _origin(address: str) -> str:
    """Returns the origin of an address, which contains no secret."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    except ValueError:
        return "another address"
    return f"{parts.scheme or 'http'}://{host}{port}"


def issuers(document: Mapping[str, Any]) -> Iterator[str]:
    """Yields the authorization servers that OAuth metadata names, its own issuer included; at most a few."""
    listed = document.get("authorization_servers")
    for address in (document.get("issuer"), *(listed[:_MAX_ISSUERS] if isinstance(listed, list) else ())):
        if isinstance(address, str):
            yield address
