"""`install`, `uninstall` and `status` as typed, in made-up homes."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.wrapper import KEEP_SERVING_OPTION
from tests.harness import DEADLINE_S, wait_until
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal, started

SERVER = [sys.executable, "-c", "import sys\nfor line in sys.stdin: pass"]


def entry(*words: str) -> dict[str, Any]:
    return {"command": words[0], "args": list(words[1:])}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Claude Code and Cursor, with one server each, and a repository with a shared file."""
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    (home / "project/.git").mkdir(parents=True)
    (home / ".claude.json").write_text(
        json.dumps({"mcpServers": {"files": entry(*SERVER)}, "numStartups": 3}, indent=2)
    )
    (home / ".cursor/mcp.json").write_text('// mine\n{"mcpServers": {"weather": {"command": "uvx"},}}\n')
    (home / "project/.mcp.json").write_text(json.dumps({"mcpServers": {"shared": entry("npx", "x")}}))
    return home


def run(home: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return mcpproxy(*arguments, cwd=home / "project", HOME=str(home), NO_PROXY="127.0.0.1")


def contents(home: Path) -> dict[str, bytes]:
    files = (".claude.json", ".cursor/mcp.json", "project/.mcp.json")
    return {name: (home / name).read_bytes() for name in files}


def rows(done: "subprocess.CompletedProcess[bytes]") -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_an_earlier_install_wrote_is_brought_up_to_date(home: Path) -> None:
    before = contents(home)
    run(home, "install", "--all")
    for name, old in contents(home).items():  # as it was written before that option existed
        (home / name).write_bytes(re.sub(rb'"%b",\s*' % KEEP_SERVING_OPTION.encode(), b"", old))
    assert KEEP_SERVING_OPTION.encode() not in contents(home)[".claude.json"]
    by_hand = {"mine": entry("mcpproxy", "run", "--name", "mine", "--", *SERVER)}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": by_hand}))
    mine = contents(home)[".cursor/mcp.json"]
    done = run(home, "install", "--all")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"routed again, with new options" in done.stdout
    words = json.loads((home / ".claude.json").read_text())["mcpServers"]["files"]
    assert words["args"] == ["run", KEEP_SERVING_OPTION, "--name", "files", "--", *SERVER]
    assert contents(home)[".cursor/mcp.json"] == mine, "words that install did not write were changed"
    run(home, "uninstall", "--all")
    assert contents(home)[".claude.json"] == before[".claude.json"]


def test_install_and_uninstall_leave_every_file_as_it_was(home: Path) -> None:
    before = contents(home)
    done = run(home, "install", "--all")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"routed\n") == 2
    assert all(len(line) <= 80 for line in done.stdout.decode().splitlines())
    words = json.loads((home / ".claude.json").read_text())["mcpServers"]["files"]
    assert os.path.isabs(words["command"])
    assert words["args"] == ["run", "--name", "files", KEEP_SERVING_OPTION, "--", *SERVER]
    assert contents(home)["project/.mcp.json"] == before["project/.mcp.json"]
    middle = contents(home)
    again = run(home, "install", "--all", "--json")
    assert {row["action"] for row in rows(again)} == {"keep"}
    assert contents(home) == middle
    done = run(home, "uninstall", "--all")
    assert (done.returncode, done.stderr) == (0, b"")
    assert contents(home) == before
    assert b"Nothing to restore" in run(home, "uninstall", "--all").stdout
    state = home / ".local/state/mcpproxy"
    assert {path.stat().st_mode & 0o077 for path in [state, *state.rglob("*")]} == {0}


def test_it_says_once_where_captures_go_and_that_they_stay(home: Path) -> None:
    def told(*more: str) -> str:
        return " ".join(run(home, "install", *more).stdout.decode().split())

    stays = ", up to 1 GiB per session, and stay until you delete them with mcpproxy prune"
    assert f"Captures go to ~/.local/share/mcpproxy/captures{stays}" in told("cursor")
    assert "Captures go to" not in told("cursor")
    assert f"Captures go to ~/own{stays}" in told("claude-code", "--capture", str(home / "own"))


