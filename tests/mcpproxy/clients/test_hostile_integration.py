"""Files that no client wrote: regardless of their content, a command fails only with a line about them."""

import hashlib
import json
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.installer import CannotChange, apply_plan, file_plans, route_decision, unroute_decision
from mcpproxy.clients.probe import Probe
from mcpproxy.clients.servers import read_inventory
from mcpproxy.clients.state import InstallState
from mcpproxy.clients.wrapper import Wrapper
from mcpproxy.doctor import config_checks
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.clients import homes
from tests.mcpproxy.clients.command_runner import CommandRunner
from tests.rows import row

names = st.sampled_from(
    ["command", "args", "env", "url", "httpUrl", "uri", "serverUrl", "cmd", "transport", "type", "x"]
)
names |= st.sampled_from(["name", "headers", "disabled", "enabled", "cwd", "path", "baseUrl", "oauth_resource"])
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(
        ["npx", "mcpproxy", "run", "--", "http://127.0.0.1:16001/x", "https://[", "http://x:99999/", "${X}", "\x1b[2J"]
    )
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
entries = st.dictionaries(names, values, max_size=6)
maps = values | st.dictionaries(st.text(max_size=6), entries | values, max_size=3) | st.lists(entries, max_size=3)


@given(content=maps, client=st.sampled_from(CLIENTS))
def test_any_value_in_place_of_servers(tmp_path: Path, content: Any, client: Any) -> None:
    config = client.files[0]
    if config.format == "toml":
        return  # TOML has fewer kinds of values, and `tomllib` is its only reader
    machine, state = homes.machine(tmp_path), InstallState(tmp_path / "state")
    path = homes.write(client, config, machine, content)
    before = path.read_bytes()
    found = read_inventory(client, machine)
    for server in found.servers:
        list(config_checks.check_entry(server, machine))
    list(config_checks.check_files(found, machine))
    urls = {server.url_member[1]: Probe("open") for server in found.servers if server.url_member is not None}
    for decide in (route_decision(Wrapper((sys.executable,)), state, urls), unroute_decision(state, is_named=False)):
        for plan in file_plans([read_inventory(client, machine)], decide, lambda _: True):
            try:
                apply_plan(plan, decide, state)
            except CannotChange:
                assert path.read_bytes() == before
    path.unlink()


KINDS = ("folder", "fifo", "loop", "socket", "unreadable", "huge", "deep", "binary", "empty")


