"""Reads the servers in the configuration files of clients, with the position and the form of each entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcpproxy.clients.client import Client, ConfigFile, StdioForm
from mcpproxy.clients.command_line import command_words
from mcpproxy.clients.documents.document import Document, read_file
from mcpproxy.clients.documents.edits import ConfigError, value_at, value_or
from mcpproxy.clients.documents.edits import Path as Place
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.store_package import package_file
from mcpproxy.clients.wrapper import WrappedCommand, wrapped_command_of

ServerKind = Literal["stdio", "http", "other"]
"""How a client reaches a server; `other` is an entry with neither a command nor a URL."""


@dataclass(frozen=True, slots=True)
class Server:
    """The entry of a server in a configuration file."""

    client: Client
    file: Path
    config: ConfigFile
    name: str
    place: Place
    """The path of the entry in the file."""
    entry: dict[str, Any]
    project: str = ""
    """The only folder in which the entry applies, if a user's file lists servers of projects; otherwise empty."""

    @property
    def scope(self) -> str:
        """The scope of the entry: `user`, `project`, or `local` (in the user's own file, but for one project)."""
        return "local" if self.project else self.config.scope

    @property
    def stdio_form(self) -> StdioForm | None:
        """The form of its command, or None if it has no command that can be wrapped."""
        for form in self.client.stdio_forms:
            command = self.member_value(form.command)
            args = [] if form.args is None else self.member_value(form.args, [])
            if form.args is None and _is_word_list(command) and command:
                return form
            if form.args is not None and isinstance(command, str) and command and _is_word_list(args):
                return form
        return None

    @property
    def words(self) -> tuple[str, ...]:
        """Its command with its arguments, as the client splits them; empty if it has no command."""
        form = self.stdio_form
        if form is None:
            return ()
        if form.args is None:
            return tuple(self.member_value(form.command))
        arguments = self.member_value(form.args, [])
        if self.client.splits_command and not arguments:
            return command_words(self.member_value(form.command), self.file.parent)
        return (self.member_value(form.command), *arguments)

    @property
    def is_command_line(self) -> bool:
        """Whether its command is a whole command line, which the client splits; the entry then has no arguments."""
        form = self.stdio_form
        return form is not None and form.args is not None and self.words[:1] != (self.member_value(form.command),)

    @property
    def url_member(self) -> tuple[Place, str] | None:
        """The path of its URL in the entry, and the URL; None if it has none."""
        for member in self.client.url_members:
            value = self.member_value(member)
            if isinstance(value, str) and value:
                return member, value
        return None

    @property
    def kind(self) -> ServerKind:
        """How the client reaches the server."""
        if self.stdio_form is not None:
            return "stdio"
        return "http" if self.url_member is not None else "other"

    @property
    def no_command_reason(self) -> str:
        """The reason why its command cannot be read, if `stdio_form` is None."""
        if any(self.entry.get(str(form.command[0])) for form in self.client.stdio_forms):
            return "its command is not a string, or its arguments are not a list of strings"
        return "has neither a command nor a URL"

    @property
    def wrapped_command(self) -> WrappedCommand | None:
        """Its command as wrapped by mcpproxy, or None if it is not wrapped."""
        return wrapped_command_of(self.words)

    @property
    def is_disabled(self) -> bool:
        """Whether the entry is disabled in the client."""
        return self.entry.get("disabled") is True or self.entry.get("enabled") is False

    def member_value(self, member: Place, default: Any = None) -> Any:
        """Returns a member of the entry, or a default if it is missing."""
        return value_or(self.entry, member, default)


@dataclass(frozen=True, slots=True)
class ClientInventory:
    """The files and servers of a client on this machine."""

    client: Client
    files: list[Path] = field(default_factory=list)
    """The files of the client that exist."""
    servers: list[Server] = field(default_factory=list)
    broken_files: list[tuple[Path, str]] = field(default_factory=list)
    """The files that cannot be read, each with the reason."""
    uneditable_servers: list[tuple[str, str]] = field(default_factory=list)
    """Servers that are in none of the client's files: the kind and the name of each."""

    @property
    def is_installed(self) -> bool:
        """Whether the machine has any trace of the client."""
        return bool(self.files or self.broken_files or self.uneditable_servers)


def read_inventory(client: Client, machine: Machine) -> ClientInventory:
    """Read all files of a client; returns what they contain."""
    inventory = ClientInventory(client)
    for config in client.files:
        for template in config.places.get(machine.system, ()):
            for path in machine.paths_of(template, client.overrides):
                try:
                    _read_into(inventory, config, _own_file(client, machine, path))
                except ConfigError as error:
                    inventory.broken_files.append((path, str(error)))
    for uneditable in client.uneditable_servers:
        inventory.uneditable_servers.extend(
            (uneditable.kind, path.name) for path in machine.paths_of(uneditable.place, client.overrides)
        )
    return inventory


def _own_file(client: Client, machine: Machine, path: Path) -> Path:
    """Returns the path itself, or, on Windows, the file in the package of the Microsoft Store."""
    if machine.system != "windows" or client.store_package is None:
        return path
    folders, path_inside = client.store_package
    return package_file(path, machine.paths_of(folders), path_inside)


def _read_into(inventory: ClientInventory, config: ConfigFile, path: Path) -> None:
    try:
        data = read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        inventory.broken_files.append((path, error.strerror or str(error)))
        return
    if path in inventory.files:
        return
    inventory.files.append(path)
    if not data.strip():
        return
    try:
        document = Document(data, config.format)
    except ConfigError as error:
        inventory.broken_files.append((path, str(error)))
        return
    inventory.servers.extend(servers_in(document, inventory.client, config, path))


def servers_in(document: Document, client: Client, config: ConfigFile, path: Path) -> Iterator[Server]:
    """Yields every server of a file, in the order of the file."""
    for pattern in config.server_maps:
        for place, project in _server_maps(document.data, pattern):
            entries = value_at(document.data, place)
            keyed_entries = enumerate(entries) if isinstance(entries, list) else entries.items()
            for key, entry in keyed_entries:
                # OpenCode 2 lists servers in `mcp.servers`, OpenCode 1 directly in `mcp`.
                if not isinstance(entry, dict):
                    continue
                is_server_map = (*pattern, key) in config.server_maps and not {"command", "url", "type"} & {*entry}
                if not is_server_map:
                    name = str(entry.get("name", key)) if isinstance(entries, list) else str(key)
                    yield Server(client, path, config, name, (*place, key), entry, project)


def _server_maps(data: Any, pattern: Place) -> Iterator[tuple[Place, str]]:
    """Yields the maps of servers that a pattern matches, each with the name that `*` matches."""
    if "*" not in pattern:
        if isinstance(value_or(data, pattern), dict | list):
            yield pattern, ""
        return
    star_index = pattern.index("*")
    outer_map = value_or(data, pattern[:star_index])
    for name in outer_map if isinstance(outer_map, dict) else ():
        place = (*pattern[:star_index], name, *pattern[star_index + 1 :])
        if isinstance(value_or(data, place), dict | list):
            yield place, str(name)


def _is_word_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)