def test_a_dry_run_writes_nothing_at_all(home: Path) -> None:
    before = sorted(path for path in home.rglob("*"))
    for command in ("install", "uninstall"):
        done = run(home, command, "--all", "--dry-run")
        assert done.returncode == 0
    assert sorted(path for path in home.rglob("*")) == before or not (home / ".local/state/mcpproxy/backups").exists()


def test_without_a_client_it_shows_and_asks(home: Path) -> None:
    before = contents(home)
    done = run(home, "install")
    assert done.returncode == 2
    assert b"--all" in done.stderr
    assert done.stdout.count(b"will be routed") == 2
    for answer, changed in ((b"n\n", False), (b"\n", False), (b"y\n", True)):
        on_terminal("install", typed=answer, cwd=home / "project", HOME=str(home))
        assert (contents(home) != before) is changed, answer


def test_one_client_and_one_server_alone(home: Path) -> None:
    assert {row["client"] for row in rows(run(home, "install", "cursor", "--json"))} == {"cursor"}
    assert {row["server"] for row in rows(run(home, "install", "--all", "--server", "files", "--json"))} == {"files"}
    done = run(home, "install", "--all", "--server", "nosuch")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"nosuch" in done.stderr
    done = run(home, "install", "cursr")
    assert done.returncode == 2
    assert b"did you mean cursor?" in done.stderr


def test_a_shared_project_file_is_routed_once_and_with_a_warning(home: Path) -> None:
    done = run(home, "install", "--all", "--scope", "project")
    assert done.returncode == 0
    assert done.stdout.count(b"routed\n") == 1
    for word in (b"VS Code", b"Copilot CLI", b"do not commit"):
        assert word in done.stderr
    wrapped = json.loads((home / "project/.mcp.json").read_text())["mcpServers"]["shared"]
    assert wrapped["args"][-2:] == ["npx", "x"]


def test_qwen_code_wants_approval_anew_after_every_change_of_a_project_entry(home: Path) -> None:
    """The approval is bound to a hash of the entry, which both `install` and `uninstall` change."""
    (home / "project/.qwen").mkdir()
    (home / "project/.qwen/settings.json").write_text(json.dumps({"mcpServers": {"files": entry(*SERVER)}}))
    for command in ("install", "uninstall"):
        done = run(home, command, "qwen", "--scope", "project")
        assert done.returncode == 0
        text = " ".join(done.stdout.decode().split())
        assert "Next, in Qwen Code: start a new session (first run `qwen mcp approve NAME`)" in text, command


def test_a_broken_file_is_named_and_the_others_are_written(home: Path) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {\n  "files": }')
    done = run(home, "install", "--all")
    assert done.returncode == 2
    assert b"~/.claude.json of Claude Code cannot be read: line 2, column 12" in done.stderr
    assert b"weather" in done.stdout
    assert (home / ".claude.json").read_text() == '{"mcpServers": {\n  "files": }'


def test_a_comment_that_a_client_refuses_is_named(home: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}}} // no'
    (home / ".claude.json").write_text(text)
    done = run(home, "install", "claude-code")
    assert done.returncode == 2
    assert b"a comment, which this client refuses" in done.stderr
    assert (home / ".claude.json").read_text() == text


def test_a_constant_that_only_python_reads_is_named(home: Path) -> None:
    for text, place in (
        ('{"mcpServers": {"a": {"command": "x"}},\n "n": NaN}', "line 2, column 7: NaN is not JSON"),
        ('{"mcpServers": {"a": {"command": "x"},},\n "n": -Infinity}', "line 2, column 7: -Infinity is not JSON"),
    ):
        (home / ".cursor/mcp.json").write_text(text)
        for command in ("install", "uninstall"):
            done = run(home, command, "cursor")
            assert done.returncode == 2
            assert place in done.stderr.decode()
        assert (home / ".cursor/mcp.json").read_text() == text


