"""Detects what in a response leads a client around the recorder, and warns of it."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mcpproxy.wire.response import ResponseHead

BYPASS_WARNINGS: Final = {
    "bypass/location": "a response sends the client directly to {}",
    "bypass/content-location": "the Content-Location of a response leads directly to {}",
    "bypass/endpoint": "the server's endpoint event leads directly to {}: the client will refuse it or go there",
    "bypass/resource": "the server's OAuth metadata is for {}: a client that checks this will not log in",
    "bypass/challenge": "the server's OAuth challenge sends the client to {} for its metadata",
    "bypass/cookie": "the server sets a cookie that a client cannot keep for this address ({})",
}
"""The message on stderr for each flag of something that leads the client around the recorder; printed once."""
REWRITABLE_FLAGS: Final = frozenset({"bypass/location", "bypass/endpoint"})
"""The flags that an address of the upstream itself can have only if addresses are not rewritten."""
_METADATA_PARAMETER: Final = re.compile(rb'(?i)\bresource_metadata="?([^",\s]++)').search


class Bypass(NamedTuple):
    """Something in a response that leads the client around the recorder."""

    flag: str
    """A key of `BYPASS_WARNINGS`."""
    detail: str
    """The origin to which it leads, or what else is wrong."""


class BypassDetector:
    """Detects bypasses in the responses of one recording, and warns of each kind once."""

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
        self._is_own = is_own
        self._is_public = is_public
        self._rewrites_addresses = rewrites_addresses
        self._reported: set[tuple[str, str]] = set()

    def in_address(self, flag: str, address: str, host: str) -> Bypass | None:
        """Returns the bypass if an address from the server names another host than the client uses, otherwise None.

        Args:
            flag: the flag of the bypass.
            address: the address, which may be relative.
            host: the `Host` of the request, in lower case.
        """
        return Bypass(flag, _origin(address)) if self._names_other_host(address, host) else None

    def _names_other_host(self, address: str, host: str) -> bool:
        try:
            parts = urlsplit(address)
            if self._is_public:
                return parts.netloc != "" and not self._is_own(address)
        except ValueError:  # not a valid address, so no client can go there
            return False
        return parts.netloc != "" and (parts.scheme or "http", parts.netloc.lower()) != ("http", host)

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
        """Report a bypass on stderr, once for each flag and remedy."""
        flag, detail = bypass
        remedy = self._remedy(flag, detail)
        if (flag, remedy) not in self._reported:
            self._reported.add((flag, remedy))
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
