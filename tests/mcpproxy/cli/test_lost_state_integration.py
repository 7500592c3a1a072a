"""How entries are restored when the records of `install` are lost, and what it leaves alone when they are not."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.wrapper import KEEP_SERVING_OPTION
from tests.mcpproxy.cli.test_install_integration import http_server
from tests.mcpproxy.cli.typed import mcpproxy, started

SERVER = [sys.executable, "-c", "import sys\nfor line in sys.stdin: pass"]
BY_HAND = {"command": "mcpproxy", "args": ["run", "--name", "mine", "--", *SERVER]}


def run(home: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return mcpproxy(*arguments, cwd=home / "project", HOME=str(home), NO_PROXY="127.0.0.1")


def records(home: Path) -> tuple[Path, Path]:
    """Returns the paths of both copies of the records."""
    return home / ".local/state/mcpproxy/install.json", home / ".config/mcpproxy/install.json"


def servers(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]
    return found


def rows(done: "subprocess.CompletedProcess[bytes]") -> dict[str, dict[str, Any]]:
    return {row["server"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Cursor with a command, a URL and a command that was wrapped by hand, all routed; `far` is running."""
    (tmp_path / ".cursor").mkdir()
    (tmp_path / "project/.git").mkdir(parents=True)
    with http_server() as port:
        entries = {
            "files": {"command": SERVER[0], "args": SERVER[1:]},
            "far": {"url": f"http://127.0.0.1:{port}/open"},
        }
        (tmp_path / "before.json").write_text(json.dumps({"mcpServers": entries | {"mine": BY_HAND}}, indent=1))
        shutil.copy(tmp_path / "before.json", tmp_path / ".cursor/mcp.json")
        assert run(tmp_path, "install", "--all").returncode == 0
    assert servers(tmp_path)["far"] != entries["far"]
    return tmp_path


def gone(path: Path) -> None:
    path.unlink()


def corrupt(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("lose", [gone, corrupt, emptied])
@pytest.mark.parametrize("copy", [0, 1])
def test_either_copy_is_enough(home: Path, lose: Callable[[Path], None], copy: int) -> None:
    lose(records(home)[copy])
    done = run(home, "uninstall", "--all")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (home / ".cursor/mcp.json").read_bytes() == (home / "before.json").read_bytes()


@pytest.mark.parametrize("lose", [gone, corrupt, unreadable])
def test_without_either_the_backups_tell_where_a_port_leads(home: Path, lose: Callable[[Path], None]) -> None:
    for path in records(home):
        lose(path)
    found = rows(run(home, "status", "--json"))
    assert {name: row["routed"] for name, row in found.items()} == dict.fromkeys(("files", "far", "mine"), True)
    assert b"far" in run(home, "status").stdout
    done = run(home, "uninstall", "--all")
    if lose is unreadable:
        assert done.returncode == 2
        assert b"cannot write" in done.stderr
        assert b"install.json" in done.stderr
        return
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"perhaps wrapped by hand" in done.stdout
    before = json.loads((home / "before.json").read_text())["mcpServers"]
    assert servers(home) == before | {"mine": {"command": SERVER[0], "args": SERVER[1:]}}


def test_up_serves_what_it_finds_again(home: Path) -> None:
    """The clients keep their servers until the entries are restored."""
    for path in records(home):
        path.unlink()
    with started("up", HOME=str(home)) as up:
        assert up.stderr is not None
        assert b"far" in up.stderr.readline()
        assert json.loads(records(home)[0].read_text())["listeners"][0]["name"] == "far"
    done = run(home, "uninstall", "--all")
    assert (done.returncode, done.stderr) == (0, b"")
    before = json.loads((home / "before.json").read_text())["mcpServers"]
    assert servers(home) == before


def test_entries_that_cannot_be_restored_are_reported(home: Path) -> None:
    """Without the backups, an entry with a URL cannot be restored: the message says so, and what to do."""
    shutil.rmtree(home / ".local/state/mcpproxy")
    records(home)[1].unlink()
    for command in (("status",), ("uninstall", "--all"), ("uninstall", "--all"), ("uninstall", "cursor")):
        done = run(home, *command)
        assert done.returncode == 2
        (line,) = done.stderr.decode().splitlines()
        assert "far leads to 127.0.0.1:" in line
        assert line.endswith("write the server's own URL into ~/.cursor/mcp.json")
        assert b"Nothing to restore" not in done.stdout
    done = run(home, "doctor", "cursor", "far")
    assert b"no record of `install` says of which server" in b" ".join(done.stdout.split())
    left = servers(home)
    assert (left["files"]["command"], left["mine"]["command"]) == (SERVER[0], SERVER[0])
    left["far"]["url"] = "http://127.0.0.1:9/open"
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": left}))
    assert run(home, "uninstall", "--all").returncode == 0


def test_a_port_that_nobody_routed_is_no_concern_of_ours(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / "project").mkdir()
    far = {"url": "http://127.0.0.1:16686/mcp"}
    (tmp_path / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"far": far}}))
    done = run(tmp_path, "status")
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_was_wrapped_by_hand_stays_and_is_named(home: Path) -> None:
    listed = run(home, "uninstall", "--dry-run", "cursor").stdout
    done = run(home, "uninstall", "cursor")
    assert (done.returncode, done.stderr) == (0, b"")
    for text in (listed, done.stdout):
        assert b"wrapped by hand" in text
        assert b"mcpproxy uninstall cursor --server mine" in text
    assert (home / ".cursor/mcp.json").read_bytes() == (home / "before.json").read_bytes()
    done = run(home, "uninstall", "cursor", "--server", "mine")
    assert (done.returncode, done.stderr) == (0, b"")
    assert servers(home)["mine"] == {"command": SERVER[0], "args": SERVER[1:]}


