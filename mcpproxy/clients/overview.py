"""Lists the routed servers of this machine, whose captures the screens expect."""

from __future__ import annotations

from typing import NamedTuple

from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.installer import is_routed
from mcpproxy.clients.last_frame import capture_location
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import read_inventory
from mcpproxy.clients.state import read_state


class RoutedServer(NamedTuple):
    """A server that its client routes through mcpproxy."""

    client: str
    """The title of the client."""
    name: str
    """The name under which it is recorded."""


def routed_servers() -> list[RoutedServer]:
    """Returns every routed server that is enabled in its client, or an empty list if no home directory is known."""
    try:
        machine, state = Machine.current(), read_state()
    except OSError:
        return []
    servers = [server for client in CLIENTS for server in read_inventory(client, machine).servers]
    return [
        RoutedServer(server.client.title, location.name)
        for server in servers
        if is_routed(server, state)
        and not server.is_disabled
        and (location := capture_location(server, state)) is not None
    ]
