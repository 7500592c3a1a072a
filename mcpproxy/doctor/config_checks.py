"""Checks a client's configuration files, and the environment and proxy that its entries depend on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mcpproxy.clients import addresses
from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.client import Client
from mcpproxy.clients.documents.document import read_data
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import ClientInventory, Server
from mcpproxy.clients.wrapper import is_shell_safe
from mcpproxy.doctor.variables import (
    ENVIRONMENT_MEMBERS,
    MissingVariable,
    empty_variables,
    expand_text,
    unknown_variables,
    unset_variables,
    variable_values,
)
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import (
    EmptyVariable,
    JsonComment,
    LoopbackProxy,
    LostAuthority,
    LostProxy,
    ShellWords,
    UnknownVariable,
    UnreadableFile,
    UnreadFile,
    UnsetVariable,
    WrongKey,
)

AUTHORITY_VARIABLES: Final = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_SERVER_KEYS: Final = {
    pattern for client in CLIENTS for config in client.files for pattern in config.server_maps if len(pattern) == 1
}


def check_files(inventory: ClientInventory, machine: Machine) -> Iterator[tuple[Path, Diagnosis]]:
    """Yield the faults in the files of a client, each with its file."""
    for path, reason in inventory.broken_files:
        verdict = JsonComment if "which this client refuses" in reason else UnreadableFile
        yield path, Diagnosis(verdict, f"{machine.display_path(path)}: {reason}")
    files_with_servers = {server.file for server in inventory.servers}
    for config in inventory.client.files:
        for place in config.places.get(machine.system, ()):
            for path in machine.paths_of(place, inventory.client.overrides):
                if path in inventory.files and path not in files_with_servers:
                    yield from _check_key(path, config.format, config.server_maps)
    for place in inventory.client.misplaced_files:
        for path in machine.paths_of(place, inventory.client.overrides):
            yield from _check_misplaced(path, inventory.client, machine)


def _check_key(path: Path, form: Any, maps: tuple[tuple[str | int, ...], ...]) -> Iterator[tuple[Path, Diagnosis]]:
    data = read_data(path, form)
    for pattern in _SERVER_KEYS - {*maps}:
        entries = data.get(str(pattern[0])) if isinstance(data, dict) else None
        if isinstance(entries, dict) and entries and all(isinstance(entry, dict) for entry in entries.values()):
            right_key = ".".join(map(str, maps[0]))
            yield (
                path,
                Diagnosis(WrongKey, f"{path} has its servers under `{pattern[0]}`", f"rename it to `{right_key}`"),
            )


def _check_misplaced(path: Path, client: Client, machine: Machine) -> Iterator[tuple[Path, Diagnosis]]:
    data = read_data(path, "jsonc")
    names = {str(pattern[0]) for config in client.files for pattern in config.server_maps} | {
        "mcpServers",
        "mcp_servers",
    }
    if isinstance(data, dict) and any(isinstance(data.get(name), dict) and data[name] for name in names):
        right_path = machine.paths_of(client.files[0].places[machine.system][0], client.overrides)[0]
        yield (
            path,
            Diagnosis(
                UnreadFile, machine.display_path(path), f"move its servers to {machine.display_path(right_path)}"
            ),
        )


def check_entry(server: Server, machine: Machine) -> Iterator[Diagnosis]:
    """Yield the faults in an entry that are visible before the server is started."""
    client, values = server.client, variable_values(machine)
    if variable_list := _variables_text(unset_variables(server.entry, client, values)):
        yield Diagnosis(UnsetVariable, f"no value for {variable_list}")
    if variable_list := _variables_text(unknown_variables(server.entry, client)):
        yield Diagnosis(UnknownVariable, f"only {client.title} knows the value of {variable_list}")
    if variable_list := _variables_text(empty_variables(server.entry, client, values)):
        yield Diagnosis(EmptyVariable, f"no value for {variable_list}")
    if client.joins_words:
        for word in server.words:
            if not is_shell_safe(expand_text(word, client, values)):
                yield Diagnosis(ShellWords, f"the shell would change {word!r}")
                break


def _variables_text(missing: Iterable[MissingVariable]) -> str:
    return ", ".join(map(str, dict.fromkeys(missing)))


def check_environment(
    server: Server, variables: Mapping[str, str], server_variables: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Yield diagnoses of variables that a server lacks in its environment.

    Args:
        server: the entry.
        variables: the environment of the client.
        server_variables: the environment of the server.
    """
    for verdict, names in ((LostProxy, addresses.PROXY_VARIABLES), (LostAuthority, AUTHORITY_VARIABLES)):
        lost_names = [name for name in names if variables.get(name) and name not in server_variables]
        if lost_names:
            yield Diagnosis(verdict, f"{server.client.title} does not pass on {', '.join(lost_names)}")


def check_proxy(client: Client, url: str, variables: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Yield a diagnosis if a client would use an HTTP proxy for a server on this machine."""
    name = addresses.host(url)
    variable = addresses.loopback_proxy_variable(name, variables)
    if variable and client.proxies_loopback:
        yield Diagnosis(LoopbackProxy, f"{variable} is set, and NO_PROXY does not name {name}")


def entry_environment(server: Server, values: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that an entry sets; variables in their values are replaced."""
    environments = [server.entry[name] for name in ENVIRONMENT_MEMBERS if name in server.entry]
    variables = environments[0] if environments and isinstance(environments[0], dict) else {}
    return {
        str(name): expand_text(value if isinstance(value, str) else json.dumps(value), server.client, values, "env")
        for name, value in variables.items()
    }
