"""The files of every client are routed and restored exactly, regardless of what changed them in between."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.clients import folder_lock
from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.client import Client, ConfigFile
from mcpproxy.clients.machine import System
from mcpproxy.clients.probe import Probe
from mcpproxy.clients.wrapper import Wrapper
from tests.examples import examples
from tests.harness import DEADLINE_S, wait_until
from tests.mcpproxy.clients import homes
from tests.mcpproxy.clients.client_home import PROGRAM, WRAPPER, ClientHome, client_of
from tests.rows import row

ROWS = [(client, config) for client in CLIENTS for config in client.files]


ON_SYSTEMS: list[tuple[Client, ConfigFile, System]] = [
    (client, config, system)
    for client, config in ROWS
    for system in ("linux", "macos")
    if system == "linux" or config.places[system] != config.places["linux"]
]
"""Where a file has the same path on both systems, Linux alone is tested."""


@pytest.mark.costly("it routes and restores every file of every client, on two systems")
def test_every_file_is_routed_once_and_restored_to_the_byte(tmp_path: Path) -> None:
    for number, (client, config, system) in enumerate(ON_SYSTEMS):
        with row(client.id, config.scope, system):
            house = ClientHome(tmp_path / str(number), system)
            names = {"files": homes.stdio_entry(client), "far": homes.url_entry(client), "odd": {"neither": 1}}
            path = homes.write(client, config, house.machine, names)
            before, mode = path.read_bytes(), path.stat().st_mode

            changes = house.install(client)
            assert {change.server.name: change.action for change in changes} == {
                "files": "route",
                "far": "route",
                "odd": "skip",
            }
            for server in house.servers(client):
                if server.name == "files":
                    assert server.words == (*WRAPPER.words("files"), *homes.COMMAND)
                elif server.name == "far":
                    assert server.url_member is not None
                    assert server.url_member[1].startswith("http://127.0.0.1:")
                    assert server.url_member[1].endswith("/mcp?key=zoq47")
            middle = path.read_bytes()
            assert {change.action for change in house.install(client)} == {"keep", "skip"}
            assert path.read_bytes() == middle

            house.uninstall(client)
            assert (path.read_bytes(), path.stat().st_mode) == (before, mode)
            assert house.state.listeners == []


def test_every_form_of_a_command_is_routed_and_restored_to_the_byte(tmp_path: Path) -> None:
    for client in CLIENTS:
        with row(client.id):
            house = ClientHome(tmp_path / client.id)
            entries = {f"form{at}": homes.stdio_entry(client, form=form) for at, form in enumerate(client.stdio_forms)}
            path = homes.write(client, client.files[0], house.machine, entries)
            before = path.read_bytes()
            assert {change.action for change in house.install(client)} == {"route"}
            for server in house.servers(client):
                assert server.words == (*WRAPPER.words(server.name), *homes.COMMAND)
            assert {change.action for change in house.install(client)} == {"keep"}
            # New options are put before the existing words; options that are already there are changed in place.
            for machine in ("one", "two"):
                house.wrapper = Wrapper((PROGRAM,), machine=machine)
                assert {change.action for change in house.install(client)} == {"route"}
                for server in house.servers(client):
                    own = (PROGRAM, "run", f"--machine={machine}", *WRAPPER.words(server.name)[2:])
                    assert server.words == (*own, *homes.COMMAND)
            house.state.files[str(path)].after.clear()  # so that it is undone by edits, as if the file had been edited
            house.uninstall(client)
            assert path.read_bytes() == before


def test_without_a_backup_our_words_go_all_the_same(tmp_path: Path) -> None:
    for number, (client, config) in enumerate(ROWS):
        with row(client.id, config.scope):
            house = ClientHome(tmp_path / str(number))
            path = homes.write(client, config, house.machine, {"files": homes.stdio_entry(client)})
            before = path.read_bytes()
            house.install(client)
            house.state.files.clear()
            house.uninstall(client)
            assert path.read_bytes() == before


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "another server": lambda servers: servers.update({"new": {"command": "x"}}),
    "no such server": lambda servers: servers.pop("other"),
    "more arguments": lambda servers: servers["files"]["args"].append("--more"),
    "a variable": lambda servers: servers["files"].update({"env": {"A": "b"}}),
    "another variable": lambda servers: servers.setdefault("other", {}).update({"cwd": "y"}),
}


@pytest.mark.parametrize("has_args", [True, False])
@examples(12)
@given(names=st.lists(st.sampled_from(sorted(EDITS)), unique=True), indent=st.sampled_from([None, 2, "\t"]))
def test_edits_between_survive(tmp_path: Path, has_args: bool, names: list[str], indent: Any) -> None:
    client, house = client_of("claude-code"), ClientHome(tmp_path)
    files = {"command": "npx", "args": ["-y"]} if has_args else {"command": "npx"}
    config = {"mcpServers": {"files": files, "other": {"command": "x", "args": []}}, "theirs": 1}
    path = house.machine.home / ".claude.json"
    path.write_text(json.dumps(config, indent=indent))
    house.install(client)

    def edit(data: dict[str, Any]) -> str:
        for name in names:
            if has_args or name != "more arguments":
                EDITS[name](data["mcpServers"])
        return json.dumps(data, indent=indent)

    path.write_text(edit(json.loads(path.read_text())))
    house.uninstall(client)
    assert json.loads(path.read_text()) == json.loads(edit(json.loads(json.dumps(config))))


def test_a_bridge_is_written_and_taken_away(tmp_path: Path) -> None:
    for client in CLIENTS:
        with row(client.id):
            house = ClientHome(tmp_path / client.id)
            url = "https://example.com/mcp"
            entry = homes.url_entry(client, url) | {"type": "http"}
            path = homes.write(client, client.files[0], house.machine, {"far": entry})
            before = path.read_bytes()
            house.probes = {url: Probe("oauth")}
            assert {change.action for change in house.install(client)} == {"skip"}
            house.ways = ["bridge"]
            house.install(client)
            for server in house.servers(client):
                assert server.words == (*WRAPPER.words("far"), "npx", "-y", "mcp-remote", url)
                assert server.url_member is None
                assert server.entry["type"] == client.stdio_type
            house.state.files[str(path)].after.clear()  # so that it is undone by edits, as if the file had been edited
            house.uninstall(client)
            assert path.read_bytes() == before


def test_the_lock_of_cline_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may do nothing for ten seconds, so the limits are longer here.
    monkeypatch.setattr(folder_lock, "STALE_AGE_S", 10 * DEADLINE_S)
    monkeypatch.setattr(folder_lock, "MAX_WAIT_S", 10 * DEADLINE_S)
    client, house = client_of("cline"), ClientHome(tmp_path)
    path = homes.write(client, client.files[0], house.machine, {"files": homes.stdio_entry(client)})
    lock = path.with_name(f"{path.name}.lock")
    lock.mkdir()
    (lock / "owner.other").touch()
    threads = threading.Thread(target=house.install, args=(client,))
    threads.start()
    wait_until(lambda: list(path.parent.glob("*.lock.tmp.*")))
    assert all(server.wrapped_command is None for server in house.servers(client))
    lock.rename(tmp_path / "gone")  # in one step: an emptied folder would be taken over before it is removed
    threads.join(DEADLINE_S)
    assert all(server.wrapped_command is not None for server in house.servers(client))
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    lock.mkdir()
    (lock / "owner.killed").touch()
    os.utime(lock, (0, 0))
    house.uninstall(client)
    assert all(server.wrapped_command is None for server in house.servers(client))
