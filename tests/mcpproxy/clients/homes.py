"""Made-up homes: a configuration file of every client, as that client would write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tomlkit
import yaml

from mcpproxy.clients.client import Client, ConfigFile, StdioForm
from mcpproxy.clients.machine import Machine, System

COMMAND = ("npx", "-y", "@example/server", "--root", "/home/you/my notes", "${HOME}")
URL = "https://example.com/mcp?key=zoq47"


def nested(place: tuple[str | int, ...], value: Any) -> Any:
    """Returns a value inside nested maps with these names."""
    for key in reversed(place):
        value = {key: value}
    return value


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Returns two maps merged into one; inner maps are merged likewise."""
    return one | {
        name: merged(one[name], value) if isinstance(one.get(name), dict) and isinstance(value, dict) else value
        for name, value in other.items()
    }


def stdio_entry(client: Client, command: tuple[str, ...] = COMMAND, form: StdioForm | None = None) -> dict[str, Any]:
    """Returns an entry with a command, by default in the client's first form."""
    form = form or client.stdio_forms[0]
    if form.args is None:
        return merged({"type": "local", "enabled": True}, nested(form.command, list(command)))
    entry = merged(nested(form.command, command[0]), nested(form.args, list(command[1:])))
    return entry | {"env": {"KEY": "${env:KEY}"}, "unknown": [1, {"deep": None}] if client.id != "codex" else [1]}


def url_entry(client: Client, url: str = URL) -> dict[str, Any]:
    """Returns an entry with a URL."""
    return nested(client.url_members[0], url)  # type: ignore[no-any-return]


def text_of(client: Client, config: ConfigFile, servers: dict[str, dict[str, Any]]) -> str:
    """Returns the text of a file that has these servers in each of its maps."""
    data: dict[str, Any] = {"theirs": {"x": "y"}}
    for pattern in config.server_maps:
        place = tuple("/home/you/project" if key == "*" else key for key in pattern)
        data = merged(data, nested(place, servers))
    if config.format == "toml":
        return "# mine\n" + tomlkit.dumps(data)
    if config.format == "yaml":
        return "# mine\n" + yaml.safe_dump(data, sort_keys=False)
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return f"// mine\n{text}\n" if config.format == "jsonc" else text


def write(client: Client, config: ConfigFile, machine: Machine, servers: dict[str, dict[str, Any]]) -> Path:
    """Write the file where the client looks first."""
    place = config.places[machine.system][0].replace("*", "x")
    (path,) = machine.paths_of(place, client.overrides)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text_of(client, config, servers).encode())
    return path


def machine(home: Path, system: System = "linux", **environment: str) -> Machine:
    """Returns a machine with this home and a project in it."""
    project = home / "project"
    (project / ".git").mkdir(parents=True, exist_ok=True)
    return Machine(system, home, environment, project)