def test_what_a_killed_install_leaves_beside_the_file_of_cline_goes_with_the_next(home: Path) -> None:
    path = home / ".cline/data/settings/cline_mcp_settings.json"
    lock = path.with_name(f"{path.name}.lock")
    lock.mkdir(parents=True)
    (lock / "owner.cline").touch()
    os.utime(lock, (time.time() + 3600,) * 2)  # not stale, even on a busy machine
    path.write_text(json.dumps({"mcpServers": {"files": entry(*SERVER)}}))
    with started("install", "cline", HOME=str(home)) as process:
        wait_until(lambda: list(path.parent.glob("*.lock.tmp.*/owner.*")))
        process.kill()
        process.wait(DEADLINE_S)
    (left,) = path.parent.glob("*.lock.tmp.*")
    others = [path.with_name(f"{lock.name}.tmp.{name}") for name in ("1234-abc", "0" * 16, "1" * 16, "2" * 16)]
    for other in others[:3]:
        other.mkdir()
    (others[1] / "theirs").touch()
    others[3].write_text("a file")
    for old in (left, lock, others[0], others[1], others[3]):
        os.utime(old, (0, 0))
    assert run(home, "install", "cline").returncode == 0
    assert sorted(path.parent.iterdir()) == sorted([path, *others])


def test_names_from_files_cannot_act_on_a_terminal(home: Path) -> None:
    name = "\x1b]0;x\x07\u202e"
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {name: {"command": "x"}}}))
    for command in (["install", "cursor"], ["status"], ["install", "cursor", "--json"], ["uninstall", "cursor"]):
        done = run(home, *command)
        assert done.returncode == 0
        assert not {"\x1b", "\x07", "\u202e"} & {*done.stdout.decode()}


