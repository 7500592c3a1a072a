"""`mcpproxy uninstall --purge` removes everything that mcpproxy has written, and nothing else."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from captures.file import CaptureFile, create_directory
from captures.record import members
from mcpproxy.history import remember_filter
from mcpproxy.tui.copies.clipboard import write_copy
from mcpproxy.tui.layout_state import save_theme
from tests.captures.samples import header, lines
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal, started


def run(home: Path, *arguments: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    return mcpproxy(*arguments, cwd=home, HOME=str(home), NO_PROXY="127.0.0.1", **more)


RECORDED = "20261121T101502Z-4f2a"
LIVE = "20261121T101502Z-0bad"


def recording(path: Path, **more: Any) -> None:
    """Write a capture as a recorder leaves it, or a variant with other members in its header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    close = ("close", members(ending="server", status=0, totals={}))
    path.write_bytes(b"".join(lines([("header", header(**more)), close])))


def there(home: Path) -> set[str]:
    """Returns the files in a home."""
    return {str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir() or path.is_symlink()}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with everything that commands leave; no server is routed."""
    home = tmp_path_factory.mktemp("used") / "home"
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
    return home


@pytest.fixture
def home(used: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh copy of that home at the same path (files in it name the path), with what screens leave as well."""
    kept = used.with_name("kept")
    used.rename(kept)
    home = Path(shutil.copytree(kept, used, symlinks=True))
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    remember_filter("traffic", "id:1")
    save_theme("nord")
    write_copy("a secret")
    yield home
    shutil.rmtree(home)
    kept.rename(home)


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
    live = CaptureFile(captures / f"files/{LIVE}.mcpcap")
    live.append(lines([("header", header())])[0])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    recording(elsewhere / "a.mcpcap")
    (captures / "linked").symlink_to(elsewhere)
    (captures / f"files/{RECORDED}.mcpcap").symlink_to(elsewhere / "a.mcpcap")
    (home / ".config/mcpproxy/keys.toml").write_text("")
    (home / ".local/state/mcpproxy/mine.txt").write_text("mine")
    (home / ".local/state/mcpproxy/backups/mine.txt").write_text("mine")
    (home / ".cache/mcpproxy/link").symlink_to(elsewhere)
    done = run(home, "uninstall", "--purge", "--yes")
    assert done.returncode == 0, done.stderr
    place = "~/.local/share/mcpproxy/captures"
    assert done.stderr.decode().splitlines() == [
        f"mcpproxy: 1 capture in {place} is being recorded, and stays",
        f"mcpproxy: 1 capture in {place} is a link, and stays",
    ]
    assert there(home) == {
        ".cursor/mcp.json",
        f".local/share/mcpproxy/captures/files/{LIVE}.mcpcap",
        f".local/share/mcpproxy/captures/files/{RECORDED}.mcpcap",
        ".local/share/mcpproxy/captures/linked",
        ".local/share/mcpproxy/captures/.gitignore",
        ".config/mcpproxy/keys.toml",
        ".local/state/mcpproxy/mine.txt",
        ".local/state/mcpproxy/backups/mine.txt",
        ".cache/mcpproxy/link",
    }
    assert os.listdir(elsewhere) == ["a.mcpcap"]
    live.close()


def test_only_what_recorders_have_put_into_a_wide_folder_goes(tmp_path: Path) -> None:
    """Copies of captures belong to the user, regardless of their names."""
    files = tmp_path / "files"
    recording(files / f"{RECORDED}.mcpcap")
    recording(files / f"{RECORDED}.2.mcpcap", segment=2)
    (files / f"{RECORDED}.marks.json").write_text("{}")
    (files / "20261121T101502Z-0000.marks.json").write_text("{}")
    recording(tmp_path / f"server/{RECORDED}.mcpcap", name="server")
    stays = [f"work/files/{RECORDED}.mcpcap", f"copies/{RECORDED}.mcpcap", f"{RECORDED}.mcpcap", "files/case.mcpcap"]
    stays += [f"files/{RECORDED}-repaired.mcpcap", f"files/{LIVE}.1.mcpcap", f"no server/{RECORDED}.mcpcap"]
    for name in stays:
        recording(tmp_path / name, name=Path(name).parent.name if "no server" in name else "files")
    recording(tmp_path / f"shared/{RECORDED}.mcpcap", name="shared", redacted_by="mcpproxy 0")
    recording(tmp_path / f"imported/{RECORDED}.mcpcap", name="imported", imported="har")
    stays += [f"{folder}/{RECORDED}.mcpcap" for folder in ("shared", "imported")]
    stays += ["copies/20261121T101502Z.marks.json", "files/case.marks.json", "deeper/files/.gitignore"]
    for name in stays[-3:]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("*\n")
    (tmp_path / "empty").mkdir()
    for words in (["--dry-run"], ["--yes"]):
        done = run(tmp_path, "uninstall", "--purge", *words, MCPPROXY_CAPTURES=".")
        assert done.returncode == 0, done.stderr
        assert done.stderr.decode().splitlines() == [
            "mcpproxy: 9 captures in ~ are not as they were recorded (copied, imported, renamed or moved), and stay"
        ]
    assert b"   2 captures  captures, ~\n" in done.stdout
    assert there(tmp_path) == set(stays)
    assert (tmp_path / "empty").is_dir()
    assert not (tmp_path / "server").exists()


