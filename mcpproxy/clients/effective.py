"""Which of several entries of one name a client uses, here and now."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import Server

_ORDER = {"local": 0, "project": 1, "user": 2}
"""The nearer entry wins: all clients with several files document this, and it was observed in Claude Code 2.1.328."""


def effective(servers: Iterable[Server], machine: Machine) -> dict[int, Server]:
    """For every server, by its `id()`, the one that the client uses: the server itself, or another one instead."""
    named: dict[tuple[str, str], list[Server]] = {}
    everyone = list(servers)
    for server in everyone:
        if is_here(server, machine):
            named.setdefault((server.client.id, server.name), []).append(server)
    winners = {
        # Among a project's files, the one nearest to the directory wins.
        key: min(entries, key=lambda server: (_ORDER[server.scope], -len(server.file.parts)))
        for key, entries in named.items()
    }
    return {
        id(server): winners[server.client.id, server.name] if is_here(server, machine) else server
        for server in everyone
    }


def is_here(server: Server, machine: Machine) -> bool:
    """Whether an entry counts in the directory in which the command was started."""
    return not server.project or Path(server.project) == machine.project
