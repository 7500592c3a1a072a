"""What `serve` refuses before it does anything: one line on stderr, exit code 2, no capture."""

import subprocess
from pathlib import Path

from tests.harness import Place
from tests.mcpproxy.cli.typed import python

URL = "http://127.0.0.1:9/mcp"
SERVE = "import sys; from mcpproxy.__main__ import main; sys.exit(main())"


MISTAKES: list[tuple[list[str], str]] = [
    ([], "the following arguments are required: URL"),
    (["example.com/mcp"], "write http://HOST:PORT/PATH"),
    (["ftp://example.com/mcp"], "write http://HOST:PORT/PATH"),
    (["http://"], "write http://HOST:PORT/PATH"),
    (["http://example.com:99999/"], "the port in URL is not a number"),
    (["http://b\u00fc..cher.example/"], "write http://HOST:PORT/PATH"),
    ([f"http://{'a' * 70}.invalid/mcp"], "write http://HOST:PORT/PATH"),
    (["http://example.com/a b"], "white space"),
    (["http://example.com/#top"], "a fragment"),
    (["http://user:secret@example.com/mcp"], "write http://example.com/…"),
    (["ftp://user:secret@example.com/mcp"], "write http://HOST:PORT/PATH"),
    ([URL, "--ca-file", "x.pem"], "for https addresses"),
    ([URL, "--insecure"], "for https addresses"),
    (["https://127.0.0.1:9/", "--ca-file", "/nowhere.pem"], "name a file in PEM"),
    ([URL, "--listen", "localhost"], "write 9000, 127.0.0.1:9000"),
    ([URL, "--listen", "65536"], "write 9000, 127.0.0.1:9000"),
    ([URL, "--listen", "127.0.0.1:" + "9" * 5000], "write 9000, 127.0.0.1:9000"),
    ([URL, "--listen", "127.0.0.1:65536"], "write 9000, 127.0.0.1:9000"),
    ([URL, "--listen", "x" * 70 + ":1"], "choose another address"),
    ([URL, "--allow-host", "a..b"], "is not a host name"),
    ([URL, "--max-connections", "0"], "use 1 or more"),
    ([URL, "--max-connections", "-1"], "--max-connections"),
    ([URL, "--max-connections", "many"], "is not a whole number"),
    ([URL, "--capture"], "expected one argument"),
    ([URL, "--frobnicate"], "unrecognized arguments"),
    ([URL, "--public", "mcp.example.org/mcp"], "write https://HOST/PATH"),
    ([URL, "--public", "https://example.org:0/mcp"], "write https://HOST/PATH"),
    ([URL, "--public", "https://user:secret@example.org/mcp"], "--public must not contain credentials"),
    ([URL, "--public", "https://example.org/mcp?key=secret"], "a query"),
    ([URL, "--public", "https://example.org/mcp#"], "a fragment"),
    ([URL + "?key=secret", "--public", "https://example.org/mcp"], "URL must not contain a query"),
    ([URL, "--public", "https://example.org/other"], "write the same path in both"),
    ([URL, "--public", "https://example.org/mcp", "--rewrite-location"], "cannot be combined with --public"),
    ([URL, "--public", "https://example.org/mcp", "--allow-host", "a"], "cannot be combined with --public"),
    (["unix:/x", "--public", "https://example.org/mcp", "--insecure"], "for https addresses"),
    ([URL, "--"], "command is missing after --"),
    (["unix:/x"], "only with --public"),
    ([URL, "--listen", "unix:/x"], "needs --public"),
    ([URL, "--public", "https://example.org/mcp", "--listen", "unix:/nowhere/x"], "choose another path"),
    ([URL, "--public", "https://example.org/mcp", "--listen", f"unix:/{'x' * 200}"], "choose another path"),
]


def refused(*arguments: str, captures: Path) -> "subprocess.CompletedProcess[bytes]":
    """Run `serve` with arguments that it refuses before it listens, in a process that has loaded it."""
    done = python(SERVE, *arguments, MCPPROXY_CAPTURES=str(captures))
    assert not captures.exists()
    return done


def test_invalid_arguments_are_reported_in_one_line(tmp_path: Path) -> None:
    for arguments, told in MISTAKES:
        done = refused("serve", *arguments, captures=tmp_path / "captures")
        assert (done.returncode, done.stdout) == (2, b""), arguments
        assert done.stderr.startswith(b"mcpproxy: "), arguments
        assert done.stderr.count(b"\n") == 1, arguments
        assert told in done.stderr.decode()
        assert b"secret" not in done.stderr, arguments


def test_nobody_listens_beyond_loopback_by_accident(tmp_path: Path) -> None:
    for listen in ("0.0.0.0:0", "[::]:0", "0:0", ":0", "[::ffff:0.0.0.0]:0"):
        done = refused("serve", URL, "--listen", listen, captures=tmp_path / "captures")
        assert done.returncode == 2, listen
        assert b"--dangerously-listen-beyond-loopback" in done.stderr, listen


def test_a_mistake_is_told_to_a_user_as_well(place: Place) -> None:
    done = place.run("serve", "http://example.com/#top")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"a fragment" in done.stderr
    assert not place.captures.exists()


def test_a_capture_that_cannot_be_created_serves_nothing(place: Place) -> None:
    taken = place.root / "x.mcpcap"
    taken.write_bytes(b"precious")
    done = place.run("serve", URL, "--capture", str(taken))
    assert (done.returncode, done.stdout) == (73, b"")
    assert taken.read_bytes() == b"precious"
