"""`mcpproxy up`: every routed server with a URL is recorded, and its traffic is not changed."""

import configparser
import http.client
import json
import os
import plistlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.machine import Machine
from mcpproxy.clients.service import write_unit
from tests.harness import DEADLINE_S, frames, members_of, wait_until
from tests.mcpproxy.cli.typed import mcpproxy, started

FILES = {"cursor": ".cursor/mcp.json", "kiro": ".kiro/settings/mcp.json"}
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


class Upstream(ThreadingHTTPServer):
    """Responds to every request, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Upstream

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers["Authorization"]))
        if self.path == "/moved":
            self.send_response(307)
            self.send_header("Location", f"http://{self.headers['Host']}/mcp")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = b'{"jsonrpc":"2.0","id":1,"result":{}}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def install(home: Path, servers: dict[str, str], client: str = "cursor", *options: str) -> dict[str, str]:
    """Route servers of a client; returns the URLs that the client's file then has."""
    installed(home, servers, client, *options)
    file = home / FILES[client]
    return {name: entry["url"] for name, entry in json.loads(file.read_text())["mcpServers"].items()}


def installed(home: Path, servers: dict[str, str], client: str = "cursor", *options: str) -> str:
    """Route servers of a client; returns what is printed."""
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {name: {"url": url} for name, url in servers.items()}}))
    done = mcpproxy("install", client, *options, cwd=home, HOME=str(home), NO_PROXY="127.0.0.1")
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.decode().split())


def post(url: str, message: bytes = PING) -> bytes | None:
    """Post a message; returns the body of the response, or None if there is no listener."""
    request = urllib.request.Request(url, message, {"Authorization": "Bearer x", "Content-Type": "application/json"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=DEADLINE_S) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, ConnectionError):
        return None


def hello(client: str) -> bytes:
    """Returns the first message of a client."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": client, "version": "9.9"}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode() + b"\n"


def captures(home: Path, name: str) -> list[Path]:
    return sorted((home / ".local/share/mcpproxy/captures" / name).glob("*.mcpcap"))


def test_install_says_that_a_server_is_recorded_once_its_listener_answers(tmp_path: Path) -> None:
    with upstream() as server, started("up", HOME=str(tmp_path)) as up:
        assert up.stderr is not None
        up.stderr.readline()
        for number in range(3):
            told = installed(tmp_path, {f"far{number}": f"http://127.0.0.1:{server.server_port}/{number}"})
            assert f"mcpproxy up is running, and records far{number} from now on" in told
            file = tmp_path / FILES["cursor"]
            (entry,) = json.loads(file.read_text())["mcpServers"].values()
            assert post(entry["url"]) == b'{"jsonrpc":"2.0","id":1,"result":{}}', "at once, and not some time later"


def test_install_again_says_that_clients_cannot_reach_what_was_routed_before_and_nothing_if_they_can(
    tmp_path: Path,
) -> None:
    def again() -> str:
        return mcpproxy("install", "cursor", cwd=tmp_path, HOME=str(tmp_path)).stdout.decode()

    with upstream() as server:
        installed(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"})
        assert "already routed\nClients cannot reach far until mcpproxy up runs." in again()
        with started("up", HOME=str(tmp_path)) as up:
            assert up.stderr is not None
            up.stderr.readline()
            assert again().endswith("already routed\n")
            # Only the newly routed server is reported, although the file has both.
            file = tmp_path / FILES["cursor"]
            held = json.loads(file.read_text())
            held["mcpServers"]["near"] = {"url": f"http://127.0.0.1:{server.server_port}/near"}
            file.write_text(json.dumps(held))
            assert "and records near from now on" in again()


def test_install_says_what_to_do_if_the_listener_does_not_come(tmp_path: Path) -> None:
    holds = """
