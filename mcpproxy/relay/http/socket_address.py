"""The addresses of sockets as text."""

from typing import Any


def host_and_port(address: tuple[Any, ...]) -> str:
    """Returns the address of an IP socket, as `socket` gives it, as `HOST:PORT`, with IPv6 hosts in brackets."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