def test_what_prune_or_a_user_has_left_goes_as_well(tmp_path: Path) -> None:
    """That is notes whose capture is gone, and empty folders."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    (runtime / "mcpproxy").mkdir(mode=0o700)
    captures = tmp_path / ".local/share/mcpproxy/captures"
    create_directory(str(captures / "files"))
    (captures / "notes").mkdir()
    mark = captures / f"notes/{LIVE}.marks.json"
    mark.write_text('{"marks": 1}')
    variables = {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(runtime)}
    listed = run(tmp_path, "uninstall", "--purge", "--dry-run", **variables)
    assert listed.stdout.decode().splitlines() == [
        "     12 B        1 file  marks and notes on captures that are gone, ~/.local/share/mcpproxy/captures",
        "12 B would be removed",
    ]
    mark.unlink()
    listed = run(tmp_path, "uninstall", "--purge", "--dry-run", **variables)
    assert (listed.returncode, listed.stdout) == (0, b"Only empty folders are left: 5 would be removed\n")
    mark.write_text('{"marks": 1}')
    done = run(tmp_path, "uninstall", "--purge", "--yes", **variables)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not [*tmp_path.rglob("mcpproxy")]
    (runtime / "mcpproxy").mkdir(mode=0o700)
    done = run(tmp_path, "uninstall", "--purge", **variables)
    assert (done.returncode, done.stdout) == (0, b"Only empty folders were left: 1 removed\n")
    done = run(tmp_path, "uninstall", "--purge", **variables)
    assert (done.returncode, done.stdout) == (0, b"Nothing to remove.\n")


def test_of_a_folder_that_the_user_has_named_only_our_folders_go(tmp_path: Path) -> None:
    """A new folder of a server holds a `.gitignore`, unless its parent was created with it."""
    for name, is_ours in (("theirs", False), ("ours", True)):
        own = tmp_path / name
        if not is_ours:
            own.mkdir()
            (own / "empty").mkdir()
            (own / ".gitignore").write_text("*\n")
        mcpproxy("run", "--name", "files", "--", "true", HOME=str(tmp_path), MCPPROXY_CAPTURES=str(own))
        (capture,) = own.glob("files/*.mcpcap")
        capture.unlink()
        done = run(tmp_path, "uninstall", "--purge", "--yes", MCPPROXY_CAPTURES=f"{own}/")
        assert done.returncode == 0, done.stderr
        assert sorted(os.listdir(own)) == ([] if is_ours else [".gitignore", "empty"])


def test_a_link_is_not_followed_and_that_is_said(tmp_path: Path) -> None:
    default = tmp_path / f".local/share/mcpproxy/captures/files/{RECORDED}.mcpcap"
    real = tmp_path / f"real/files/{RECORDED}.mcpcap"
    recording(default)
    recording(real)
    (tmp_path / "link").symlink_to("real")
    done = run(tmp_path, "uninstall", "--purge", "--yes", MCPPROXY_CAPTURES="link")
    assert done.returncode == 0
    link, other = done.stderr.decode().splitlines()
    assert link == (
        "mcpproxy: ~/link is a link, so what it leads to stays; to remove it as well: "
        f"MCPPROXY_CAPTURES={tmp_path}/real mcpproxy uninstall --purge"
    )
    assert "env -u MCPPROXY_CAPTURES" in other
    data = str(tmp_path / "data")
    done = run(tmp_path, "uninstall", "--purge", "--yes", XDG_DATA_HOME=data)
    assert b"stays, because XDG_DATA_HOME is set; to remove it as well: env -u XDG_DATA_HOME " in done.stderr
    done = run(tmp_path, "uninstall", "--purge", "--yes", XDG_DATA_HOME=data, MCPPROXY_CAPTURES="link")
    assert b"MCPPROXY_CAPTURES and XDG_DATA_HOME are set" in done.stderr
    assert b"env -u MCPPROXY_CAPTURES -u XDG_DATA_HOME mcpproxy uninstall --purge\n" in done.stderr
    assert default.exists()
    assert real.exists()


def test_the_total_is_the_sum_of_what_is_listed(home: Path) -> None:
    (capture,) = home.rglob("*.mcpcap")
    marks = capture.with_name(f"{capture.stem}.marks.json")
    marks.write_bytes(b"." * 100_000)
    listed = run(home, "uninstall", "--purge", "--dry-run").stdout.splitlines()
    assert listed[0].startswith(b" 10")
    removed = run(home, "uninstall", "--purge", "--yes").stdout.splitlines()
    assert listed[:-1] == removed[:-1]
    assert listed[-1] == removed[-1].replace(b"removed", b"would be removed")


def test_an_entry_that_was_wrapped_by_hand_is_named_and_refuses_nothing(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    entries = json.loads(file.read_text())["mcpServers"]
    entries["my hand"] = {"command": "mcpproxy", "args": ["run", "--", "true"]}
    file.write_text(json.dumps({"mcpServers": entries}))
    assert b"wrapped by hand, stays" in run(home, "uninstall", "--all").stdout
    for words in (["--dry-run"], ["--yes"], ["--yes"]):
        done = run(home, "uninstall", "--purge", *words)
        assert done.returncode == 0
        assert done.stderr.decode() == (
            "mcpproxy: my hand of Cursor was wrapped by hand, and still starts mcpproxy run; to unwrap it: mcpproxy "
            "uninstall cursor --server 'my hand'\n"
        )
    assert there(home) == {".cursor/mcp.json"}
    assert run(home, "uninstall", "cursor", "--server", "my hand").returncode == 0
    assert json.loads(file.read_text())["mcpServers"]["my hand"] == {"command": "true", "args": []}


def test_captures_in_another_directory_are_named_and_stay(home: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "of-the-user").mkdir(parents=True)
    done = run(home, "uninstall", "--purge", "--yes", MCPPROXY_CAPTURES=str(own))
    assert done.returncode == 0
    assert done.stderr.decode() == (
        "mcpproxy: what is in ~/.local/share/mcpproxy/captures stays, because MCPPROXY_CAPTURES is set; to remove it "
        "as well: env -u MCPPROXY_CAPTURES mcpproxy uninstall --purge\n"
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
