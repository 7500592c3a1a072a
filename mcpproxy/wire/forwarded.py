"""Finds the address of a client in the header fields in which proxies report it.

Values that the client itself sends come first, and each proxy appends the address of its own client. So the last
address that does not belong to an internal network is the client's, if the nearest proxies can be trusted.
"""

import ipaddress
import re
from typing import Final, TypeAlias

from mcpproxy.wire.framing import Fields

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_FORWARDED_BYTES: Final = 4096
"""The maximum number of bytes that are read, from the end of a field; each proxy adds one address to it."""

_FOR_PARAMETER: Final = re.compile(r'(?i)(?:^|[;,\s])for=(?:"([^"]*)"|([^\s;,"]+))').findall


def client_address(fields: Fields) -> str | None:
    """Returns the address that `X-Forwarded-For`, or else `Forwarded` (RFC 7239), names; None if neither names one."""
    listed_texts = _field_text(fields, b"x-forwarded-for").split(",")
    addresses = [address for text in listed_texts if (address := _parsed_address(text)) is not None]
    if not addresses:
        named_texts = [quoted or plain for quoted, plain in _FOR_PARAMETER(_field_text(fields, b"forwarded"))]
        addresses = [address for text in named_texts if (address := _parsed_address(text)) is not None]
    if not addresses:
        return None
    public_addresses = [address for address in addresses if address.is_global]
    return str(public_addresses[-1] if public_addresses else addresses[0])


def _field_text(fields: Fields, name: bytes) -> str:
    return b",".join(fields.values_of(name))[-MAX_FORWARDED_BYTES:].decode("latin-1")


def _parsed_address(text: str) -> _Address | None:
    """Returns the address in a text with or without a port, IPv6 with or without brackets, or None if it has none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return ipaddress.ip_address(text)
    except ValueError:  # `unknown`, or a name that hides the address
        return None
