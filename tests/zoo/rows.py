"""The animals of the zoo: the rows of servers.toml and clients.toml.

A row specifies the packages and versions that an animal needs, how it is started and what may be called. Placeholders
in braces are filled in when it is started.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

HERE = Path(__file__).parent

Registry = Literal["npm", "pypi"]
Transport = Literal["stdio", "http", "sse"]


@dataclass(frozen=True)
class Animal:
    """A server or a client from a registry."""

    name: str
    registry: Registry
    packages: tuple[str, ...]
    """Each package with its version, in the form that the registry's tool accepts."""
    command: tuple[str, ...]
    transport: Transport = "stdio"
    path: str = ""
    """The path of a server's URL."""
    prepare: tuple[tuple[str, ...], ...] = ()
    """Commands to run before each start."""
    call: Mapping[str, Any] | None = None
    """The `params` of its only `tools/call`; None if every tool needs the network."""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Path relative to its working directory → text: a client's configuration."""
    slow: bool = False
    """Whether it is a host that is started only with `HOSTS=all`."""


def read(kind: Literal["server", "client"], text: str | None = None) -> list[Animal]:
    """The rows of one kind, in order.

    Args:
        kind: which file to read.
        text: replaces the content of the file.

    Raises:
        ValueError: two rows have the same name, or a row has an unknown member.
    """
    rows = tomllib.loads((HERE / f"{kind}s.toml").read_text() if text is None else text)[kind]
    animals = [_animal(row) for row in rows]
    names = [animal.name for animal in animals]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two rows have the name {min(twice)}")
    return animals


def _animal(row: dict[str, Any]) -> Animal:
    if unknown := row.keys() - Animal.__dataclass_fields__.keys():
        raise ValueError(f"{row.get('name')}: no member is called {min(unknown)}")
    row["packages"], row["command"] = tuple(row["packages"]), tuple(row["command"])
    row["prepare"] = tuple(tuple(command) for command in row.get("prepare", ()))
    return Animal(**row)


def filled(value: Any, places: Mapping[str, str]) -> Any:
    """A value with all its placeholders filled in, at any depth; other text in braces stays as it is."""
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace("{" + name + "}", place)
        return value
    if isinstance(value, Mapping):
        return {cast("str", filled(key, places)): filled(member, places) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [filled(member, places) for member in value]
    return value