def test_entries_of_an_earlier_version_are_recognised_by_its_records(home: Path) -> None:
    """Earlier versions recorded neither which commands they wrapped nor the option that marks them."""
    for path in records(home):
        stored = json.loads(path.read_text())
        for written in stored["files"].values():
            del written["routed"]
        path.write_text(json.dumps(stored))
    text = (home / ".cursor/mcp.json").read_text()
    (home / ".cursor/mcp.json").write_text(
        text.replace(f'"{KEEP_SERVING_OPTION}", ', "").replace(f'"{KEEP_SERVING_OPTION}",', "")
    )
    assert KEEP_SERVING_OPTION not in (home / ".cursor/mcp.json").read_text()
    assert run(home, "uninstall", "--all").returncode == 0
    assert servers(home)["files"] == {"command": SERVER[0], "args": SERVER[1:]}


def test_addresses_of_a_repository_that_nobody_approved_are_sent_nothing(home: Path) -> None:
    with http_server() as port:
        entries = {"theirs": {"url": f"http://127.0.0.1:{port}/asked"}}
        (home / "project/.cursor").mkdir()
        (home / "project/.cursor/mcp.json").write_text(json.dumps({"mcpServers": entries}))
        (home / "project/.mcp.json").write_text(json.dumps({"mcpServers": entries}))
        for more in (["--dry-run"], ["--all"], ["--all", "--dry-run"]):
            done = run(home, "install", "--scope", "project", *more)
            assert done.returncode == 0
            assert b"left alone: approve it in Cursor first" in done.stdout


def edited(home: Path, change: Callable[[dict[str, Any]], Any], *, copies: tuple[int, ...] = (0, 1)) -> None:
    """Change what some copies of the records say."""
    for path in (records(home)[copy] for copy in copies):
        stored = json.loads(path.read_text())
        change(stored)
        path.write_text(json.dumps(stored))


def is_as_before(home: Path) -> bool:
    return (home / ".cursor/mcp.json").read_bytes() == (home / "before.json").read_bytes()


def test_the_newest_copy_wins(home: Path) -> None:
    """The disk of one copy was full while the second install ran, so that copy does not know about it."""
    state, config = records(home)
    kiro = home / ".kiro/settings/mcp.json"
    kiro.parent.mkdir(parents=True)
    kiro.write_text(json.dumps({"mcpServers": {"new": {"command": SERVER[0], "args": SERVER[1:]}}}))
    before = kiro.read_bytes()
    for older in (state, config):
        kept = older.read_bytes()
        assert run(home, "install", "kiro").returncode == 0
        older.write_bytes(kept)
        (home / ".kiro/settings/extra").write_text("")
        kiro.write_bytes(kiro.read_bytes())
        assert str(kiro.resolve()) not in json.loads(kept)["files"]
        done = run(home, "uninstall", "kiro")
        assert (done.returncode, kiro.read_bytes()) == (0, before)
        assert str(kiro.resolve()) in json.loads(older.read_text())["files"], older
        older.write_bytes(kept)
        other = config if older is state else state
        other.write_bytes(kept)


def test_records_without_a_counter_are_the_oldest(home: Path) -> None:
    def forget(stored: dict[str, Any]) -> None:
        stored.update(files={}, listeners=[])
        del stored["serial"]

    edited(home, forget, copies=(0,))
    assert run(home, "uninstall", "--all").returncode == 0
    assert is_as_before(home)


