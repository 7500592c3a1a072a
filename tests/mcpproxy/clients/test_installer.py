"""Every client's files are routed and restored exactly, regardless of what changed them in between."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.changes import Change
from mcpproxy.clients.command_line import command_words
from mcpproxy.clients.effective import effective_servers
from mcpproxy.clients.installer import CannotChange, apply_plan, file_plans, route_decision
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.probe import Probe
from mcpproxy.clients.servers import Server, read_inventory
from mcpproxy.clients.wrapper import KEEP_SERVING_OPTION, Wrapper, is_recorder, wrapped_command_of
from tests.mcpproxy.clients import homes
from tests.mcpproxy.clients.client_home import PROGRAM, WRAPPER, ClientHome, client_of


def test_a_command_line_that_its_client_splits_is_left_alone(tmp_path: Path) -> None:
    client, house = client_of("mcporter"), ClientHome(tmp_path)
    whole = tmp_path / ".mcporter/my server"
    entries: dict[str, dict[str, Any]] = {
        "line": {"command": "npx -y 'a b'"},
        "empty": {"command": "npx -y", "args": []},
        "routed": {"command": f"{PROGRAM} run -- npx -y"},
        "words": {"command": "npx -y", "args": ["a"]},
        "word": {"command": "npx"},
        "file": {"command": str(whole)},
    }
    path = homes.write(client, client.files[0], house.machine, entries)
    whole.touch()
    before = path.read_bytes()
    words = {server.name: server.words for server in house.servers(client)}
    assert words["line"] == ("npx", "-y", "a b")
    assert words["empty"] == ("npx", "-y")
    assert (words["words"], words["file"]) == (("npx -y", "a"), (str(whole),))
    changes = {change.server.name: change for change in house.install(client)}
    for name in ("line", "empty", "routed"):
        assert changes[name].action == "skip", name
        assert "its command contains its arguments; write them into args first" in changes[name].reason
    for name in ("words", "word", "file"):
        assert changes[name].action == "route", name
    house.uninstall(client)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("npx", ("npx",)),
        ("  npx  -y\tx ", ("npx", "-y\tx")),
        ("a 'b \"c' \"d 'e\"", ("a", 'b "c', "d 'e")),
        ("a\\ b 'c\\'d", ("a b", "c'd")),
        ("a\\", ("a\\",)),
        ("'' ' '", (" ",)),
        (" ", (" ",)),
        ("/no/such file", ("/no/such", "file")),
    ],
)
def test_a_command_line_is_split_as_mcporter_splits_it(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    assert command_words(text, tmp_path) == words


def test_one_server_of_two_is_restored(tmp_path: Path) -> None:
    client, house = client_of("cursor"), ClientHome(tmp_path)
    names = {"a": homes.stdio_entry(client), "b": homes.stdio_entry(client)}
    path = homes.write(client, client.files[0], house.machine, names)
    before = path.read_bytes()
    house.install(client)
    house.uninstall(client, lambda server: server.name == "a")
    assert [server.wrapped_command is not None for server in house.servers(client)] == [False, True]
    house.uninstall(client)
    assert path.read_bytes() == before


def test_a_file_that_changes_while_it_is_written_is_planned_again(tmp_path: Path) -> None:
    """The client saves the file between mcpproxy's read and its write; both changes must be in the file afterwards."""
    client, house = client_of("claude-code"), ClientHome(tmp_path)
    path = homes.write(client, client.files[1], house.machine, {"files": homes.stdio_entry(client)})
    route = route_decision(WRAPPER, house.state, {})
    (plan,) = file_plans([read_inventory(client, house.machine)], route, lambda _: True)
    saves = iter(range(3))

    def decide(server: Server) -> Change:
        number = next(saves, None)
        if number is not None:
            path.write_text(json.dumps(json.loads(path.read_text()) | {"numStartups": number}))
        return route(server)

    apply_plan(plan, decide, house.state)
    assert json.loads(path.read_text())["numStartups"] == 2
    assert all(server.wrapped_command is not None for server in house.servers(client))


def test_a_file_that_never_rests_is_left_alone(tmp_path: Path) -> None:
    client, house = client_of("claude-code"), ClientHome(tmp_path)
    path = homes.write(client, client.files[1], house.machine, {"files": homes.stdio_entry(client)})
    route = route_decision(WRAPPER, house.state, {})
    (plan,) = file_plans([read_inventory(client, house.machine)], route, lambda _: True)

    def decide(server: Server) -> Change:
        path.write_bytes(path.read_bytes() + b" ")
        return route(server)

    with pytest.raises(CannotChange, match="kept changing it"):
        apply_plan(plan, decide, house.state)
    assert all(server.wrapped_command is None for server in house.servers(client))


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
            found = wrapped_command_of((*front, *dashes, *inner))
            assert found is not None, front
            assert (found.server_command, found.prefix_length) == (inner, len(front) + len(dashes)), front
    for words in (inner, ("npx", "mcpproxy-like", "run"), ("mcpproxy", "serve", "https://x"), ("run",), ()):
        assert wrapped_command_of(words) is None


