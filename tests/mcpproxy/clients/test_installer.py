"""Every client's files are routed and restored exactly, whatever was done to them meanwhile."""

import json
import os
import shutil
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpproxy.clients.catalogue import CLIENTS, by_id
from mcpproxy.clients.changes import Change
from mcpproxy.clients.client import Client, ConfigFile
from mcpproxy.clients.effective import effective
from mcpproxy.clients.installer import Refused, Way, carry_out, is_routed, plans, routing, unrouting
from mcpproxy.clients.machine import Machine, System
from mcpproxy.clients.probe import Probe
from mcpproxy.clients.servers import Server, find
from mcpproxy.clients.state import State
from mcpproxy.clients.wrapper import Wrapper, routed
from tests.harness import wait_until
from tests.mcpproxy.clients import homes

PROGRAM = str(Path(sysconfig.get_path("scripts"), "mcpproxy"))
WRAPPER = Wrapper((PROGRAM,))
ROWS = [(client, config) for client in CLIENTS for config in client.files]


def ids(row: object) -> str:
    return row.id if isinstance(row, Client) else row.scope if isinstance(row, ConfigFile) else str(row)


class House:
    """One home, and what is done to its files."""

    def __init__(self, home: Path, system: System = "linux") -> None:
        self.machine: Machine = homes.machine(home, system)
        self.state = State(home / "state")
        self.probes = {homes.URL: Probe("open")}
        self.ways: list[Way] = []

    def servers(self, client: Client) -> list[Server]:
        return find(client, self.machine).servers

    def _all(
        self, client: Client, decide: Callable[[Server], Change], wanted: Callable[[Server], bool]
    ) -> list[Change]:
        planned = plans([find(client, self.machine)], decide, wanted)
        return [change for plan in planned for change in carry_out(plan, decide, self.state)]

    def install(self, client: Client, wanted: Callable[[Server], bool] = lambda _: True) -> list[Change]:
        return self._all(client, routing(WRAPPER, self.state, self.probes, self.ways), wanted)

    def uninstall(self, client: Client, wanted: Callable[[Server], bool] = lambda _: True) -> list[Change]:
        chosen = lambda server: is_routed(server, self.state) and wanted(server)  # noqa: E731
        return self._all(client, unrouting(self.state), chosen)


def client_of(name: str) -> Client:
    client = by_id(name)
    assert client is not None
    return client


@pytest.mark.parametrize("system", ["linux", "macos"])
@pytest.mark.parametrize(("client", "config"), ROWS, ids=ids)
def test_every_file_is_routed_once_and_restored_to_the_byte(
    tmp_path: Path, client: Client, config: ConfigFile, system: System
) -> None:
    house = House(tmp_path, system)
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
            assert server.url is not None
            assert server.url[1].startswith("http://127.0.0.1:")
            assert server.url[1].endswith("/mcp?key=abc")
    middle = path.read_bytes()
    assert {change.action for change in house.install(client)} == {"keep", "skip"}
    assert path.read_bytes() == middle

    house.uninstall(client)
    assert (path.read_bytes(), path.stat().st_mode) == (before, mode)
    assert house.state.listeners == []


@pytest.mark.parametrize(("client", "config"), ROWS, ids=ids)
def test_without_a_backup_our_words_go_all_the_same(tmp_path: Path, client: Client, config: ConfigFile) -> None:
    house = House(tmp_path)
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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.sampled_from(sorted(EDITS)), unique=True), indent=st.sampled_from([None, 2, "\t"]))
def test_edits_between_survive(tmp_path: Path, has_args: bool, names: list[str], indent: Any) -> None:
    client, house = client_of("claude-code"), House(tmp_path)
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


def test_one_server_of_two_is_restored(tmp_path: Path) -> None:
    client, house = client_of("cursor"), House(tmp_path)
    names = {"a": homes.stdio_entry(client), "b": homes.stdio_entry(client)}
    path = homes.write(client, client.files[0], house.machine, names)
    before = path.read_bytes()
    house.install(client)
    house.uninstall(client, lambda server: server.name == "a")
    assert [server.routed is not None for server in house.servers(client)] == [False, True]
    house.uninstall(client)
    assert path.read_bytes() == before


