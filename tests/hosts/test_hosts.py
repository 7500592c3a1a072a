"""Real clients: routed by `install`, they start their servers through the recorder; `uninstall` gives their file back.

Each has a HOME of its own and, where the system allows it, a network with nothing but loopback.
"""

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.catalogue import by_id
from tests.harness import frames, members_of
from tests.hosts.rows import Host, hosts
from tests.mcpproxy.cli.typed import mcpproxy
from tests.zoo.alone import leave_the_network
from tests.zoo.install import Unavailable, bin_of, installed, node

ROOT = Path(__file__).parents[2]
RUN_S = 120
ROWS = [pytest.param(host, id=host.name, marks=[pytest.mark.hosts] if host.slow else []) for host in hosts()]


class House:
    """The home of one client."""

    def __init__(self, host: Host, home: Path) -> None:
        """Write the client's configuration, with the bundled server in it.

        Raises:
            Unavailable: the client cannot be installed here.
        """
        self.host, self.home = host, home
        programs = bin_of(host.registry, installed(host.registry, host.packages))
        self.places = {"bin": str(programs), "home": str(home), "server": str(home / "server")}
        self.port = 0
        if host.calls:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
            self.places["model"] = f"http://127.0.0.1:{self.port}/v1"
        path = [str(programs), *([str(node().parent)] if host.registry == "npm" else []), os.environ["PATH"]]
        self.environment = {"HOME": str(home), "PATH": ":".join(path), "USER": "you", **host.environment}
        server = home / "server"
        server.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -P -m mcpproxy.demo.server "$@"\n')
        server.chmod(0o755)
        (home / "work").mkdir()
        self.file = home / host.file
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.filled(host.text))

    def filled(self, text: str) -> str:
        for name, value in self.places.items():
            text = text.replace("{" + name + "}", value)
        return text

    def run(self) -> "subprocess.CompletedProcess[bytes]":
        """Have the client start its servers, or read its file back."""
        command = [self.filled(word) for word in self.host.command]
        if self.host.calls:
            model = [sys.executable, "-m", "tests.hosts.model", str(self.port), f"mcp__zoo__{self.host.calls}"]
            command = [*model, '{"a": 2, "b": 3}', "--", *command]
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

    def mcpproxy(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        done = mcpproxy(*arguments, cwd=self.home / "work", HOME=str(self.home))
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def house(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    # The packages alone are kept from one run to the next, where the zoo keeps its own.
    monkeypatch.setenv(
        "XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or f"{pwd.getpwuid(os.getuid()).pw_dir}/.cache"
    )
    if sys.platform != "linux":
        pytest.skip("the programs of these packages are fetched for Linux")
    if shutil.which("npm") is None and request.param.registry == "npm":
        pytest.skip("npm is not installed")
    try:
        return House(request.param, tmp_path)
    except Unavailable as why:
        pytest.skip(f"{request.param.name}: {why}")


@pytest.mark.parametrize("house", ROWS, indirect=True)
def test_routed_recorded_restored(house: House) -> None:
    host, client = house.host, by_id(house.host.client)
    assert client is not None
    plain = house.run()
    before = house.file.read_bytes()
    house.mcpproxy("install", host.client)
    assert house.file.read_bytes() != before
    routed = house.run()
    assert host.shows in routed.stdout.decode(errors="replace"), routed.stdout.decode(errors="replace")
    assert routed.returncode == plain.returncode
    if host.heard:
        captures = sorted((house.home / ".local/share/mcpproxy/captures/zoo").glob("*.mcpcap"))
        assert captures, routed.stdout.decode(errors="replace")
        sent = [json.loads(frame.raw) for path in captures for frame in frames(path, "c2s")]
        hello = next((message for message in sent if message.get("method") == "initialize"), None)
        assert hello is not None or any(message.get("method") == "server/discover" for message in sent)
        if host.name == host.client and hello is not None:
            says = hello["params"]["clientInfo"]["name"]
            assert any(says.lower().startswith(name.lower()) for name in client.speaks_as), says
        if host.calls:
            call = next(message for message in sent if message.get("method") == "tools/call")
            assert call["params"]["name"] == host.calls
        assert all(members_of(path, "header")[0]["name"] == "zoo" for path in captures)
        (row,) = rows(house.mcpproxy("status", host.client, "--json"))
        assert row["routed"]
        assert row["last_frame"] is not None or host.name != host.client
    house.mcpproxy("uninstall", host.client)
    if host.rewrites:
        assert servers(json.loads(house.file.read_text())) == servers(json.loads(before))
    else:
        assert house.file.read_bytes() == before


def rows(done: "subprocess.CompletedProcess[bytes]") -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def servers(data: dict[str, Any]) -> Any:
    return data["mcpServers"]
