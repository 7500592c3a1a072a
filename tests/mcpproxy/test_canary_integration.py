"""A secret in every position of an address, sent through `serve` or given in a command, is found nowhere afterwards.

It is not in the capture, the cache, exports or state files, nor in what any command prints. Only the URL on the stdout
of `serve`, which the client needs, and JSON-RPC bodies are in plain text.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import DEADLINE_S, Place, members_of, wait_until
from tests.http_harness import PING, Upstream, Wire, serving
from tests.mcpproxy.cli.typed import mcpproxy

CANARY = "c4n4ry-77e1d0"
C = CANARY.encode()
ASKED = (
    b"GET /s/%b/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /mcp?%b== HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /mcp?token=%b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /authorize?resource=https://u:%b@h&scope=%b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /authorize?redirect_uri=https%%3A%%2F%%2Fh%%2F%b%%3Fcode%%3D%b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nReferer: http://h/%b?%b\r\nOrigin: http://localhost/%b\r\n\r\n",
    b"GET /mcp;x=%b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://h/%b/sse HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /.well-known/oauth-protected-resource/%b/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%b HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"BREW /%b HTCPCP/1.0\r\n\r\n",
    b"GET /%b /%b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTraceparent: 00-%b-01\r\nTracestate: a,%b\r\nBaggage: a=%b;p=%b,%b\r\n\r\n",
)
ANSWERS = (
    b"Location: /%b/mcp?%b\r\nContent-Length: 0\r\n\r\n",
    b'WWW-Authenticate: Bearer resource_metadata="https://h/.well-known/x/%b"\r\nContent-Length: 0\r\n\r\n',
    b"Content-Type: text/event-stream\r\nContent-Length: %d\r\n\r\nevent: endpoint\ndata: /%b/messages?id=%b\n\n",
    b'Content-Type: text/plain\r\nContent-Length: %d\r\n\r\nnot a message: "jsonrpc" %b',
    b"baggage: a=%b\r\ntraceparent: %b\r\ntracestate: a=https://u:%b@h/\r\nContent-Length: 0\r\n\r\n",
)

DOCUMENT = (
    b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{"resource":"https:\\/\\/h\\/%b","x":"https://h/%b"}'
)


def filled(template: bytes) -> bytes:
    """Returns a request or a response with the canary in all its places, and with its length."""
    text = template.replace(b"%d", b"\x00").replace(b"%b", C).replace(b"%%", b"%")
    head, _, body = text.partition(b"\r\n\r\n")
    return head.replace(b"\x00", b"%d" % len(body)) + b"\r\n\r\n" + body


def places_with_canary(root: Path) -> list[str]:
    """Returns the files below a folder that hold the canary in their name or content."""
    found = []
    for path in sorted(root.rglob("*")):
        if CANARY in path.name or (path.is_file() and C in path.read_bytes()):
            found.append(str(path))
    return found


def commands(capture: Path, out: Path) -> list[list[str]]:
    """Returns everything that a user may do with a capture."""
    reading = [
        ["ls"],
        ["info"],
        ["show"],
        ["show", "--json"],
        ["verify"],
        ["check", "--notes", "--allow-empty"],
        ["stats"],
    ]
    queries = [["query", sql] for sql in ("from captures", "from http_exchanges")]
    exports = [["export", "--format", form, str(out / form)] for form in ("csv", "duckdb")]
    return [[*words, str(capture)] for words in reading + queries + exports]


@pytest.mark.costly("all that a user may do with a capture, a process each")
def test_no_secret_of_an_address_is_left_anywhere(place: Place, tmp_path: Path) -> None:
    count = iter(range(1000))

    def answer(wire: Wire) -> None:
        while request := wire.request():
            body = filled(DOCUMENT if b"/.well-known/" in request else ANSWERS[next(count) % len(ANSWERS)])
            wire.say(b"HTTP/1.1 %d X\r\n" % (401 if b"WWW-Auth" in body else 200) + body)

    with Upstream(answer) as upstream:
        address = f"{upstream.url.rsplit('/', 1)[0]}/s/{CANARY}/mcp?{CANARY}=="
        with serving(place, address) as served:
            for template in ASKED * len(ANSWERS):
                wire = served.client()
                wire.say(filled(template))
                wire.hang_up()
                wire.end()
                wire.close()
            wire = served.client()
            wire.say(
                b"POST /s/%b/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (C, len(PING), PING)
            )
            wire.hang_up()
            wire.end()
            wire.close()
            capture = served.capture
            wait_until(lambda: len(members_of(capture, "exchange")) > len(ASKED))
        assert CANARY in served.url, "the client needs its URL whole"
        assert C not in served.errors, "stderr ends in logs"
    check_everywhere(place, capture, tmp_path)


def check_everywhere(place: Place, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    own = {name: place.environment[name] for name in ("HOME", "XDG_CONFIG_HOME", "MCPPROXY_CAPTURES")}
    for words in commands(capture, tmp_path / "out"):
        done = mcpproxy(*words, **own)  # type: ignore[arg-type] # no variable is called `stdin` or `cwd`
        assert done.returncode in (0, 1, 3), (words, done.stderr)
        assert C not in done.stdout + done.stderr, words
    assert places_with_canary(tmp_path) == []


@pytest.mark.costly("all that a user may do with a capture, a process each")
def test_no_secret_of_an_address_in_a_command_is_left_anywhere(place: Place, tmp_path: Path) -> None:
    server = [
        sys.executable,
        "-c",
        "import sys; sys.stdin.read()",
        f"https://h/s/{CANARY}/mcp?{CANARY}==",
        f"--url=https://u:{CANARY}@h/sse",
        f"URL=wss://h/{CANARY}",
    ]
    done = subprocess.run(
        place.command(server, capture=tmp_path / "x.mcpcap"),
        env=place.environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_S,
        check=True,
    )
    assert C not in done.stderr
    (header,) = members_of(tmp_path / "x.mcpcap", "header")
    assert "https://h/" in json.dumps(header["argv"]), "the host is worth knowing"
    check_everywhere(place, tmp_path / "x.mcpcap", tmp_path)


@pytest.mark.parametrize("option", [["--keep-path", "acme"], []], ids=["asked for", "not asked for"])
def test_the_user_may_keep_a_segment(place: Place, tmp_path: Path, option: list[str]) -> None:
    server = [sys.executable, "-c", "", "https://h/acme/mcp"]
    done = subprocess.run(
        place.command(server, *option, capture=tmp_path / "x.mcpcap"),
        env=place.environment,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0
    (header,) = members_of(tmp_path / "x.mcpcap", "header")
    assert (header["argv"][-1] == "https://h/acme/mcp") == bool(option)
    assert ("keep-path" in header["opt_outs"]) == bool(option)


@pytest.mark.parametrize(("command", "segment"), [("run", "a/b"), ("run", "a?b"), ("serve", "#")])
def test_what_can_be_no_segment_is_refused(place: Place, command: str, segment: str) -> None:
    rest = ["--", "true"] if command == "run" else ["http://127.0.0.1:9/mcp"]
    done = place.run(command, "--keep-path", segment, *rest)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--keep-path must be a single path segment" in done.stderr


def test_a_url_for_a_command_is_refused_and_nothing_is_left_of_it(place: Place) -> None:
    done = place.run("run", "--", f"https://h.example/s/{CANARY}")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"mcpproxy serve URL" in done.stderr
    assert C not in done.stderr
    assert places_with_canary(place.root) == []
