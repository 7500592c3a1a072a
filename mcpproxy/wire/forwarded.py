"""The address of a client, as the proxies between it and us report it.

What a client itself writes into these fields comes first, and each proxy appends the address of its own client. So the
last address that is not one of an internal network is the client's, as far as the nearest proxies can be believed.
"""

import ipaddress
import re
from typing import Final, TypeAlias

from mcpproxy.wire.framing import Fields

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_FORWARDED_BYTES: Final = 4096
"""How much of the end of a field is read; it grows by one address with each proxy."""

_FOR: Final = re.compile(r'(?i)(?:^|[;,\s])for=(?:"([^"]*)"|([^\s;,"]+))').findall


def client_address(fields: Fields) -> str | None:
    """Returns the address that `X-Forwarded-For`, or else `Forwarded` (RFC 7239), names; None if neither names one."""
    listed = _joined(fields, b"x-forwarded-for").split(",")
    addresses = [address for text in listed if (address := _address(text)) is not None]
    if not addresses:
        named = [quoted or plain for quoted, plain in _FOR(_joined(fields, b"forwarded"))]
        addresses = [address for text in named if (address := _address(text)) is not None]
    if not addresses:
        return None
    public = [address for address in addresses if address.is_global]
    return str(public[-1] if public else addresses[0])


def _joined(fields: Fields, name: bytes) -> str:
    return b",".join(fields.values_of(name))[-MAX_FORWARDED_BYTES:].decode("latin-1")


def _address(text: str) -> _Address | None:
    """Read an address with or without a port, IPv6 with or without brackets."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return ipaddress.ip_address(text)
    except ValueError:  # `unknown`, and names that hide the address
        return None