@pytest.mark.parametrize("away", [gone, emptied])
def test_a_file_that_is_away_for_a_moment_keeps_its_listener(home: Path, away: Callable[[Path], None]) -> None:
    cursor = home / ".cursor/mcp.json"
    routed = cursor.read_bytes()
    kept = [path.read_bytes() for path in records(home)]
    away(cursor)
    for more in (["--dry-run"], ["--all", "--dry-run"], ["--purge", "--dry-run"]):
        assert run(home, "uninstall", *more).returncode == 0
        assert [path.read_bytes() for path in records(home)] == kept
    assert run(home, "uninstall", "--all").returncode == 0
    cursor.write_bytes(routed)
    assert run(home, "uninstall", "--all").returncode == 0
    assert is_as_before(home)


def test_a_dry_run_writes_nothing(home: Path) -> None:
    """Not even that an entry is gone is recorded."""
    kept = [path.read_bytes() for path in records(home)]
    (home / ".cursor/mcp.json").write_text("{}")
    for more in (["cursor"], ["--all"], ["--purge"]):
        assert run(home, "uninstall", "--dry-run", *more).returncode == 0
        assert [path.read_bytes() for path in records(home)] == kept


def test_a_port_that_the_records_have_forgotten_is_found_by_the_backups(home: Path) -> None:
    edited(home, lambda stored: stored.update(listeners=[]))
    assert rows(run(home, "status", "--json"))["far"]["routed"]
    done = run(home, "uninstall", "--purge", "--yes")
    assert (done.returncode, b"still routed: far" in done.stderr) == (2, True)
    assert run(home, "uninstall", "--all").returncode == 0
    assert is_as_before(home)


def copied(home: Path) -> Path:
    """Copy the routed entries to another client, as a user might; returns its file."""
    kiro = home / ".kiro/settings/mcp.json"
    kiro.parent.mkdir(parents=True)
    entries = servers(home)
    kiro.write_text(json.dumps({"mcpServers": {name: entries[name] for name in ("files", "far")}}))
    return kiro


@pytest.mark.parametrize("first", ["--all", "cursor"])
def test_copies_of_routed_entries_are_restored_as_well(home: Path, first: str) -> None:
    kiro = copied(home)
    routed = json.loads(kiro.read_text())["mcpServers"]
    assert run(home, "uninstall", first).returncode == 0
    assert is_as_before(home)
    if first == "cursor":
        assert json.loads(kiro.read_text())["mcpServers"] == routed
        assert run(home, "uninstall", "--purge", "--yes").returncode == 2
        assert run(home, "uninstall", "--all").returncode == 0
    before = json.loads((home / "before.json").read_text())["mcpServers"]
    assert json.loads(kiro.read_text())["mcpServers"] == {name: before[name] for name in ("files", "far")}
    assert json.loads(records(home)[0].read_text())["listeners"] == []


def test_a_copy_that_an_earlier_version_has_abandoned_is_restored(home: Path) -> None:
    """Its listener is gone from the records; only the backup of the other client's file has the port."""
    kiro = copied(home)
    assert run(home, "uninstall", "cursor").returncode == 0
    edited(home, lambda stored: stored.update(listeners=[]))
    assert run(home, "uninstall", "--purge", "--yes").returncode == 2
    assert run(home, "uninstall", "--all").returncode == 0
    before = json.loads((home / "before.json").read_text())["mcpServers"]
    assert json.loads(kiro.read_text())["mcpServers"]["far"] == before["far"]


def test_members_that_a_later_version_may_add_cost_nothing(home: Path) -> None:
    def extend(stored: dict[str, Any]) -> None:
        for fields in (stored, *stored["listeners"], *stored["files"].values()):
            fields["tls"] = False
        for written in stored["files"].values():
            written["at_s"] = float("inf")

    edited(home, extend)
    done = run(home, "uninstall", "--all")
    assert (done.returncode, done.stderr) == (0, b"")
    assert is_as_before(home)


ODD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a file": lambda stored: stored["files"].update(dict.fromkeys(stored["files"], 1)),
    "a port": lambda stored: stored["listeners"][0].update(port="16500"),
    "users": lambda stored: stored["listeners"][0].update(users="abc"),
    "listeners": lambda stored: stored.update(listeners="abc"),
    "values": lambda stored: stored.update(listeners=[None, 1, {}]),
    "lists": lambda stored: stored.update(listeners=[[]]),
    "a missing list": lambda stored: stored.pop("listeners"),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_one_copy_cannot_tell_the_other_does(home: Path, odd: str) -> None:
    edited(home, ODD[odd], copies=(0,))
    done = run(home, "uninstall", "--all")
    assert (done.returncode, done.stderr) == (0, b"")
    assert is_as_before(home)


