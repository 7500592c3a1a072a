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
    heard: bool = True
    calls: str = ""
    """The tool that it calls, with a model at loopback."""
    rewrites: bool = False
    """Whether the client writes to its file while it runs."""
    slow: bool = False


def hosts() -> list[Host]:
    """All rows, in their order."""
    rows: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("hosts.toml").read_text())["host"]
    return [Host(**row | {"packages": tuple(row["packages"]), "command": tuple(row["command"])}) for row in rows]
