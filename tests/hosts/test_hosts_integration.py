"""Real clients: after `install`, they start servers through the recorder; `uninstall` restores their file.

Apart from the server command, their output is the same. Each has a HOME of its own and, where the system allows it, a
network with only loopback.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from captures.verdict import Direction
from mcpproxy.clients.catalogue import client_by_id
from tests.fetch import fetched
from tests.harness import frames, members_of, wait_until
from tests.hosts.rows import Host, hosts
from tests.mcpproxy.cli.typed import mcpproxy
from tests.zoo.alone import leave_the_network
from tests.zoo.install import bin_of, node, node_packages

ROOT = Path(__file__).parents[2]
RUN_S = 120
MODEL_PORT = 47115
"""Every port is free, because each client has its own network namespace."""
DEAR = pytest.mark.costly("a real client starts twice, and its server with it")
ROWS = [pytest.param(host, id=host.id, marks=[pytest.mark.hosts, DEAR] if host.slow else [DEAR]) for host in hosts()]


class HostHome:
    """The home directory of one client."""

    def __init__(self, host: Host, home: Path) -> None:
        """Write the client's configuration, which contains the bundled server."""
        self.host, self.home = host, home
        programs = bin_of(host.registry, fetched(host.registry, host.packages))
        self.places = {"bin": str(programs), "home": str(home), "server": str(home / "server")}
        self.places["model"] = f"http://127.0.0.1:{MODEL_PORT}/v1"
        path = [str(programs), *(own_node() if host.registry == "npm" else []), os.environ["PATH"]]
        self.environment = {"HOME": str(home), "PATH": ":".join(path), "USER": "you", **host.environment}
        server = home / "server"
        server.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -P -m mcpproxy.demo.server "$@"\n')
        server.chmod(0o755)
        (home / "work").mkdir()
        self.file = home / host.file
        for name, text in {**host.beside, host.file: host.text}.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(self.filled(text))

    def filled(self, text: str) -> str:
        for name, value in self.places.items():
            text = text.replace("{" + name + "}", value)
        return text

    def run(self) -> "subprocess.CompletedProcess[bytes]":
        """Run the client's command, approving the server first if it must be; returns the process."""
        if self.host.approves:
            assert self._run([self.filled(word) for word in self.host.approves]).returncode == 0
        command = [self.filled(word) for word in self.host.command]
        if self.host.calls:
            model = [sys.executable, "-m", "tests.hosts.model", str(MODEL_PORT), f"mcp__zoo__{self.host.calls}"]
            command = [*model, '{"a": 2, "b": 3}', "--", *command]
        return self._run(command)

    def _run(self, command: list[str]) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            command,
            cwd=self.home / "work",
            env=self.environment | ({"PYTHONPATH": str(ROOT)} if self.host.calls else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RUN_S,
            preexec_fn=leave_the_network,
        )

    def says(self, done: "subprocess.CompletedProcess[bytes]") -> list[str]:
        """The lines that the client printed, without mcpproxy's command, times and other text that varies."""
        text = re.sub(r"/\S*/mcpproxy run .*? -- ", "", done.stdout.decode(errors="replace"))
        if self.host.varies:
            text = re.sub(self.host.varies, "", text)
        return [" ".join(line.split()) for line in text.splitlines() if line.strip()]

    def heard(self, direction: Direction) -> list[dict[str, Any]]:
        """The messages recorded in this direction."""
        return [json.loads(frame.raw) for path in self.captures() for frame in frames(path, direction)]

    def captures(self) -> list[Path]:
        return sorted((self.home / ".local/share/mcpproxy/captures/zoo").glob("*.mcpcap"))

    def mcpproxy(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        done = mcpproxy(*arguments, cwd=self.home / "work", HOME=str(self.home))
        assert done.returncode == 0, done.stderr
        return done


def own_node() -> list[str]:
    """The directory of the Node that runs these clients."""
    return [str(node(fetched("npm", node_packages())).parent)]


@pytest.fixture
def house(request: pytest.FixtureRequest, tmp_path: Path) -> HostHome:
    if sys.platform != "linux":
        pytest.skip("the programs of these packages are fetched for Linux")
    if shutil.which("npm") is None and request.param.registry == "npm":
        pytest.skip("npm is not installed")
    return HostHome(request.param, tmp_path)


@pytest.mark.parametrize("house", ROWS, indirect=True)
def test_routed_recorded_restored(house: HostHome) -> None:
    host, client = house.host, client_by_id(house.host.client)
    assert client is not None
    scope = ("--scope", host.scope)
    untouched = house.file.read_bytes()
    house.mcpproxy("install", host.client, *scope)
    house.mcpproxy("uninstall", host.client, *scope)
    assert house.file.read_bytes() == untouched

    plain = house.run()
    before = house.file.read_bytes()
    house.mcpproxy("install", host.client, *scope)
    assert house.file.read_bytes() != before
    routed = house.run()
    assert host.shows in routed.stdout.decode(errors="replace")
    assert house.says(routed) == house.says(plain)
    assert routed.returncode == plain.returncode

    if not host.speaks:
        assert not house.captures()
    else:
        # A client may end before the recorder has written: Auggie does not wait for its servers.
        sent = wait_until(lambda: house.heard("c2s"), f"messages of {host.id}: {house.says(routed)}")
        assert introduced(sent) == host.speaks
        assert all(members_of(path, "header")[0]["name"] == "zoo" for path in house.captures())
        if host.calls:
            call = next(message for message in sent if message.get("method") == "tools/call")
            assert call["params"]["name"] == host.calls
            answer = next(message for message in house.heard("s2c") if message.get("id") == call["id"])
            assert answer["result"]["structuredContent"] == {"sum": 5}
        (row,) = rows(house.mcpproxy("status", host.client, "--json"))
        assert row["routed"]
        if host.name == host.client:
            assert any(host.speaks.lower().startswith(name.lower()) for name in client.client_info_prefixes)
            assert row["last_frame"] is not None
    house.mcpproxy("uninstall", host.client, *scope)
    if host.rewrites:
        assert servers(json.loads(house.file.read_text())) == servers(json.loads(before))
    else:
        assert house.file.read_bytes() == before


def introduced(sent: list[dict[str, Any]]) -> str:
    """The name that the client sends, in either era."""
    for message in sent:
        if message.get("method") == "initialize":
            return str(message["params"]["clientInfo"]["name"])
        if message.get("method") == "server/discover":
            return str(message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"])
    raise AssertionError(f"no introduction in {[message.get('method') for message in sent]}")


def rows(done: "subprocess.CompletedProcess[bytes]") -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def servers(data: dict[str, Any]) -> Any:
    return data["mcpServers"]