@pytest.mark.parametrize("odd", ODD)
def test_what_neither_copy_can_tell_is_recovered(home: Path, odd: str) -> None:
    edited(home, ODD[odd])
    assert rows(run(home, "status", "--json"))["far"]["routed"]
    done = run(home, "uninstall", "--all")
    assert (done.returncode, done.stderr) == (0, b"")
    before = json.loads((home / "before.json").read_text())["mcpServers"]
    assert {**servers(home), "mine": BY_HAND} == before


def test_records_of_a_later_version_are_left_alone(home: Path) -> None:
    edited(home, lambda stored: stored.update(version=2), copies=(1,))
    kept = [path.read_bytes() for path in (*records(home), home / ".cursor/mcp.json")]
    commands = ("status", "doctor cursor far", "install --all", "uninstall --all", "uninstall --purge --yes", "up")
    for command in commands:
        done = run(home, *command.split())
        assert done.returncode == 2, command
        (line,) = done.stderr.decode().splitlines()
        assert "was written by a later version of mcpproxy" in line
        assert str(records(home)[1]) in line
        assert "update mcpproxy" in line
    assert [path.read_bytes() for path in (*records(home), home / ".cursor/mcp.json")] == kept


def test_records_larger_than_any_are_not_read(home: Path) -> None:
    text = json.dumps({"version": 1, "serial": 1 << 62, "files": {}, "listeners": [], "x": "x" * (5 << 20)})
    records(home)[0].write_text(text)
    assert run(home, "uninstall", "--all").returncode == 0
    assert is_as_before(home)


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("user", ["user:pw@", "${USER}@"])
def test_a_port_behind_a_user_name_is_named(home: Path, user: str, is_known: bool) -> None:
    port = json.loads(records(home)[0].read_text())["listeners"][0]["port"]
    if not is_known:
        shutil.rmtree(home / ".local/state/mcpproxy")
        records(home)[1].unlink()
    url = f"http://{user}127.0.0.1:{port}/mcp"
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"x": {"url": url}}}))
    done = run(home, "uninstall", "--all")
    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in (done.stdout + done.stderr).decode()
    assert servers(home)["x"]["url"] == url
    commands = {"uninstall --purge --yes": 2, "install --dry-run cursor": 0, "status": 0}
    for command, code in commands.items():
        done = run(home, *command.split())
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), command
    assert b"Traceback" not in run(home, "doctor", "cursor").stderr


def test_a_url_that_is_no_text_is_left_alone(home: Path) -> None:
    (home / ".cursor/mcp.json").write_text('{"mcpServers": {"x": {"url": "http://\\ud800x/mcp"}}}')
    for command in ("install", "uninstall"):
        done = run(home, command, "cursor")
        assert (done.returncode, done.stderr) == (0, b"")


def test_without_a_writable_lock_a_dry_run_works_and_the_rest_is_refused_by_name(home: Path) -> None:
    lock = home / ".local/state/mcpproxy/lock"
    lock.unlink()
    lock.mkdir()
    for command in ("install --all", "uninstall --all", "uninstall --purge --yes"):
        done = run(home, *command.split())
        name = command.partition(" ")[0]
        assert done.returncode == 2
        assert done.stderr.decode() == f"mcpproxy: `{name}` failed: {lock}: Is a directory\n"
        assert run(home, name, "--all", "--dry-run").returncode == 0


def test_purge_names_files_that_may_still_lead_to_mcpproxy(home: Path) -> None:
    """An unreadable file may lead here; a missing one may come back, and then nothing knows whose port it names."""
    cursor = home / ".cursor/mcp.json"
    far = json.loads(records(home)[0].read_text())["listeners"][0]
    cursor.write_bytes(cursor.read_bytes()[:-2])
    done = run(home, "uninstall", "--purge", "--yes")
    assert done.returncode == 2
    assert b"~/.cursor/mcp.json of Cursor cannot be read" in done.stderr
    assert records(home)[0].exists()
    cursor.unlink()
    done = run(home, "uninstall", "--purge", "--yes")
    assert done.returncode == 0
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("mcpproxy: ~/.cursor/mcp.json, which led to mcpproxy, is missing or empty")
    assert line.endswith(f"write {far['upstream']} in place of http://127.0.0.1:{far['port']} in it")
