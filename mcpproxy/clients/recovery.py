"""Recovers missing or lost records of `install` from the clients' files and from the backups.

A routed command contains the server's own command, but a routed URL contains only one of mcpproxy's ports. The server
of a port is found in the backups, in which the entry still has the server's own URL, because a port is derived from the
server's name and origin. The user may have copied an entry to another client, so every entry that leads to one of
mcpproxy's listeners is searched for, even if the records are complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from captures.paths import safe_name
from mcpproxy.clients.catalogue import CLIENTS, client_by_id
from mcpproxy.clients.documents.document import Document, read_file
from mcpproxy.clients.documents.edits import ConfigError
from mcpproxy.clients.installer import add_user, path_text
from mcpproxy.clients.listeners import (
    FIRST_PORT,
    HOST,
    PORT_COUNT,
    Listener,
    NotRoutable,
    is_port_free,
    listener_of,
    preferred_port,
    split_origin,
)
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import Server, read_inventory, servers_in
from mcpproxy.clients.state import FileRecord, InstallState, state_folder
from mcpproxy.clients.up_lock import running_up

_BACKUP_NAME: Final = re.compile(r"\d{8}T\d{6}Z-(?P<client>.+)-[0-9a-f]{4}-(?P<file>[^/]+)").fullmatch
_MAX_PORT_DISTANCE: Final = 64
"""The maximum distance of a port from the derived one; the ports in between were taken when it was chosen."""


def recover_records(state: InstallState, machine: Machine, *, is_sure: bool = False) -> list[Server]:
    """Recover lost records as far as possible, and add the entries that lead to mcpproxy's ports, such as copies.

    Args:
        state: the records.
        machine: the machine, all of whose clients are searched.
        is_sure: whether records existed for certain, even if no trace of them is left.

    Returns:
        The entries whose port may be mcpproxy's, but cannot be assigned to a server. If the records are complete, only
        the ports on which `up` listens count as mcpproxy's.
    """
    is_lost = not state.is_complete or state.is_partial
    servers = [server for client in CLIENTS for server in read_inventory(client, machine).servers]
    had_records = (
        is_sure
        or state.is_complete
        or state.has_trace
        or any(server.wrapped_command and server.wrapped_command.is_passing for server in servers)
    )
    up, unassigned_servers = running_up(state_folder()), []
    up_ports = up.ports if up is not None else frozenset()
    for server in servers:
        if server.wrapped_command is not None and is_lost:
            _record_write(state, server)
        if server.kind != "http" or server.url_member is None:
            continue
        listener = listener_of(server.url_member[1], state.listeners)
        if listener is None and _has_listener_port(server.url_member[1]):
            listener = _recovered_listener(state, server, server.url_member[1], is_lost=is_lost)
            if listener is not None:
                state.listeners.append(listener)
            elif port_of(server) in up_ports or (is_lost and had_records and is_port_free(port_of(server))):
                unassigned_servers.append(server)
        if listener is not None:
            add_user(listener, server)
            if is_lost:
                _record_write(state, server)
    state.is_partial = is_lost and bool(unassigned_servers)
    return unassigned_servers


def recovery_text(server: Server, machine: Machine) -> str:
    """Returns the message about an entry that could not be recovered, with what to do."""
    return (
        f"{server.client.title}: {server.name} leads to 127.0.0.1:{port_of(server)}, which may be one of mcpproxy's "
        "ports, but no record of install says which server it belongs to; write the server's own URL into "
        f"{machine.display_path(server.file)}"
    )


def port_of(server: Server) -> int:
    """Returns the port in the URL of an entry; 0 if it has none."""
    return (urlsplit(server.url_member[1]).port if server.url_member is not None else None) or 0


def _record_write(state: InstallState, server: Server) -> None:
    """Record that `install` wrote to the file of a server, whose earlier content is unknown."""
    record = state.files.setdefault(os.path.realpath(server.file), FileRecord("", "", routed=[]))
    if record.routed is not None and server.wrapped_command is not None and server.wrapped_command.is_passing:
        record.routed = [*dict.fromkeys([*record.routed, path_text(server.place)])]


def _has_listener_port(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port or 0
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname == HOST and FIRST_PORT <= port < FIRST_PORT + PORT_COUNT


def _recovered_listener(state: InstallState, server: Server, url: str, *, is_lost: bool) -> Listener | None:
    """Returns the listener of an entry, from the newest backup in which it has the server's own URL, or None.

    The entry may have been copied from another client. If the records are lost, it may also have been renamed.
    """
    try:
        _, path_and_query = split_origin(url)
    except NotRoutable:
        return None
    port, candidate = port_of(server), None
    for backed_up_server in _backed_up_servers(state, server):
        is_same_file = backed_up_server.file == server.file
        if backed_up_server.url_member is None or _has_listener_port(backed_up_server.url_member[1]):
            continue
        if backed_up_server.name != server.name and not (is_same_file and is_lost):
            continue
        try:
            origin, own_path_and_query = split_origin(backed_up_server.url_member[1])
        except NotRoutable:
            continue
        if (
            own_path_and_query == path_and_query
            and (port - preferred_port(safe_name(backed_up_server.name), origin)) % PORT_COUNT < _MAX_PORT_DISTANCE
        ):
            if is_same_file and backed_up_server.place == server.place:
                return Listener(safe_name(backed_up_server.name), port, origin)
            candidate = candidate or Listener(safe_name(backed_up_server.name), port, origin)
    return candidate


def _backed_up_servers(state: InstallState, server: Server) -> Iterator[Server]:
    """Yields the servers in all backups, newest backup first.

    Servers from backups of the given server's file have that file, and all others have the backup as their file.
    """
    try:
        names = sorted(os.listdir(state.backup_folder), reverse=True)
    except OSError:
        return
    for name in names:
        match, path = _BACKUP_NAME(name), Path(state.backup_folder, name)
        client = None if match is None else client_by_id(match["client"])
        if match is None or client is None:
            continue
        is_same_file = client is server.client and match["file"] == server.file.name.lstrip(".")
        for config in (server.config,) if is_same_file else client.files:
            try:
                document = Document(read_file(path), config.format)
                yield from servers_in(document, client, config, server.file if is_same_file else path)
            except (OSError, ConfigError, LookupError, TypeError):
                continue
