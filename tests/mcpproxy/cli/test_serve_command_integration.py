"""`serve … -- COMMAND` starts the server, waits until it listens, ends as it ends, and leaves none behind."""

import os
import signal
import socket
import sys
from contextlib import closing
from typing import Any

import pytest

from tests.harness import DEADLINE_S, Place, Session, is_alive, members_of, wait_until
from tests.http_harness import GET, free_port, start_serving

# Prints, then listens, then answers one byte to each connection; what a signal does is given.
SERVER = """
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: {on_term})
print("to stdout", flush=True)
print("to stderr", file=sys.stderr, flush=True)
{before}
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection, _ = listener.accept()
    if request := connection.recv(65536):
        pid = b"%d" % os.getpid()
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%b" % (len(pid), pid))
        connection.recv(65536)
    connection.close()
"""
WITHOUT_PATIENCE = """
import mcpproxy.cli.served_command as served_command
served_command.MAX_LISTEN_S = 0.2
import mcpproxy.__main__
sys.exit(mcpproxy.__main__.main())
"""


def command(port: int, *, on_term: str = "os._exit(7)", before: str = "") -> list[str]:
    """The arguments of `serve` for a server on a port."""
    code = SERVER.format(on_term=on_term, before=before)
    return [f"http://127.0.0.1:{port}/mcp", "--", sys.executable, "-I", "-S", "-c", code, str(port)]


def server_pid(session: Session) -> int:
    """Wait until the server can be reached through the recorder; returns its pid, as it says."""
    line = session.line().decode()
    assert line, session.errors()
    port = int(line.removeprefix("http://127.0.0.1:").partition("/")[0])
    with closing(socket.create_connection(("127.0.0.1", port), DEADLINE_S)) as client:
        client.settimeout(DEADLINE_S)
        client.sendall(GET)
        answer = b""
        while b"\r\n\r\n" not in answer or answer.endswith(b"\r\n\r\n"):
            piece = client.recv(1 << 16)
            assert piece
            answer += piece
    return int(answer.rpartition(b"\r\n\r\n")[2])


@pytest.mark.parametrize(
    ("on_term", "status", "end"),
    [
        ("os._exit(7)", 7, {"status": 7}),
        ("os._exit(0)", 0, {"status": 0}),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, {"signal": "SIGKILL"}),
    ],
)
def test_it_ends_as_the_server_ends(place: Place, on_term: str, status: int, end: dict[str, Any]) -> None:
    session, capture = start_serving(place, *command(free_port(), on_term=on_term))
    pid = server_pid(session)
    session.process.send_signal(signal.SIGTERM)
    assert session.end() == status
    errors = session.errors()
    assert b"to stdout\n" in errors
    assert b"to stderr\n" in errors
    assert session.rest() == b""
    spawned, ended = members_of(capture, "process")
    assert (spawned["event"], spawned["pid"]) == ("spawned", pid)
    assert ended["event"] == "ended"
    assert end.items() <= ended.items()
    (close,) = members_of(capture, "close")
    assert end.items() <= close.items()
    assert close["ending"] == "signal"
    assert close["totals"]["stderr"] == {"bytes": 20, "recorded": 20}
    assert [members["raw"] for members in members_of(capture, "stderr")] == ["to stdout", "to stderr"]
    (header,) = members_of(capture, "header")
    assert header["argv"][0] == sys.executable
    assert header["transport"] == "http"
    assert [members["response"]["status"] for members in members_of(capture, "exchange") if "response" in members]


def test_clients_wait_until_the_server_listens(place: Place) -> None:
    wait = "sys.stdin.buffer.readline()"
    session, _ = start_serving(place, *command(free_port(), before=wait))
    session.send(b"\n")
    assert server_pid(session)
    session.process.send_signal(signal.SIGTERM)
    assert session.end() == 7


@pytest.mark.parametrize(("ending", "status"), [("os._exit(3)", 3), ("os._exit(0)", 1)])
def test_a_server_that_ends_before_it_listens_ends_serve(place: Place, ending: str, status: int) -> None:
    session, capture = start_serving(place, *command(free_port(), before=ending))
    assert session.end() == status
    assert session.rest() == b""
    assert b"mcpproxy: the server ended before it listened on the address in URL\n" in session.errors()
    assert [members["event"] for members in members_of(capture, "process")] == ["spawned", "ended"]


def test_a_server_that_does_not_listen_in_time_is_ended(place: Place) -> None:
    arguments = command(free_port(), before="signal.pause()")
    start = [sys.executable, "-P", "-c", f"import sys\n{WITHOUT_PATIENCE}", "serve"]
    session = place.start([*start, "--capture", str(place.root / "x.mcpcap"), *arguments], direct=True)
    assert session.end() == 1
    assert b"the server did not listen within" in session.errors()
    _, ended = members_of(place.root / "x.mcpcap", "process")
    assert ended["status"] == 7


def test_a_server_whose_recorder_is_killed_is_ended(place: Place) -> None:
    session, _ = start_serving(place, *command(free_port()))
    pid = server_pid(session)
    session.process.kill()
    assert session.end() == -signal.SIGKILL
    wait_until(lambda: not is_alive(pid), "the server to end")


def test_a_server_that_ends_by_itself_ends_serve(place: Place) -> None:
    session, capture = start_serving(place, *command(free_port()))
    pid = server_pid(session)
    os.kill(pid, signal.SIGKILL)
    assert session.end() == -signal.SIGKILL
    (close,) = members_of(capture, "close")
    assert (close["ending"], close["signal"]) == ("server", "SIGKILL")


def test_a_command_that_cannot_be_run_is_reported(place: Place) -> None:
    session, capture = start_serving(place, f"http://127.0.0.1:{free_port()}/mcp", "--", "/nowhere/server")
    assert session.end() == 127
    assert b"cannot run /nowhere/server: there is no such command" in session.errors()
    (failed,) = members_of(capture, "process")
    assert (failed["event"], failed["errno"]) == ("failed", "ENOENT")
    (close,) = members_of(capture, "close")
    assert close["ending"] == "failed"


def test_an_address_that_is_in_use_starts_nothing(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        session, capture = start_serving(place, *command(other.getsockname()[1]))
        assert session.end() == 2
        assert b"a process listens on the address in URL already" in session.errors()
    assert not capture.exists()
