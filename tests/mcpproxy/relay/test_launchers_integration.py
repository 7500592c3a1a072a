"""Launchers that start the server and exit: the server goes on as without the recorder, wherever that is wanted."""

import shutil
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from tests.harness import ROOT, Place, Session, is_alive, killed_at_the_end, members_of, peer, wait_until
from tests.zoo.install import UV

LAUNCHER = ROOT / "tests/peers/launcher.py"
ECHO = ROOT / "tests/peers/echo.py"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{"echo":{}}}\n'


def asks(session: Session) -> bytes:
    """Send a message as the client; returns the line that comes back."""
    session.send(PING)
    return session.line()


@contextmanager
def launched(place: Place, *arguments: str, direct: bool = False) -> Iterator[tuple[Session, int]]:
    """Start a launcher and wait for its end; yields the session and the pid of the process left behind."""
    session = place.start(peer("launcher", *arguments), direct=direct)
    pids = session.next_report()
    with killed_at_the_end(pids["child"]):
        if not direct:  # without the recorder, it remains as a zombie child of this process
            wait_until(lambda: not is_alive(pids["parent"]), "the launcher to end")
        yield session, pids["child"]


@pytest.mark.parametrize("how", [(), ("--daemon",)], ids=["fork", "double fork"])
@pytest.mark.parametrize("client", ["keeps its pipes", "closes stdin", "sends TERM"])
def test_a_server_to_which_a_launcher_has_handed_its_pipes_goes_on(
    place: Place, how: tuple[str, ...], client: str
) -> None:
    with launched(place, *how) as (session, child):
        assert asks(session) == PING
        if client == "sends TERM":
            session.process.send_signal(signal.SIGTERM)
        elif client == "closes stdin":
            session.close_stdin()
        else:
            assert asks(session) == PING
            assert session.process.poll() is None
            session.close_stdin()
        assert session.rest() == b""
        assert session.end() == 0
        wait_until(lambda: not is_alive(child), "the server to see the end of its stdin")
    (close,) = members_of(session.capture or Path(), "close")
    assert (close["status"], close["ending"]) == (0, "signal" if client == "sends TERM" else "server")


@pytest.mark.parametrize("client", ["keeps its pipes", "closes stdin", "sends TERM"])
@pytest.mark.parametrize(
    ("end", "holds"),
    [pair for pair in product(("0", "7", "TERM"), ("both", "stdout", "stderr")) if pair != ("0", "both")],
)
def test_everything_else_ends_with_the_first_process(place: Place, end: str, holds: str, client: str) -> None:
    with launched(place, "--end", end, "--holds", holds) as (session, child):
        if client == "closes stdin":
            session.close_stdin()
        elif client == "sends TERM":
            session.process.send_signal(signal.SIGTERM)
        assert session.rest() == b""
        assert session.end() == (int(end) if end.isdigit() else -signal.SIGTERM)
        assert holds == "both" or is_alive(child), "its end was waited for"


def test_it_goes_on_without_the_recorder(place: Place) -> None:
    with launched(place, direct=True) as (session, child):
        assert session.end() == 0
        assert asks(session) == PING
        session.close_stdin()
        assert session.rest() == b""
        wait_until(lambda: not is_alive(child), "the server to see the end of its stdin")


def test_a_server_that_ignores_eof_outlives_the_client(place: Place) -> None:
    """A server that ignores the end of its stdin outlives the recorder, which then cannot pass signals to it."""
    server = [sys.executable, "-I", "-S", "-c", "import signal; signal.alarm(120); print(flush=True); signal.pause()"]
    script = 'exec 3<&0; "$@" <&3 & echo $! >&2'
    session = place.start(["sh", "-c", script, "sh", *server])
    assert session.process.stderr is not None
    child = int(session.process.stderr.readline())
    with killed_at_the_end(child):
        assert session.line() == b"\n"
        assert session.process.stdout is not None
        session.close_stdin()
        session.process.stdout.close()
        assert session.end() == 0
        assert is_alive(child)