def put(path: Path, kind: str) -> None:
    """Make something in place of the file that no client would have written."""
    path.parent.mkdir(parents=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "socket":
        # A socket's path must be short, so the socket is made elsewhere and moved here.
        with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"{short}/s")
            os.rename(f"{short}/s", path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(65 << 20)
    else:
        texts = {"deep": b"[" * 100_000, "binary": bytes(range(256)), "empty": b"", "unreadable": b"{"}
        path.write_bytes(texts[kind])


def test_what_is_no_file_of_text_is_named_and_left(tmp_path: Path, here: CommandRunner) -> None:
    for kind in KINDS:
        home = tmp_path / kind
        put(home / CURSOR, kind)
        for command in (["install", "cursor"], ["uninstall", "cursor"], ["status"], ["doctor", "cursor"]):
            with row(kind, *command):
                said = here(home, *command)
                assert said.code in (0, 1, 2)
                assert kind == "empty" or CURSOR in said.out + said.err


def test_a_command_as_typed_ends_with_a_line_about_such_a_file(tmp_path: Path) -> None:
    """The same as above, in a process of its own."""
    put(tmp_path / CURSOR, "deep")
    done = mcpproxy("install", "cursor", cwd=tmp_path, HOME=str(tmp_path))
    assert done.returncode in (0, 1, 2)
    assert b"Traceback" not in done.stderr
    assert CURSOR.encode() in done.stdout + done.stderr


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
GOOSE, CODEX, CURSOR = ".config/goose/config.yaml", ".codex/config.toml", ".cursor/mcp.json"
ENTRIES = "extensions:\n  a: {cmd: cat, args: [x]}\n"
ODD_FILES = {
    "digits": (CURSOR, f'{{"n": {"1" * 6000}, "mcpServers": {{"a": {{"command": "cat"}}}}}}', "too many digits"),
    "digits in TOML": (CODEX, f"n = {'1' * 6000}\n[mcp_servers.a]\ncommand = 'cat'\n", "digits"),
    "an alias of itself": (GOOSE, f"z: &a [*a]\n{ENTRIES}", "an alias refers to its own container"),
    "an alias of the servers": (GOOSE, "extensions: &e\n  a: {cmd: cat, args: [x], x: *e}\n", "an alias refers to"),
    "aliases for billions": (GOOSE, LAUGHS + ENTRIES, "its aliases stand for more than 1,000,000 values"),
    "much YAML": (GOOSE, ENTRIES + "# comment\n" * 200_000, "larger than 1 MiB"),
    "much TOML": (CODEX, "[mcp_servers.a]\ncommand = 'cat'\n" + "# comment\n" * 200_000, "larger than 1 MiB"),
}


def test_what_cannot_be_read_is_named_at_once(tmp_path: Path, here: CommandRunner) -> None:
    for number, (kind, (name, text, reason)) in enumerate(ODD_FILES.items()):
        home = tmp_path / str(number)
        path = home / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        for command in (["install", "--all"], ["uninstall", "--all"], ["status"], ["doctor"]):
            with row(kind, *command):
                said = here(home, *command)
                assert said.code == (1 if command[0] == "doctor" else 2)
                assert reason in " ".join((said.out + said.err).split())
        assert path.read_text() == text, kind


def test_names_that_are_no_text(tmp_path: Path, here: CommandRunner) -> None:
    path = tmp_path / GOOSE
    path.parent.mkdir(parents=True)
    path.write_text(
        "extensions:\n  2020-01-01: {cmd: cat, 5: 1, args: [x]}\n  7: {cmd: cat}\n  8: {uri: 'http://x', 9: 1}\n"
    )
    before = path.read_bytes()
    for command, word in (("install", "routed"), ("status", "yes"), ("uninstall", "restored")):
        said = here(tmp_path, command, "goose")
        assert (said.code, said.err) == (0, ""), command
        assert said.out.count(word) >= 2
    assert path.read_bytes() == before


LISTENERS: list[dict[str, Any]] = [
    {"name": "\x1b[2J/../x", "port": "80", "upstream": "file:///etc/passwd"},
    {"name": "x", "port": -1, "upstream": "http://127.0.0.1", "users": ["y"]},
    {"name": "x", "port": 10**9, "upstream": 3, "users": 4},
    {"name": "../../x", "port": 16001, "upstream": "http://127.0.0.1:1", "users": ["y"], "capture": "/"},
]
STATES = ["", "[]", "null", "{", '{"files": [], "listeners": {}}', '{"files": {"/x": {"base": 1}}, "listeners": []}']
WRITTEN: dict[str, Any] = {"base": "x", "backup": "b", "after": ["DIGEST"], "at_s": 0, "added": [], "bridged": {}}
ODD: dict[str, list[Any]] = {
    "base": [1, None],
    "backup": [1, None, "../../../../../../../../dev/zero", "\0", "", "fifo"],
    "after": [1, None, [["x"]], {"x": 1}],
    "at_s": ["x", None, 1e999, [1]],
    "added": [1, None, [["x"]]],
    "bridged": [1, [1], {'["mcpServers", "a"]': {}}, {'["mcpServers", "a"]': {"url": "npx", "member": [], "type": 3}}],
}
STATES += ["[" * 100_000]
STATES += [
    json.dumps({"files": {"FILE": {**WRITTEN, name: odd}}, "listeners": []})
    for name, odds in ODD.items()
    for odd in odds
]
STATES += [json.dumps({"files": {}, "listeners": [one]}) for one in LISTENERS]


def test_a_state_that_we_did_not_write(tmp_path: Path, here: CommandRunner) -> None:
    for number, state in enumerate(STATES):
        with row(state[:200]):
            home = tmp_path / str(number)
            folder = home / ".local/state/mcpproxy"
            (folder / "backups").mkdir(parents=True)
            os.mkfifo(folder / "backups/fifo")
            path = home / CURSOR
            path.parent.mkdir()
            path.write_text('{"mcpServers": {"a": {"command": "npx"}}}')
            before = path.read_bytes()
            known = state.replace("FILE", str(path)).replace("DIGEST", hashlib.sha256(before).hexdigest())
            (folder / "install.json").write_text(known)
            for command in ("status", "install", "uninstall"):
                said = here(home, command, "cursor")
                assert (said.code, said.err) == (0, ""), command
            assert path.read_bytes() == before
