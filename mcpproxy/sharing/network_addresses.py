"""Finds network addresses in a text, and distinguishes them from versions, sections, times, slices and names in code.

Four numbers are a version after a word such as `version`, before a word such as `beta`, and in the name of a package.
An IPv6 address must be in a range that is in use: `a::b` and `face::feed` are names in code.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

_IPV4: Final = re.compile(
    r"[0-9](?<![0-9A-Za-z.][0-9])[0-9]{0,2}\.(?:[0-9]{1,3}\.){2}[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])"
)
"""The pattern begins with a digit, followed by the lookbehind, because `re` skips to a possible first character."""
_IPV6: Final = re.compile(
    r"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{1,4}|(?=::)):[0-9A-Fa-f:]{1,39}+(?:\.[0-9]{1,3}){0,3}+"
    r"(?![0-9A-Za-z_]|\.[0-9])"
)
_MIN_COLONS: Final = 7
"""The number of colons in an IPv6 address without `::`."""
_IN_USE: Final = re.compile(
    r"(?:200[1-3]|2[4-9a-c][0-9a-f]{2}|f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):", re.IGNORECASE
).match
"""Matches the beginning of an assigned, private or link-local address."""
_CONTEXT_CHARS: Final = 32
"""The number of characters before and after four numbers that may show them to be a version."""
_BEFORE_VERSION: Final = re.compile(
    r"(?:version|versions|release|firmware|build|(?<![a-z])(?:ver|rev|section|sections|table|figure|fig|clause|chapter"
    r"|appendix|article|oid|edition)|§|>=|<=|~=|~>|\^)[\s\"'`*:=.]{0,6}\Z",
    re.IGNORECASE,
)
_PRODUCT: Final = re.compile(r"(?<![A-Za-z])[A-Z][A-Za-z]{1,30}/\Z")
"""Matches a product in a `User-Agent` header. Browsers write their versions like `120.0.0.0`."""
_AFTER_VERSION: Final = re.compile(
    r"[-~+_.]?(?:alpha|beta|rc|dev|pre|preview|snapshot|nightly|canary|final|ga|post|hotfix|stable|lts|release|build)"
    r"(?![a-z])|[.-](?:jar|war|nupkg|whl|dll|deb|rpm|gem|msi|dylib|jre|amd64|x64|win32)(?![a-z])",
    re.IGNORECASE,
).match
_NEVER_VERSIONS: Final = ("192.168.", "172.16.", "169.254.")
_DOCUMENTATION: Final = "2001:db8:"
_PSEUDONYM_NIBBLE: Final = 15
"""The first four bits of IPv4 addresses that are pseudonyms."""


def private_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each network address in a text that is not public.

    The end is before any zone, port or prefix length. Of an IPv4-mapped IPv6 address, it yields the IPv4 address.
    """
    ends: set[int] = set()
    for match in _IPV6.finditer(text) if "::" in text or text.count(":") >= _MIN_COLONS else ():
        # After a colon at the end, prose or a port follows.
        candidate = match[0] if re.search("(?<!:)::$", match[0]) else match[0].removesuffix(":")
        address = _parse_address(candidate)
        if isinstance(address, IPv6Address) and _is_in_use(address, candidate) and not _is_public(address):
            ends.add(match.start() + len(candidate))
            yield match.start(), match.start() + len(candidate)
    for match in _IPV4.finditer(text):
        address = _parse_address(match[0])
        is_secret = address is not None and not _is_public(address) and not _is_version(text, match)
        if is_secret and match.end() not in ends:
            yield match.span()


@lru_cache(4096)
def is_address(host: str) -> bool:
    """Whether a host is a network address, with or without brackets."""
    return (host[:1].isdigit() or ":" in host) and _parse_address(host.strip("[]")) is not None


@lru_cache(4096)
def is_public_address(host: str) -> bool:
    """Whether a network address reveals nothing: this machine, any machine, an example, or a pseudonym."""
    address = _parse_address(host.strip("[]"))
    return address is not None and _is_public(address)


@lru_cache(4096)
def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return _is_public(address.ipv4_mapped)
        is_pseudonym = str(address).startswith(_DOCUMENTATION)
    else:
        is_pseudonym = int(address) >> 28 == _PSEUDONYM_NIBBLE
    return address.is_loopback or address.is_unspecified or is_pseudonym


def _is_in_use(address: IPv6Address, text: str) -> bool:
    """Whether a valid IPv6 address is in use, and neither code nor an IPv4 address that is found separately."""
    if address.ipv4_mapped is not None:
        return "." not in text
    return _IN_USE(text) is not None


def _is_version(text: str, match: re.Match[str]) -> bool:
    numbers = match[0]
    if numbers.startswith(_NEVER_VERSIONS):
        return False
    prefix = text[max(0, match.start() - _CONTEXT_CHARS) : match.start()]
    suffix = text[match.end() : match.end() + _CONTEXT_CHARS]
    return (
        _BEFORE_VERSION.search(prefix) is not None
        or _AFTER_VERSION(suffix) is not None
        or (numbers.endswith(".0.0.0") and _PRODUCT.search(prefix) is not None)
    )
