"""What a client is, as data: the files in which it looks for servers, and how an entry is written there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mcpproxy.clients.documents.document import Format
from mcpproxy.clients.documents.edits import Path
from mcpproxy.clients.machine import System

Scope = Literal["user", "project"]
"""The owner of a file: the user, or the project, whose file is usually in a repository and shared."""


@dataclass(frozen=True, slots=True)
class StdioForm:
    """One way to write the command of a server."""

    command: Path
    args: Path | None
    """If None, the command is a list that contains the arguments as well."""


SYSTEMS: Final[tuple[System, ...]] = ("linux", "macos", "windows")
STDIO: Final = (StdioForm(("command",), ("args",)),)
URLS: Final = (("url",),)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file in which a client looks for servers."""

    scope: Scope
    format: Format
    maps: tuple[Path, ...]
    """Where its maps of servers are; `*` stands for any name. A list of entries with a `name` each is accepted, too."""
    places: Mapping[System, tuple[str, ...]]
    """Where it is, for `Machine.resolve`."""
    shared: bool = False
    """Whether other clients read the same file."""


@dataclass(frozen=True, slots=True)
class UneditableServers:
    """Servers of a client that are not in an editable file: its plugins, extensions or connectors."""

    what: str
    """`plugin`, `extension`, …"""
    place: str
    """Where they are, for `Machine.resolve`; each match is one of them."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Which of its own variables a client passes to the servers that it starts."""

    keeps: tuple[str, ...] = ()
    """The only names that are passed on; empty for all of them."""
    drops: tuple[str, ...] = ()
    """Names that contain one of these are not passed on."""

    def given(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The client's variables that a server gets."""
        return {
            name: value
            for name, value in variables.items()
            if (not self.keeps or name in self.keeps) and not any(part in name.upper() for part in self.drops)
        }


ALL: Final = Environment()
SDK: Final = Environment(("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"))
"""The variables that the official SDKs for TypeScript and Python pass on, unless a client chooses others."""


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """One MCP client; the catalogue has an object for each."""

    id: str
    """Its name on the command line."""
    title: str
    files: tuple[ConfigFile, ...]
    source: str
    """Where its facts come from."""
    after: str
    """What the user must do in the client after an edit, as an imperative: `restart it`; empty if it notices the
    edit.
    """
    after_project: str = ""
    """What else the user must do if the file is a project's."""
    stdio: tuple[StdioForm, ...] = STDIO
    urls: tuple[Path, ...] = URLS
    """The members that may hold the URL of a server."""
    overrides: tuple[tuple[str, str], ...] = ()
    """Variables, and the prefixes of places that their values replace."""
    elsewhere: tuple[UneditableServers, ...] = ()
    speaks_as: tuple[str, ...] = ()
    """Prefixes of `clientInfo.name`."""
    stdio_type: str = "stdio"
    """The `type` of a server with a command, in entries that have one."""
    names_resource: bool = False
    """Whether `oauth_resource` in an entry says which resource its OAuth is for."""
    proxies_loopback: bool = True
    """Whether HTTPS_PROXY leads its requests to 127.0.0.1 to the proxy, too, unless NO_PROXY names that address."""
    environment: Environment = ALL
    start_s: float = 30.0
    """How long a server may take to start before the client gives up, in seconds."""
    variables: tuple[str, ...] = ()
    """Regular expressions for variables in entries: `name` is the variable, `default` its value if unset."""
    env_variables: tuple[str, ...] | None = None
    """The same for `env`, if it uses other variables."""
    own_variables: tuple[str, ...] = ()
    """Regular expressions for variables whose values only the client knows, such as values that the user enters."""
    misplaced: tuple[str, ...] = ()
    """Files that are mistaken for this client's configuration, but that it does not read; for `Machine.resolve`."""
    starts_in_file_folder: bool = False
    """Whether servers start in the folder of their configuration file, rather than where the client was started."""
    store_package: tuple[str, str] | None = None
    """On Windows, as a package of the Microsoft Store: the folders of such packages, and where the file is in one."""
    locks_with_folder: bool = False
    """Whether its processes lock a file by a folder next to it, `FILE.lock`, while they write."""
    joins_words: bool = False
    """Whether it joins command and arguments with blanks for a shell."""
    splits_command: bool = False
    """Whether it splits a command at its blanks if the entry has no arguments, unless the command is a file."""


def everywhere(*templates: str) -> Mapping[System, tuple[str, ...]]:
    """The same places on all systems."""
    return dict.fromkeys(SYSTEMS, templates)
