"""Decides which of several entries with the same name a client uses in the current directory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import Server

_ORDER = {"local": 0, "project": 1, "user": 2}
"""The nearest entry wins: all clients with several files document this, and it was observed in Claude Code 2.1.328."""


def effective_servers(servers: Iterable[Server], machine: Machine) -> dict[int, Server]:
    """Map the `id()` of every server to the server that the client uses: the same one, or another with its name."""
    servers_by_name: dict[tuple[str, str], list[Server]] = {}
    all_servers = list(servers)
    for server in all_servers:
        if is_here(server, machine):
            servers_by_name.setdefault((server.client.id, server.name), []).append(server)
    winners = {
        # Among a project's files, the one nearest to the directory wins.
        key: min(entries, key=lambda server: (_ORDER[server.scope], -len(server.file.parts)))
        for key, entries in servers_by_name.items()
    }
    return {
        id(server): winners[server.client.id, server.name] if is_here(server, machine) else server
        for server in all_servers
    }


def is_here(server: Server, machine: Machine) -> bool:
    """Returns whether an entry applies in the directory in which the command was started."""
    return not server.project or Path(server.project) == machine.project
