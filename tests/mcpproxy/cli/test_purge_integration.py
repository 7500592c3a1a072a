"""`mcpproxy uninstall --purge`: everything that mcpproxy has written goes, and nothing else."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from captures.file import CaptureFile
from captures.record import members
from mcpproxy.history import remember_filter
from mcpproxy.tui.clipboard import write_copied
from mcpproxy.tui.layout_state import keep_theme
from tests.captures.samples import header, lines
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal, started


def run(home: Path, *arguments: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    return mcpproxy(*arguments, cwd=home, HOME=str(home), NO_PROXY="127.0.0.1", **more)


def there(home: Path) -> set[str]:
    """The files in a home."""
    return {str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir() or path.is_symlink()}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with all that commands and screens leave; no server is routed any more."""
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    entry = {"command": sys.executable, "args": ["-c", "pass"]}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}))
    run(home, "install", "cursor")
    run(home, "uninstall", "cursor")
    mcpproxy("run", "--name", "files", "--", "true", HOME=str(home))
    for words in (
        ["ls"],
        ["query", "select 1", "files"],
        ["check", "--allow-empty", "files"],
        ["prune", "--keep", "9", "--service"],
    ):
        done = run(home, *words)
        assert done.returncode == 0, done.stderr
    run(home, "ship", "lake", "--unredacted", "--service")
    run(home, "up", "--service")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    remember_filter("traffic", "id:1")
    keep_theme("nord")
    write_copied("a secret")
    return home


def test_all_that_was_written_is_listed_with_its_size_and_removed(home: Path) -> None:
    before = there(home)
    listed = run(home, "uninstall", "--purge", "--dry-run")
    assert (listed.returncode, there(home)) == (0, before)
    for what in ("captures", "cache", "redaction key", "histories", "copied", "backups", "tokens", "records", "units"):
        assert what in listed.stdout.decode(), what
    assert listed.stdout.splitlines()[-1].endswith(b" would be removed")
    assert b"1 capture  captures, ~/.local/share/mcpproxy/captures\n" in listed.stdout
    refused = run(home, "uninstall", "--purge")
    assert (refused.returncode, refused.stderr.count(b"\n"), there(home)) == (2, 1, before)
    assert b"--yes" in refused.stderr
    done = run(home, "uninstall", "--purge", "--yes")
    assert (done.returncode, done.stderr) == (0, b"")
    assert there(home) == {".cursor/mcp.json"}
    assert not list(home.rglob("mcpproxy"))
    assert run(home, "uninstall", "--purge", "--yes").stdout == b"Nothing to remove.\n"


def test_it_asks_on_a_terminal(home: Path) -> None:
    before = there(home)
    told = on_terminal("uninstall", "--purge", typed=b"n\n", HOME=str(home))
    assert b"Permanently remove all of this (" in told
    assert b"Nothing was removed" in told
    assert there(home) == before
    on_terminal("uninstall", "--purge", typed=b"y\n", HOME=str(home))
    assert there(home) == {".cursor/mcp.json"}


def test_what_is_recorded_now_and_what_is_not_ours_stays(home: Path, tmp_path: Path) -> None:
    captures = home / ".local/share/mcpproxy/captures"
    live = CaptureFile(captures / "files/live.mcpcap")
    live.append(lines([("header", header())])[0])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    close = ("close", members(ending="server", status=0, totals={}))
    (elsewhere / "a.mcpcap").write_bytes(b"".join(lines([("header", header()), close])))
    (captures / "linked").symlink_to(elsewhere)
    (captures / "files/link.mcpcap").symlink_to(elsewhere / "a.mcpcap")
    (home / ".config/mcpproxy/keys.toml").write_text("")
    (home / ".local/state/mcpproxy/mine.txt").write_text("mine")
    (home / ".local/state/mcpproxy/backups/mine.txt").write_text("mine")
    (home / ".cache/mcpproxy/link").symlink_to(elsewhere)
    done = run(home, "uninstall", "--purge", "--yes")
    assert done.returncode == 0, done.stderr
    assert b"2 captures in " in done.stderr
    assert there(home) == {
        ".cursor/mcp.json",
        ".local/share/mcpproxy/captures/files/live.mcpcap",
        ".local/share/mcpproxy/captures/files/link.mcpcap",
        ".local/share/mcpproxy/captures/linked",
        ".local/share/mcpproxy/captures/.gitignore",
        ".config/mcpproxy/keys.toml",
        ".local/state/mcpproxy/mine.txt",
        ".local/state/mcpproxy/backups/mine.txt",
        ".cache/mcpproxy/link",
    }
    assert os.listdir(elsewhere) == ["a.mcpcap"]
    live.close()


def test_captures_in_another_directory_are_named_and_stay(home: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "of-the-user").mkdir(parents=True)
    done = run(home, "uninstall", "--purge", "--yes", MCPPROXY_CAPTURES=str(own))
    assert (done.returncode, done.stderr) == (
        0,
        f"mcpproxy: captures in {home}/.local/share/mcpproxy/captures are not removed\n".encode(),
    )
    assert [name for name in there(home) if name.endswith(".mcpcap")]
    assert list(own.iterdir()) == [own / "of-the-user"]


def refused(home: Path, told: str, **more: Any) -> None:
    before = there(home)
    done = run(home, "uninstall", "--purge", "--yes", **more)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert told in done.stderr.decode()
    assert there(home) == before


def test_it_is_refused_while_something_needs_it(home: Path) -> None:
    run(home, "install", "cursor")
    refused(home, "because servers are still routed: files; first run: mcpproxy uninstall --all\n")
    run(home, "uninstall", "cursor")
    with started("up", HOME=str(home)) as up:
        assert up.stderr is not None
        up.stderr.readline()
        refused(home, "nothing was removed, because mcpproxy up is running, as process ")
        up.send_signal(signal.SIGTERM)
        up.wait(DEADLINE_S)
    wants = home / ".config/systemd/user/timers.target.wants"
    wants.mkdir()
    (wants / "mcpproxy-prune.timer").symlink_to("../mcpproxy-prune.timer")
    refused(home, "first run: systemctl --user disable --now mcpproxy-prune.timer")


def test_it_is_refused_while_another_project_is_routed(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"shared": {"command": "npx", "args": ["x"]}}}))
    done = mcpproxy("install", "--all", "--scope", "project", cwd=project, HOME=str(home))
    assert done.returncode == 0, done.stderr
    refused(home, f"nothing was removed, because servers in {project}/.mcp.json are still routed")


def test_purge_takes_nothing_but_yes_and_dry_run(home: Path) -> None:
    for words in (["--purge", "cursor"], ["--purge", "--server", "files"], ["--purge", "--all"], ["--yes"]):
        done = run(home, "uninstall", *words)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), words