def test_a_file_that_changes_while_it_is_written_is_planned_anew(tmp_path: Path) -> None:
    """The client saves between our reading and our writing; both changes must be there afterwards."""
    client, house = client_of("claude-code"), House(tmp_path)
    path = homes.write(client, client.files[1], house.machine, {"files": homes.stdio_entry(client)})
    route = routing(WRAPPER, house.state, {})
    (plan,) = plans([find(client, house.machine)], route, lambda _: True)
    saves = iter(range(3))

    def decide(server: Server) -> Change:
        number = next(saves, None)
        if number is not None:
            path.write_text(json.dumps(json.loads(path.read_text()) | {"numStartups": number}))
        return route(server)

    carry_out(plan, decide, house.state)
    assert json.loads(path.read_text())["numStartups"] == 2
    assert all(server.routed is not None for server in house.servers(client))


def test_a_file_that_never_rests_is_left_alone(tmp_path: Path) -> None:
    client, house = client_of("claude-code"), House(tmp_path)
    path = homes.write(client, client.files[1], house.machine, {"files": homes.stdio_entry(client)})
    route = routing(WRAPPER, house.state, {})
    (plan,) = plans([find(client, house.machine)], route, lambda _: True)

    def decide(server: Server) -> Change:
        path.write_bytes(path.read_bytes() + b" ")
        return route(server)

    with pytest.raises(Refused, match="kept changing it"):
        carry_out(plan, decide, house.state)
    assert all(server.routed is None for server in house.servers(client))


def test_our_words_are_recognised_whoever_wrote_them() -> None:
    inner = ("npx", "-y", "x")
    for front in (
        ("/old/bin/mcpproxy", "run"),
        ("mcpproxy", "run", "--name", "x", "--capture=/y/"),
        ("C:\\Tools\\mcpproxy.exe", "run", "--summary"),
        ("/usr/bin/python3", "-P", "-m", "mcpproxy", "run", "--fsync", "never"),
        ("uvx", "--from", ".", "mcpproxy", "run"),
        ("uvx", "mcpproxy==9.9", "run"),
    ):
        for dashes in ((), ("--",)):
            found = routed((*front, *dashes, *inner))
            assert found is not None, front
            assert (found.inner, found.count) == (inner, len(front) + len(dashes)), front
    for words in (inner, ("npx", "mcpproxy-like", "run"), ("mcpproxy", "serve", "https://x"), ("run",), ()):
        assert routed(words) is None


def test_an_installation_that_is_gone_is_replaced(tmp_path: Path) -> None:
    client, house = client_of("cursor"), House(tmp_path)
    entry = {"command": str(tmp_path / "gone/mcpproxy"), "args": ["run", "--name", "files", "--", "npx"]}
    path = homes.write(client, client.files[0], house.machine, {"files": entry})
    house.install(client)
    (server,) = house.servers(client)
    assert server.words == (PROGRAM, "run", "--name", "files", "--", "npx")
    house.uninstall(client)
    assert house.servers(client)[0].words == ("npx",)
    assert path.read_bytes().endswith(b"}\n")


@pytest.mark.parametrize("client", CLIENTS, ids=ids)
def test_a_bridge_is_written_and_taken_away(tmp_path: Path, client: Client) -> None:
    house = House(tmp_path)
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
        assert server.url is None
        assert server.entry["type"] == client.stdio_type
    house.state.files[str(path)].after.clear()  # so that it is undone by edits, as in a file that was edited
    house.uninstall(client)
    assert path.read_bytes() == before


def test_codex_is_told_the_resource(tmp_path: Path) -> None:
    client, house = client_of("codex"), House(tmp_path)
    path = homes.write(client, client.files[0], house.machine, {"far": {"url": homes.URL}})
    before = path.read_bytes()
    house.probes, house.ways = {homes.URL: Probe("oauth")}, ["oauth-resource"]
    house.install(client)
    (server,) = house.servers(client)
    assert server.entry["oauth_resource"] == homes.URL
    assert server.entry["url"].startswith("http://127.0.0.1:")
    house.state.files[str(path)].after.clear()
    house.uninstall(client)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("entry", "probe", "reason"),
    [
        ({}, Probe("oauth"), "needs OAuth; use --bridge"),
        ({}, Probe("denied"), "requires credentials"),
        ({}, Probe("redirect", "other.example"), "redirects to other.example"),
        ({"headers": {"Authorization": "x"}}, Probe("unreachable", "Connection refused"), "cannot be reached"),
        ({"headers": {"Authorization": "x"}}, Probe("oauth"), ""),
        ({"headers": {}}, Probe("open"), ""),
    ],
    ids=str,
)
def test_what_a_probe_says_decides(tmp_path: Path, entry: dict[str, Any], probe: Probe, reason: str) -> None:
    client, house = client_of("cursor"), House(tmp_path)
    homes.write(client, client.files[0], house.machine, {"far": {"url": homes.URL, **entry}})
    house.probes = {homes.URL: probe}
    (change,) = house.install(client)
    assert change.action == ("skip" if reason else "route")
    assert reason in change.reason


