"""The rows of hosts.toml: real clients whose servers are routed, started and restored."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.zoo.rows import Registry


@dataclass(frozen=True)
class Host:
    """One real client."""

    name: str
    client: str
    registry: Registry
    packages: tuple[str, ...]
    file: str
    text: str
    command: tuple[str, ...]
    shows: str
    environment: Mapping[str, str] = field(default_factory=dict)
    speaks: str = ""
    """The name that it sends in `clientInfo.name`; empty if the command only reads the file back."""
    calls: str = ""
    """The tool that it calls, with a model on loopback."""
    rewrites: bool = False
    """Whether the client writes to its file while it runs."""
    slow: bool = False
    scope: str = "user"
    beside: Mapping[str, str] = field(default_factory=dict)
    """Other files that it needs, as paths relative to the home directory."""
    approves: tuple[str, ...] = ()
    """The command that approves the server as currently configured."""
    varies: str = ""
    """A regular expression for the parts of its output that differ between runs."""

    @property
    def id(self) -> str:
        """Its name in the test ids."""
        return self.name if self.scope == "user" else f"{self.name}-{self.scope}"


def hosts() -> list[Host]:
    """All rows in order, and a second one for each client that also has a project file."""
    rows: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("hosts.toml").read_text())["host"]
    found: list[Host] = []
    for row in rows:
        project = row.pop("project", None)
        found.append(Host(**_tuples(row)))
        if project is not None:
            found.append(Host(**_tuples(row | {"scope": "project", "rewrites": False} | project)))
    return found


def _tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