def test_a_kill_of_the_recorder_ends_the_pipes_and_keeps_the_capture(place: Place) -> None:
    with launched(place) as (session, child):
        assert asks(session) == PING
        session.process.kill()
        session.process.wait()
        wait_until(lambda: not is_alive(child), "the server to see the end of its stdin")
    assert [frame.raw + b"\n" for frame in session.frames("c2s")] == [PING]


def echo(*more: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(ECHO), *more]


WRAPPERS = {
    "a shell that becomes the server": ["sh", "-c", 'exec "$@"', "sh"],
    "a shell that waits for it": ["sh", "-c", '"$@"; exit 7', "sh"],
    "a shell that leaves it behind": ["sh", "-c", 'exec 3<&0; "$@" <&3 &', "sh"],
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "recorded"])
def test_wrappers(place: Place, wrapper: str, *, direct: bool) -> None:
    session = place.start([*WRAPPERS[wrapper], *echo()], direct=direct)
    assert asks(session) == PONG
    assert asks(session) == PONG
    session.close_stdin()
    assert session.rest() == b""
    assert session.end() == (7 if "waits" in wrapper else 0)


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "recorded"])
def test_a_server_in_the_background_of_a_shell_has_no_stdin(place: Place, *, direct: bool) -> None:
    """POSIX connects its stdin to /dev/null, so it ends at once, with the recorder or without."""
    session = place.start(["sh", "-c", '"$@" &', "sh", *echo()], direct=direct)
    assert session.rest() == b""
    assert session.end() == 0


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "recorded"])
def test_a_client_of_a_container_that_attaches_over_a_socket(place: Place, *, direct: bool) -> None:
    """Like `docker run -i`: the server is the child of a daemon, and its client only copies bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_contained, args=(listener,))
        server.start()
        session = place.start(
            [sys.executable, "-I", "-S", "-c", _ATTACH, str(listener.getsockname()[1])], direct=direct
        )
        assert asks(session) == PONG
        session.close_stdin()
        assert session.rest() == b""
        assert session.end() == 0
        server.join()


_ATTACH = """
import os, socket, sys, threading
there = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def copy():
    while chunk := os.read(0, 65536):
        there.sendall(chunk)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=copy, daemon=True).start()
while chunk := there.recv(65536):
    os.write(1, chunk)
"""


def _contained(listener: socket.socket) -> None:
    there, _ = listener.accept()
    with there:
        subprocess.run(echo(), stdin=there.fileno(), stdout=there.fileno(), check=True)


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "recorded"])
def test_uvx(place: Place, tmp_path: Path, *, direct: bool) -> None:
    wheel = {
        "tiny.py": "import os, sys\ndef main():\n    while c := os.read(0, 65536): os.write(1, c)\n    sys.exit(3)\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
        "tiny-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(tmp_path / "tiny-1.0-py3-none-any.whl", "w") as file:
        for name, text in wheel.items():
            file.writestr(name, text)
    offline = ["--offline", "--no-index", "--find-links", str(tmp_path), "--python", sys.executable]
    session = place.start([str(UV), "tool", "run", *offline, "tiny"], direct=direct)
    assert asks(session) == PING
    session.close_stdin()
    assert session.rest() == b""
    assert session.end() == 3


@pytest.mark.skipif(shutil.which("npx") is None, reason="npx is not installed")
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "recorded"])
def test_npx(place: Place, tmp_path: Path, *, direct: bool) -> None:
    (tmp_path / "package.json").write_text('{"name":"tiny","version":"1.0.0","bin":{"tiny":"tiny.js"}}')
    script = tmp_path / "tiny.js"
    script.write_text(
        "#!/usr/bin/env node\n"
        'process.stdin.on("data", chunk => process.stdout.write(chunk)).on("end", () => process.exit(3));\n'
    )
    script.chmod(0o755)
    environment = {**place.environment, "npm_config_update_notifier": "false"}
    session = place.start(
        ["npx", "--offline", "--yes", str(tmp_path)], direct=direct, environment=environment, cwd=tmp_path
    )
    assert asks(session) == PING
    session.close_stdin()
    assert session.rest() == b""
    assert session.end() == 3