@pytest.mark.parametrize(
    "url", ["unix:///tmp/x", "https://you:secret@example.com/", "https://${HOST}/mcp", "https://[", "http://x:y/"]
)
def test_what_no_listener_can_stand_in_front_of_is_left_alone(tmp_path: Path, url: str) -> None:
    client, house = client_of("vscode"), House(tmp_path)
    path = homes.write(client, client.files[0], house.machine, {"far": {"url": url}})
    before = path.read_bytes()
    house.probes = {url: Probe("open")}
    (change,) = house.install(client)
    assert change.action == "skip"
    assert "secret" not in change.reason
    assert path.read_bytes() == before


def test_one_listener_serves_the_same_server_of_two_clients(tmp_path: Path) -> None:
    house = House(tmp_path)
    both = [client_of("cursor"), client_of("vscode")]
    for client in both:
        homes.write(client, client.files[0], house.machine, {"far": {"url": homes.URL}})
        house.install(client)
    (listener,) = house.state.listeners
    assert len(listener.users) == 2
    assert listener.upstream == "https://example.com"
    assert "abc" not in (tmp_path / "state/install.json").read_text()
    house.uninstall(both[0])
    assert len(house.state.listeners) == 1
    house.uninstall(both[1])
    assert house.state.listeners == []


def test_no_word_of_ours_is_changed_by_a_shell(tmp_path: Path) -> None:
    client, house = client_of("auggie"), House(tmp_path)
    homes.write(client, client.files[0], house.machine, {'my "server"; rm $HOME': homes.stdio_entry(client)})
    house.install(client)
    (server,) = house.servers(client)
    assert server.words[1:5] == ("run", "--name", "my-server-rm-HOME", "--")
    spaced = Wrapper(("/Users/J Doe/bin/mcpproxy",))
    change = routing(spaced, house.state, {})(House(tmp_path).servers(client)[0])
    assert change.action == "keep"
    house.uninstall(client)
    assert routing(spaced, house.state, {})(house.servers(client)[0]).action == "skip"


def test_both_shapes_of_opencode(tmp_path: Path) -> None:
    client, house = client_of("opencode"), House(tmp_path)
    path = tmp_path / ".config/opencode/opencode.jsonc"
    path.parent.mkdir(parents=True)
    server = {"type": "local", "command": ["npx", "x"]}
    for config in ({"mcp": {"servers": {"a": server}}}, {"mcp": {"servers": server, "a": server}}):
        path.write_text(json.dumps(config))
        before = path.read_bytes()
        names = {"a"} if "command" not in config["mcp"]["servers"] else {"a", "servers"}
        assert {server.name for server in house.servers(client)} == names
        house.install(client)
        assert all(server.routed is not None for server in house.servers(client))
        house.uninstall(client)
        assert path.read_bytes() == before


def test_project_files_from_the_root_of_the_repository_down(tmp_path: Path) -> None:
    client, house = client_of("codex"), House(tmp_path)
    inner = house.machine.directory / "a/b"
    inner.mkdir(parents=True)
    for folder in (house.machine.directory, inner):
        (folder / ".codex").mkdir()
        (folder / ".codex/config.toml").write_text(f'[mcp_servers.x]\ncommand = "{folder.name}"\n')
    machine = Machine("linux", tmp_path, {}, inner)
    servers = find(client, machine).servers
    assert [server.words for server in servers] == [("project",), ("b",)]
    used = effective(servers, machine)
    assert {used[id(server)].words for server in servers} == {("b",)}


def test_the_lock_of_cline_is_waited_for(tmp_path: Path) -> None:
    client, house = client_of("cline"), House(tmp_path)
    path = homes.write(client, client.files[0], house.machine, {"files": homes.stdio_entry(client)})
    lock = path.with_name(f"{path.name}.lock")
    lock.mkdir()
    (lock / "owner.other").touch()
    threads = threading.Thread(target=house.install, args=(client,))
    threads.start()
    wait_until(lambda: list(path.parent.glob("*.lock.tmp.*")))
    assert all(server.routed is None for server in house.servers(client))
    shutil.rmtree(lock)
    threads.join(60)
    assert all(server.routed is not None for server in house.servers(client))
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    lock.mkdir()
    (lock / "owner.killed").touch()
    os.utime(lock, (0, 0))
    house.uninstall(client)
    assert all(server.routed is None for server in house.servers(client))
