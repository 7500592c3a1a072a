"""No secret of a login that passes through `serve` is found anywhere afterwards, whichever leg it was in."""

import hashlib
import re
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from tests.harness import Place, children
from tests.http_harness import Upstream, Wire, free_port, serving
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.logins import STEM, Login, canaried_login

PUBLIC = "https://mcp.example.org"
_S = STEM.encode()
SPELLINGS = re.compile(
    b"|".join(
        [
            _S,
            _S.hex().encode(),
            b"".join(b"%%%02x" % byte for byte in _S),
            *(b64encode(_S[at : at + 6]) for at in range(3)),  # it may begin at any of three places
        ]
    ),
    re.IGNORECASE,
)
"""Plain, in hexadecimal, percent-encoded, in base64."""
SERVER = """
import signal, socket, sys, threading
def passing(source, sink):
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)
def serving():
    while True:
        client, server = listener.accept()[0], socket.create_connection(("127.0.0.1", int(sys.argv[2])))
        threading.Thread(target=passing, args=(client, server), daemon=True).start()
        threading.Thread(target=passing, args=(server, client), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {2, 15})
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
threading.Thread(target=serving, daemon=True).start()
signal.sigwait({2, 15})
"""
"""A server that `serve` starts: it passes on what the test's upstream says."""


def found(data: bytes, login: Login) -> list[str]:
    """Returns the places of the canaries in some data, or the data around one that is encoded."""
    places = []
    for match in SPELLINGS.finditer(data):
        canary = data[match.start() : match.end() + 3].decode("utf-8", "replace")
        places.append(login.canaries.get(canary, repr(data[max(match.start() - 60, 0) : match.end() + 20])))
    return places


def found_below(root: Path, login: Login) -> dict[str, list[str]]:
    """Returns the files below a folder in whose name or content canaries are, with the places of these."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    left = {str(path): found(path.name.encode() + b"\n" + path.read_bytes(), login) for path in files}
    return {path: places for path, places in left.items() if places}


def commands(capture: Path, out: Path) -> list[list[str]]:
    """Returns what a user may do with the capture."""
    reading = [["show", "-v"], ["show", "--json"], ["check", "--json", "--notes"], ["info"], ["stats"]]
    reading += [
        ["query", f"from {table}"]
        for table in ("captures", "http_exchanges", "exchanges", "frames", "findings", "stderr")
    ]
    reading += [["report", "-o", str(out / "report.html")], ["share", "-o", str(out / "shared.mcpcap")]]
    forms = ("parquet", "csv", "duckdb", "otlp", "har", "perfetto", "markdown")
    reading += [["export", "--format", form, "-o", str(out / f"x.{form}")] for form in forms]
    return [[*words, str(capture)] for words in reading]


@pytest.mark.costly("all that a user may do with a capture, a process each")
@pytest.mark.parametrize("is_public", [False, True], ids=["plain", "public"])
def test_no_secret_of_a_login_is_left_anywhere(place: Place, tmp_path: Path, is_public: bool) -> None:
    def answer(wire: Wire) -> None:
        for step in login.steps:
            if wire.request() != (step.request if is_public else upstream.as_seen(step.request)):
                return  # a probe
            wire.say(step.response)

    with Upstream(answer) as upstream:
        if is_public:
            login = canaried_login(PUBLIC, "mcp.example.org")
            port = str(free_port())
            command = [sys.executable, "-I", "-S", "-c", SERVER, port, str(upstream.port)]
            options = ["--public", f"{PUBLIC}/mcp", f"http://127.0.0.1:{port}/mcp", "--", *command]
        else:
            login = canaried_login(upstream.url.removesuffix("/mcp"), "localhost")
            options = [upstream.url]
        with serving(place, options[-1], "--access-log", *options[:-1]) as served:
            with served.client() as client:
                for step in login.steps:
                    client.say(step.request)
                    assert client.request().startswith(step.response[:12]), step.request
            ended = served.ended(len(login.steps))
            for pid in (served.pid, *children(served.pid)):
                for part in ("cmdline", "environ"):
                    assert found(Path(f"/proc/{pid}/{part}").read_bytes(), login) == []
        assert found(served.errors, login) == []
        assert len(re.findall(rb" (?:GET|POST|PUT) /", served.errors)) == len(login.steps), "the access log"
    recorded = [exchange.get("oauth", {}).get("leg") for exchange in ended]
    assert recorded == [step.leg for step in login.steps]
    capture = served.capture.read_bytes()
    assert found(capture, login) == []
    for step in login.steps:
        for body in step.bodies:
            assert hashlib.sha256(body).hexdigest().encode() not in capture, step.request

    own = {name: place.environment[name] for name in ("HOME", "XDG_CONFIG_HOME", "MCPPROXY_CAPTURES")}
    out = tmp_path / "out"
    out.mkdir()
    for words in commands(served.capture, out):
        done = mcpproxy(*words, **own)  # type: ignore[arg-type] # no variable is called `stdin` or `cwd`
        assert done.returncode in (0, 1, 3), (words, done.stderr)
        assert found(done.stdout + done.stderr, login) == [], words
    assert found_below(tmp_path, login) == {}
