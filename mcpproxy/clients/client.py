"""Describes a client as data: the files in which it looks for servers, and the form of an entry in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mcpproxy.clients.documents.document import Format
from mcpproxy.clients.documents.edits import Path
from mcpproxy.clients.machine import System

Scope = Literal["user", "project"]
"""The owner of a file: the user, or a project, whose file is usually shared in a repository."""


@dataclass(frozen=True, slots=True)
class StdioForm:
    """One way to write the command of a server."""

    command: Path
    args: Path | None
    """The path of the arguments; if None, the command is a list that contains them as well."""


SYSTEMS: Final[tuple[System, ...]] = ("linux", "macos", "windows")
STDIO_FORMS: Final = (StdioForm(("command",), ("args",)),)
URL_MEMBERS: Final = (("url",),)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file in which a client looks for servers."""

    scope: Scope
    format: Format
    server_maps: tuple[Path, ...]
    """The paths of the maps of servers; `*` matches any name. A list of entries that each have a `name` is accepted,
    too.
    """
    places: Mapping[System, tuple[str, ...]]
    """Where the file is on each system, in the form that `Machine.resolve` accepts."""
    is_shared: bool = False
    """Whether other clients read the same file."""


@dataclass(frozen=True, slots=True)
class UneditableServers:
    """Servers of a client that no editable file lists: those of its plugins, extensions or connectors."""

    kind: str
    """What provides the servers, such as `plugin` or `extension`."""
    place: str
    """Where the servers are, in the form that `Machine.resolve` accepts; each match is one server."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment variables that a client passes on to the servers that it starts."""

    passed_names: tuple[str, ...] = ()
    """The only names that are passed on; if empty, all are."""
    withheld_parts: tuple[str, ...] = ()
    """Names that contain one of these parts are not passed on."""

    def passed_variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Returns those of the client's variables that a server receives."""
        return {
            name: value
            for name, value in variables.items()
            if (not self.passed_names or name in self.passed_names)
            and not any(dropped_part in name.upper() for dropped_part in self.withheld_parts)
        }


FULL_ENVIRONMENT: Final = Environment()
SDK_ENVIRONMENT: Final = Environment(("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"))
"""The variables that the official SDKs for TypeScript and Python pass on by default."""


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """One MCP client; the catalogue contains one object for each."""

    id: str
    """The name of the client on the command line."""
    title: str
    files: tuple[ConfigFile, ...]
    source: str
    """The documentation or source code from which the facts about the client come."""
    step_after_edit: str
    """What the user must do in the client after an edit, as an imperative, such as `restart it`.

    Empty if the client notices the edit.
    """
    step_after_project_edit: str = ""
    """What else the user must do if the file belongs to a project."""
    stdio_forms: tuple[StdioForm, ...] = STDIO_FORMS
    url_members: tuple[Path, ...] = URL_MEMBERS
    """The members that may contain the URL of a server."""
    overrides: tuple[tuple[str, str], ...] = ()
    """Environment variables, each with the prefix of places that its value replaces."""
    uneditable_servers: tuple[UneditableServers, ...] = ()
    client_info_prefixes: tuple[str, ...] = ()
    """Prefixes of the `clientInfo.name` that the client sends."""
    stdio_type: str = "stdio"
    """The `type` of a server with a command, in entries that have one."""
    names_resource: bool = False
    """Whether `oauth_resource` in an entry says which resource its OAuth is for."""
    proxies_loopback: bool = True
    """Whether HTTPS_PROXY also applies to its requests to 127.0.0.1, unless NO_PROXY names that address."""
    environment: Environment = FULL_ENVIRONMENT
    start_timeout_s: float = 30.0
    """How long a server may take to start before the client gives up, in seconds."""
    variables: tuple[str, ...] = ()
    """Regular expressions for variables in entries: `name` matches the variable, `default` its value if it is unset."""
    env_variables: tuple[str, ...] | None = None
    """The same for `env`, if the client accepts other forms of variables there."""
    own_variables: tuple[str, ...] = ()
    """Regular expressions for variables whose values only the client knows, such as those that the user enters."""
    misplaced_files: tuple[str, ...] = ()
    """Files that users mistake for the client's configuration, in the form that `Machine.resolve` accepts."""
    starts_in_file_folder: bool = False
    """Whether servers start in the folder of their configuration file, not in the directory of the client."""
    store_package: tuple[str, str] | None = None
    """For a client in the Microsoft Store: the folders of its packages, and the path of the file within one."""
    locks_with_folder: bool = False
    """Whether its processes create a folder `FILE.lock` next to a file to lock it while they write."""
    joins_words: bool = False
    """Whether it joins the command and its arguments with spaces and passes the result to a shell."""
    splits_command: bool = False
    """Whether it splits a command at spaces if the entry has no arguments, unless the command names a file."""


def same_places(*templates: str) -> Mapping[System, tuple[str, ...]]:
    """Returns the same places for every system."""
    return dict.fromkeys(SYSTEMS, templates)