def test_a_recorder_is_told_from_a_program_that_was_given_its_command() -> None:
    run = ("run", "--name", "x", "--", "npx", "x")
    for front in (
        ("mcpproxy",),
        ("/opt/bin/python3.13t", "-P", "-m", "mcpproxy"),
        ("/usr/bin/python3", "-X", "dev", "-W", "error", "/opt/bin/mcpproxy"),
        ("pypy3", "/opt/bin/mcpproxy"),
    ):
        assert is_recorder((*front, *run)), front
    for launcher in (
        ("timeout", "30", "mcpproxy"),
        ("strace", "/opt/bin/mcpproxy"),
        ("node", "inspector.js", "/usr/bin/python3", "-m", "mcpproxy"),
        ("timeout", "30", "python3", "-P", "-m", "mcpproxy"),
        ("python3", "client.py", "mcpproxy"),
        ("python3", "-m", "client", "mcpproxy"),
        ("python3", "-m", "client", "python3", "-m", "mcpproxy"),
        ("uvx", "mcpproxy"),
    ):
        assert not is_recorder((*launcher, *run)), launcher
    for words in ((), ("run",), ("mcpproxy", "serve", "https://x"), ("python3", "x.py")):
        assert not is_recorder(words), words


def test_an_installation_that_is_gone_is_replaced(tmp_path: Path) -> None:
    client, house = client_of("cursor"), ClientHome(tmp_path)
    entry = {"command": str(tmp_path / "gone/mcpproxy"), "args": ["run", "--name", "files", "--", "npx"]}
    path = homes.write(client, client.files[0], house.machine, {"files": entry})
    house.install(client)
    (server,) = house.servers(client)
    assert server.words == (PROGRAM, "run", "--name", "files", "--", "npx")
    house.uninstall(client)
    assert house.servers(client)[0].words == ("npx",)
    assert path.read_bytes().endswith(b"}\n")


def test_codex_is_told_the_resource(tmp_path: Path) -> None:
    client, house = client_of("codex"), ClientHome(tmp_path)
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
    client, house = client_of("cursor"), ClientHome(tmp_path)
    homes.write(client, client.files[0], house.machine, {"far": {"url": homes.URL, **entry}})
    house.probes = {homes.URL: probe}
    (change,) = house.install(client)
    assert change.action == ("skip" if reason else "route")
    assert reason in change.reason


@pytest.mark.parametrize(
    "url", ["unix:///tmp/x", "https://you:secret@example.com/", "https://${HOST}/mcp", "https://[", "http://x:y/"]
)
def test_what_no_listener_can_stand_in_front_of_is_left_alone(tmp_path: Path, url: str) -> None:
    client, house = client_of("vscode"), ClientHome(tmp_path)
    path = homes.write(client, client.files[0], house.machine, {"far": {"url": url}})
    before = path.read_bytes()
    house.probes = {url: Probe("open")}
    (change,) = house.install(client)
    assert change.action == "skip"
    assert "secret" not in change.reason
    assert path.read_bytes() == before


def test_one_listener_serves_the_same_server_of_two_clients(tmp_path: Path) -> None:
    house = ClientHome(tmp_path)
    both = [client_of("cursor"), client_of("vscode")]
    for client in both:
        homes.write(client, client.files[0], house.machine, {"far": {"url": homes.URL}})
        house.install(client)
    (listener,) = house.state.listeners
    assert len(listener.users) == 2
    assert listener.upstream == "https://example.com"
    assert "zoq47" not in (tmp_path / "state/install.json").read_text()
    house.uninstall(both[0])
    assert len(house.state.listeners) == 1
    house.uninstall(both[1])
    assert house.state.listeners == []


def test_no_word_of_ours_is_changed_by_a_shell(tmp_path: Path) -> None:
    client, house = client_of("auggie"), ClientHome(tmp_path)
    homes.write(client, client.files[0], house.machine, {'my "server"; rm $HOME': homes.stdio_entry(client)})
    house.install(client)
    (server,) = house.servers(client)
    assert server.words[1:6] == ("run", "--name", "my-server-rm-HOME", KEEP_SERVING_OPTION, "--")
    spaced = Wrapper(("/Users/J Doe/bin/mcpproxy",))
    change = route_decision(spaced, house.state, {})(ClientHome(tmp_path).servers(client)[0])
    assert change.action == "keep"
    house.uninstall(client)
    assert route_decision(spaced, house.state, {})(house.servers(client)[0]).action == "skip"


def test_both_shapes_of_opencode(tmp_path: Path) -> None:
    client, house = client_of("opencode"), ClientHome(tmp_path)
    path = tmp_path / ".config/opencode/opencode.jsonc"
    path.parent.mkdir(parents=True)
    server = {"type": "local", "command": ["npx", "x"]}
    for config in ({"mcp": {"servers": {"a": server}}}, {"mcp": {"servers": server, "a": server}}):
        path.write_text(json.dumps(config))
        before = path.read_bytes()
        names = {"a"} if "command" not in config["mcp"]["servers"] else {"a", "servers"}
        assert {server.name for server in house.servers(client)} == names
        house.install(client)
        assert all(server.wrapped_command is not None for server in house.servers(client))
        house.uninstall(client)
        assert path.read_bytes() == before


def test_project_files_from_the_root_of_the_repository_down(tmp_path: Path) -> None:
    client, house = client_of("codex"), ClientHome(tmp_path)
    inner = house.machine.directory / "a/b"
    inner.mkdir(parents=True)
    for folder in (house.machine.directory, inner):
        (folder / ".codex").mkdir()
        (folder / ".codex/config.toml").write_text(f'[mcp_servers.x]\ncommand = "{folder.name}"\n')
    machine = Machine("linux", tmp_path, {}, inner)
    servers = read_inventory(client, machine).servers
    assert [server.words for server in servers] == [("project",), ("b",)]
    used = effective_servers(servers, machine)
    assert {used[id(server)].words for server in servers} == {("b",)}