def test_captures_go_where_the_entry_says_whatever_the_client_passes_on(home: Path, tmp_path: Path) -> None:
    run(home, "install", "claude-code", "--capture", str(tmp_path / "own"))
    words = json.loads((home / ".claude.json").read_text())["mcpServers"]["files"]
    command = [words["command"], *words["args"]]
    subprocess.run(command, input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', env={"HOME": str(home)}, check=True)
    assert list((tmp_path / "own/files").glob("*.mcpcap"))
    (row,) = rows(run(home, "status", "claude-code", "--json"))[:1]
    assert (row["routed"], row["capture"] is not None, row["parent"] is not None) == (True, True, True)
    again = run(home, "install", "claude-code", "--capture", str(tmp_path / "other")).stdout.decode()
    assert "already routed, to other captures: uninstall it first" in " ".join(again.split())


class _Server(BaseHTTPRequestHandler):
    """Responds as its path says: /open, /oauth, /denied, /redirect; /to/open redirects to /open."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert "Authorization" not in self.headers
        code = {"/open": 202, "/oauth": 401, "/denied": 401}.get(self.path.partition("?")[0], 307)
        self.send_response(code)
        if self.path == "/oauth":
            self.send_header("WWW-Authenticate", 'Bearer resource_metadata="http://127.0.0.1/x"')
        if self.path == "/redirect":
            self.send_header("Location", "https://other.example/mcp")
        if self.path.startswith("/to/"):
            self.send_header("Location", f"http://{self.headers['Host']}{self.path.removeprefix('/to')}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def http_server() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_servers_with_a_url_are_asked_first(home: Path) -> None:
    with http_server() as port:
        base = f"http://127.0.0.1:{port}"
        paths = ("open", "oauth", "denied", "redirect", "to/open", "to/oauth")
        servers = {path.replace("/", "-"): {"url": f"{base}/{path}"} for path in paths}
        servers["open"]["url"] += "?token=secret"
        text = json.dumps({"mcpServers": servers}, indent=1)
        (home / ".cursor/mcp.json").write_text(text)
        done = run(home, "install", "cursor")
        assert done.returncode == 0
        found = {row["server"]: row for row in rows(run(home, "install", "cursor", "--json"))}
    kept = dict.fromkeys(("open", "to-open"), "keep")
    assert {name: row["action"] for name, row in found.items()} == dict.fromkeys(servers, "skip") | kept
    assert "OAuth" in found["oauth"]["reason"]
    assert "OAuth" in found["to-oauth"]["reason"]
    assert "other.example" in found["redirect"]["reason"]
    assert b"mcpproxy up" in done.stdout
    assert b"secret" not in done.stdout + done.stderr
    routed = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["open"]["url"]
    assert routed.endswith("/open?token=secret")
    assert str(port) not in routed
    assert b"secret" not in (home / ".local/state/mcpproxy/install.json").read_bytes()
    assert run(home, "uninstall", "cursor").returncode == 0
    assert (home / ".cursor/mcp.json").read_text() == text


def test_what_a_server_says_cannot_act_on_a_terminal(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        servers = {"odd": {"url": url}, "broken": {"url": "http://[::1"}}
        (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": servers}))
        with started("install", "cursor", HOME=str(home), NO_PROXY="127.0.0.1") as process:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"\x1b[2J\r\n\r\n")
            output, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, errors) == (0, b"")
    assert b"left alone: cannot be reached: \\x1b[2J" in output
    assert b"left alone" in output.partition(b"broken")[2]
    assert b"\x1b" not in output
    assert b"\r" not in output


def test_all_files_are_written_if_nobody_reads_what_is_printed(home: Path) -> None:
    before = contents(home)
    for command, routed in (("install", True), ("uninstall", False)):
        with started(command, "--all", HOME=str(home)) as process:
            assert process.stdout is not None
            process.stdout.close()
            process.wait(DEADLINE_S)
        changed = {name for name, data in contents(home).items() if data != before[name]}
        assert changed == ({".claude.json", ".cursor/mcp.json"} if routed else set())


def test_a_directory_that_no_file_can_name(home: Path) -> None:
    before = contents(home)
    done = run(home, "install", "cursor", "--capture", os.fsdecode(b"/tmp/\xff"))
    assert done.returncode == 2
    assert b"is not valid UTF-8" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert contents(home) == before


@pytest.mark.parametrize("url", ["http://ho\tst/mcp", "http://exa\nmple.com/"])
def test_a_url_with_characters_that_are_left_out_is_left_alone(home: Path, url: str) -> None:
    text = json.dumps({"mcpServers": {"odd": {"url": url}}})
    (home / ".cursor/mcp.json").write_text(text)
    done = run(home, "install", "cursor")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"left alone" in done.stdout
    assert (home / ".cursor/mcp.json").read_text() == text


def test_a_file_of_the_project_that_is_a_link_out_of_it_is_left_alone(home: Path) -> None:
    (home / ".factory").mkdir()
    text = json.dumps({"mcpServers": {"own": entry("x")}})
    (home / ".factory/mcp.json").write_text(text)
    (home / "project/.cursor").symlink_to(home / ".factory")
    done = run(home, "install", "cursor", "--scope", "project")
    assert done.returncode == 2
    assert b"it is a link to" in done.stderr
    assert (home / ".factory/mcp.json").read_text() == text


def test_a_file_with_two_names_is_restored_by_either(home: Path) -> None:
    (home / ".factory").mkdir()
    (home / ".cursor/mcp.json").unlink()
    own = home / "shared.json"
    text = json.dumps({"mcpServers": {"own": {"command": "x"}}})
    own.write_text(text)
    for name in (".cursor/mcp.json", ".factory/mcp.json"):
        (home / name).symlink_to(own)
    run(home, "install", "cursor", "droid")
    assert own.read_text() != text
    run(home, "uninstall", "droid")
    run(home, "uninstall", "--all")
    assert own.read_text() == text


def test_an_entry_that_is_gone_keeps_no_listener(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        entry_ = {"url": url, "headers": {"Authorization": "x"}}
        (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"far": entry_}}))
        with started("install", "cursor", HOME=str(home), NO_PROXY="127.0.0.1") as process:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n")
            process.communicate(timeout=DEADLINE_S)
    state = home / ".local/state/mcpproxy/install.json"
    assert len(json.loads(state.read_text())["listeners"]) == 1
    (home / ".cursor/mcp.json").write_text("{}")
    assert run(home, "uninstall", "--all").returncode == 0
    assert json.loads(state.read_text())["listeners"] == []


@pytest.mark.parametrize("odd", ['"at_s": 1' + "0" * 400, '"at_s": 1e300', '"at_s": NaN', '"at_s": -1'])
def test_times_in_our_records_that_cannot_be_end_no_command(home: Path, odd: str) -> None:
    run(home, "install", "claude-code")
    state = home / ".local/state/mcpproxy/install.json"
    text = state.read_text()
    state.write_text(re.sub(r'"at_s": [0-9.e+]+', lambda _: odd, text))
    assert state.read_text() != text
    for command in ("status", "uninstall"):
        done = run(home, command, "claude-code")
        assert (done.returncode, done.stderr) == (0, b"")