import signal, sys
from pathlib import Path
from mcpproxy.clients.up_lock import UpLock
lock = UpLock(Path(sys.argv[1]))
print("held", flush=True)
signal.pause()
"""
    folder = tmp_path / ".local/state/mcpproxy"
    with upstream() as server, started(folder, code=holds, HOME=str(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        told = installed(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"})
    assert "from now on" not in told
    assert "mcpproxy up is running, but does not listen for far, so clients cannot reach it" in told
    assert "or restart it" in told


def test_each_server_is_recorded_and_gets_what_the_client_sends(tmp_path: Path) -> None:
    with upstream() as one, upstream() as other:
        servers = {
            "one": f"http://127.0.0.1:{one.server_port}/mcp?key=v",
            "other": f"http://127.0.0.1:{other.server_port}/",
        }
        urls = install(tmp_path, servers)
        one.asked.clear()
        with started("up", HOME=str(tmp_path)) as up:
            assert wait_until(lambda: post(urls["one"])) == b'{"jsonrpc":"2.0","id":1,"result":{}}'
            assert wait_until(lambda: post(urls["other"], hello("cursor")))
            assert post(urls["one"], hello("cursor"))
            assert one.asked == [("/mcp?key=v", "Bearer x")] * 2
            up.terminate()
            wait_until(lambda: up.poll() is not None)
            assert up.returncode == 0
        for name in ("one", "other"):
            (capture,) = captures(tmp_path, name)
            assert len(frames(capture)) == (4 if name == "one" else 2)
            assert mcpproxy("verify", capture, HOME=str(tmp_path)).returncode == 0
        status = mcpproxy("status", "--json", cwd=tmp_path, HOME=str(tmp_path))
        assert all(json.loads(line)["last_frame"] for line in status.stdout.splitlines())


def test_a_server_whose_capture_cannot_be_created_is_reached_and_recorded_once_it_can(tmp_path: Path) -> None:
    way = tmp_path / ".local/share/mcpproxy/captures"
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    given: dict[str, Any] = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}
    with upstream() as server:
        urls = install(tmp_path, {name: f"http://127.0.0.1:{server.server_port}/{name}" for name in ("far", "near")})
        way.parent.mkdir(parents=True, exist_ok=True)
        way.write_text("in the way")
        with started("up", **given) as up:
            assert up.stderr is not None
            for _ in urls:
                assert b"is not recorded, but can be reached; still trying (cannot" in up.stderr.readline()
            assert all(post(url) == b'{"jsonrpc":"2.0","id":1,"result":{}}' for url in urls.values())
            told = mcpproxy("ls", **given).stderr.decode()
            assert re.findall(r"(far|near) has been running unrecorded since", told) == ["far", "near"]
            status = mcpproxy("status", cwd=tmp_path, **given).stdout.decode()
            assert status.count("but it runs unrecorded") == 2
            way.unlink()
            for _ in urls:
                assert b"recording " in up.stderr.readline()
            assert post(urls["far"]) == b'{"jsonrpc":"2.0","id":1,"result":{}}'
            assert "unrecorded" not in mcpproxy("ls", **given).stderr.decode()
            up.send_signal(signal.SIGTERM)
            assert up.wait(DEADLINE_S) == 0
        (path,) = captures(tmp_path, "far")
        assert [frame.verdict.method for frame in frames(path) if frame.dir == "c2s"] == ["ping"]


def test_addresses_of_the_server_are_made_relative(tmp_path: Path) -> None:
    with upstream() as server:
        (url,) = install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/moved"}).values()
        with started("up", HOME=str(tmp_path)):
            assert wait_until(lambda: post(url.replace("moved", "mcp")))
            connection = http.client.HTTPConnection("127.0.0.1", int(url.split(":")[2].split("/")[0]), DEADLINE_S)
            connection.request("POST", "/moved", PING)
            with closing(connection), connection.getresponse() as answer:
                assert (answer.status, answer.headers["Location"]) == (307, "/mcp")
            (capture,) = captures(tmp_path, "far")
            wait_until(
                lambda: {"location": "/mcp"} in [one.get("rewritten") for one in members_of(capture, "exchange")]
            )
        assert members_of(capture, "header")[0]["opt_outs"] == ["rewrite-location"]


def test_listeners_come_and_go_with_the_entries_that_use_them(tmp_path: Path) -> None:
    with upstream() as server, started("up", HOME=str(tmp_path)) as up:
        assert up.stderr is not None
        assert b"waiting for mcpproxy install" in up.stderr.readline()
        (url,) = install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"}).values()
        assert wait_until(lambda: post(url))
        assert mcpproxy("uninstall", "--all", cwd=tmp_path, HOME=str(tmp_path)).returncode == 0
        wait_until(lambda: post(url) is None)
        # The last connection ends first, and then the capture is closed.
        capture = captures(tmp_path, "far")[-1]
        wait_until(lambda: mcpproxy("verify", capture, HOME=str(tmp_path)).returncode == 0)


def test_a_state_that_is_garbage_ends_nothing(tmp_path: Path) -> None:
    with upstream() as server:
        (url,) = install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"}).values()
        copies = [tmp_path / f"{place}/mcpproxy/install.json" for place in (".local/state", ".config")]
        sound = copies[0].read_text()

        def write(text: str) -> None:
            for path in copies:
                path.write_text(text)

        with started("up", HOME=str(tmp_path)) as up:
            assert wait_until(lambda: post(url))
            nul = {"name": "x", "port": 16001, "upstream": "http://127.0.0.1:1", "users": ["x"], "capture": "\0"}
            write(json.dumps({"files": {}, "listeners": [nul]}))
            wait_until(lambda: post(url) is None)
            write('{"files": {}, "listeners": [{"name": 1, "port": "x", "upstream": 3}, null, 7]}')
            write(json.dumps({"version": 2, "files": {}, "listeners": []}))
            write(sound)
            assert wait_until(lambda: post(url))
            assert up.poll() is None


def test_a_state_that_cannot_be_read_stops_no_listener(tmp_path: Path) -> None:
    with upstream() as server:
        (url,) = install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"}).values()
        state = tmp_path / ".local/state/mcpproxy/install.json"
        with started("up", HOME=str(tmp_path)):
            assert wait_until(lambda: post(url))
            for garbage in ("", "[]", "[" * 100_000, '{"version": 2}', None):
                state.unlink()
                if garbage is None:
                    os.mkfifo(state)
                else:
                    state.write_text(garbage)
                until = time.monotonic() + 1.5  # `up` checks every second
                while time.monotonic() < until:
                    assert post(url)
                    time.sleep(0.1)
            assert len(captures(tmp_path, "far")) == 1


def test_more_listeners_than_the_limit_of_open_files_allows_end_no_session(tmp_path: Path) -> None:
    with upstream() as server:
        names = [f"s{number}" for number in range(12)]
        urls = install(tmp_path, {name: f"http://127.0.0.1:{server.server_port}/{name}" for name in names})
        command = f"ulimit -n 160; exec {shlex.quote(sys.executable)} -m mcpproxy up"
        with subprocess.Popen(["bash", "-c", command], env={**os.environ, "HOME": str(tmp_path)}) as up:
            try:
                for url in urls.values():
                    assert wait_until(lambda url=url: post(url))  # type: ignore[misc]
                ports = [int(url.split(":")[2].split("/")[0]) for url in urls.values()]
                idle = []
                for port in ports * 20:
                    with suppress(OSError):
                        idle.append(socket.create_connection(("127.0.0.1", port), 5))
                until = time.monotonic() + 2.5
                while time.monotonic() < until:
                    assert up.poll() is None
                    time.sleep(0.1)
                for connection in idle:
                    connection.close()
                for name, url in urls.items():
                    assert wait_until(lambda url=url: post(url))  # type: ignore[misc]
                    assert len(captures(tmp_path, name)) == 1
            finally:
                up.terminate()


def test_a_port_that_is_taken_stops_no_other_listener(tmp_path: Path) -> None:
    with upstream() as server:
        urls = install(tmp_path, {name: f"http://127.0.0.1:{server.server_port}/{name}" for name in ("a", "b")})
        port = int(urls["a"].split(":")[2].split("/")[0])
        with socket.create_server(("127.0.0.1", port)), started("up", HOME=str(tmp_path)) as up:
            assert wait_until(lambda: post(urls["b"]))
            assert up.stderr is not None
            said = up.stderr.readline() + up.stderr.readline()
            assert (
                f"a is not recorded and cannot be reached; still trying (cannot listen on 127.0.0.1:{port}".encode()
                in said
            )


def test_secrets_of_a_url_are_in_no_file_of_ours_and_in_no_list_of_processes(tmp_path: Path) -> None:
    with upstream() as server:
        install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/hunter2?token=hunter2"})
        assert mcpproxy("up", "--service", HOME=str(tmp_path)).returncode == 0
        state = (tmp_path / ".local/state/mcpproxy/install.json").read_text()
        unit = (tmp_path / ".config/systemd/user/mcpproxy.service").read_text()
        assert "hunter2" not in state + unit
        with started("up", HOME=str(tmp_path)) as up:
            assert b"hunter2" not in Path(f"/proc/{up.pid}/cmdline").read_bytes()


@pytest.mark.parametrize("program", [("/opt/bin/mcpproxy",), ("/my home/50%$x/python", "-P", "-m", "mcpproxy")])
def test_units_start_the_program_as_it_is(tmp_path: Path, program: tuple[str, ...]) -> None:
    linux = write_unit(Machine("linux", tmp_path), (*program, "up"))
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read(linux.path)
    words = shlex.split(parsed["Service"]["ExecStart"].replace("%%", "%").replace("$$", "$"))
    assert words == [*program, "up"]
    mac = write_unit(Machine("macos", tmp_path), (*program, "up"))
    assert plistlib.loads(mac.path.read_bytes())["ProgramArguments"] == [*program, "up"]
    assert subprocess.run(["bash", "-n", "-c", linux.start_command], check=False).returncode == 0
    assert shlex.split(mac.start_command)[-1] == str(mac.path)


def test_a_second_one_says_that_one_is_running(tmp_path: Path) -> None:
    with upstream() as server, started("up", HOME=str(tmp_path)) as up:
        url = install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"})["far"]
        assert wait_until(lambda: post(url))
        done = mcpproxy("up", HOME=str(tmp_path))
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr == f"mcpproxy: mcpproxy up is already running, as process {up.pid}\n".encode()
        # A server that is already routed is not probed again: the probe would be in its capture.
        server.asked.clear()
        assert mcpproxy("install", "cursor", cwd=tmp_path, HOME=str(tmp_path)).returncode == 0
        assert server.asked == []
