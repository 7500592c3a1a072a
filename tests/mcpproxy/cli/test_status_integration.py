"""`status` as typed: which client was seen, when, by which entry, and what to do about routes that lead nowhere."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness import wait_until
from tests.mcpproxy.cli.test_install_integration import SERVER, entry, home, rows, run
from tests.mcpproxy.cli.test_up_integration import captures, hello, install, installed, post, upstream
from tests.mcpproxy.cli.typed import mcpproxy, started

__all__ = ["home"]


def use(home: Path, words: dict[str, Any], client: str) -> None:
    """Start a server as a client does, and send the first message."""
    command = [words["command"], *words["args"]]
    subprocess.run(command, input=hello(client), env={"HOME": str(home)}, check=True)


def claude(home: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((home / ".claude.json").read_text())
    return config


def test_status_tells_which_entry_wins_and_who_was_heard(home: Path) -> None:
    config = json.loads((home / ".claude.json").read_text())
    project = str((home / "project").resolve())
    config["projects"] = {
        project: {"mcpServers": {"files": entry("other")}},
        "/elsewhere": {"mcpServers": {"files": entry("x")}},
    }
    (home / ".claude.json").write_text(json.dumps(config))
    run(home, "install", "claude-code")
    found = rows(run(home, "status", "claude-code", "--json"))
    effective = {(row["scope"], row["project"]): row["effective"] for row in found if row["server"] == "files"}
    assert effective == {("user", None): False, ("local", project): True, ("local", "/elsewhere"): True}
    text = run(home, "status").stdout.decode()
    assert "local entry wins" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    empty = home / "empty"
    empty.mkdir()
    done = mcpproxy("status", cwd=empty, HOME=str(empty))
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


def test_status_waits_for_the_first_frame_of_every_routed_server(home: Path) -> None:
    (home / ".cursor/mcp.json").unlink()
    run(home, "install", "claude-code")
    words = json.loads((home / ".claude.json").read_text())["mcpServers"]["files"]
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "claude-code", "version": "9.9"},
    }
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
    with started("status", "--wait", "claude-code", HOME=str(home)) as waiting:
        assert waiting.stderr is not None
        assert waiting.stdout is not None
        assert b"waiting for files: in Claude Code, start a new session" in waiting.stderr.readline()
        subprocess.run([words["command"], *words["args"]], input=request, env={"HOME": str(home)}, check=True)
        assert b"first frame of files recorded" in waiting.stderr.readline()
        assert b"claude-code 9.9" in waiting.stdout.read()
        wait_until(lambda: waiting.poll() is not None)
        assert waiting.returncode == 0


@pytest.mark.parametrize("capture", ["/", "/proc", "\0", "/dev/zero", "FOLDER"])
def test_status_starts_nothing_and_searches_no_disk_for_a_project(home: Path, capture: str) -> None:
    project = home / "project"
    script = project / "mcpproxy"
    script.write_text(f"#!/bin/sh\ntouch {home}/executed\n")
    script.chmod(0o755)
    below = project / "captures/below"
    below.mkdir(parents=True)
    os.mkfifo(below.parent / "a.mcpcap")
    (below / "b.mcpcap").write_text("x")
    words = ["run", "--name", "../../x", "--capture", capture.replace("FOLDER", str(below.parent)), "--", "true"]
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"odd": entry(str(script), *words)}}))
    done = run(home, "status", "claude-code")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"never" in done.stdout
    assert not (home / "executed").exists()


def test_a_client_is_remembered_whoever_uses_a_server_of_that_name_later(home: Path) -> None:
    run(home, "install", "claude-code")
    words = claude(home)["mcpServers"]["files"]
    use(home, words, "claude-code")
    for _ in range(12):
        use(home, words, "somebody else")
    (row,) = rows(run(home, "status", "claude-code", "--json"))[:1]
    assert row["heard_from"] == "claude-code 9.9"


def test_entries_of_one_name_are_heard_each_for_itself(home: Path) -> None:
    project = str((home / "project").resolve())
    own = [*SERVER[:-1], SERVER[-1] + "  # own"]
    config = claude(home) | {"projects": {project: {"mcpServers": {"files": entry(*own)}}}}
    (home / ".claude.json").write_text(json.dumps(config))
    run(home, "install", "claude-code")
    use(home, claude(home)["projects"][project]["mcpServers"]["files"], "claude-code")
    heard = {row["scope"]: row["last_frame"] is not None for row in rows(run(home, "status", "claude-code", "--json"))}
    assert heard == {"user": False, "local": True, "project": False}


def test_every_client_of_a_listener_is_heard(tmp_path: Path) -> None:
    with upstream() as server:
        servers = {"far": f"http://127.0.0.1:{server.server_port}/mcp"}
        (url,) = {install(tmp_path, servers, client)["far"] for client in ("cursor", "kiro")}
        with started("up", HOME=str(tmp_path)):
            assert wait_until(lambda: post(url, hello("cursor-vscode")))
            assert post(url, hello("Kiro"))
            capture = captures(tmp_path, "far")[0]
            wait_until(lambda: b"Kiro" in capture.read_bytes())
            for client, name in (("cursor", "cursor-vscode 9.9"), ("kiro", "Kiro 9.9")):
                (row,) = rows(mcpproxy("status", client, "--json", cwd=tmp_path, HOME=str(tmp_path)))
                assert (row["heard_from"], row["listening"], row["parent"]) == (name, True, None)
        # The capture is closed, but its summary is kept.
        for _ in range(2):
            (row,) = rows(mcpproxy("status", "cursor", "--json", cwd=tmp_path, HOME=str(tmp_path)))
            assert (row["heard_from"], row["listening"]) == ("cursor-vscode 9.9", False)


def test_servers_of_one_name_with_different_addresses(tmp_path: Path) -> None:
    with upstream() as one, upstream() as other:
        url = install(tmp_path, {"far": f"http://127.0.0.1:{one.server_port}/mcp"}, "cursor")["far"]
        install(tmp_path, {"far": f"http://127.0.0.1:{other.server_port}/mcp"}, "kiro")
        with started("up", HOME=str(tmp_path)):
            assert wait_until(lambda: post(url, hello("cursor-vscode")))
            wait_until(lambda: any(b"cursor-vscode" in capture.read_bytes() for capture in captures(tmp_path, "far")))
            found = rows(mcpproxy("status", "--json", cwd=tmp_path, HOME=str(tmp_path)))
            assert {row["client"]: row["last_frame"] is not None for row in found} == {"cursor": True, "kiro": False}


def test_captures_of_a_listener_are_found_where_install_put_them(tmp_path: Path) -> None:
    with upstream() as server:
        where = ("--capture", str(tmp_path / "own"))
        url = install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"}, "cursor", *where)["far"]
        with started("up", HOME=str(tmp_path)):
            assert wait_until(lambda: post(url, hello("cursor-vscode")))
            wait_until(
                lambda: any(b"cursor-vscode" in path.read_bytes() for path in (tmp_path / "own/far").glob("*.mcpcap"))
            )
            (row,) = rows(mcpproxy("status", "--json", cwd=tmp_path, HOME=str(tmp_path)))
            assert row["last_frame"] is not None


def test_routes_that_lead_nowhere_are_named_with_what_to_do(tmp_path: Path) -> None:
    with upstream() as server:
        far = {"far": f"http://127.0.0.1:{server.server_port}/mcp"}
        assert "Clients cannot reach far until mcpproxy up runs" in installed(tmp_path, far)
        text = mcpproxy("status", cwd=tmp_path, HOME=str(tmp_path)).stdout.decode()
        assert "yes, but up is not running" in text
        assert "Clients cannot reach far until you run mcpproxy up" in text
        with started("status", "--wait", HOME=str(tmp_path)) as waiting:
            assert waiting.stderr is not None
            assert b"waiting for far: run mcpproxy up, and in Cursor, " in waiting.stderr.readline()
        with started("up", HOME=str(tmp_path)) as up:
            assert up.stderr is not None
            up.stderr.readline()
            assert b"up" not in mcpproxy("status", cwd=tmp_path, HOME=str(tmp_path)).stdout
            near = {"near": f"http://127.0.0.1:{server.server_port}/mcp"}
            assert "mcpproxy up is running, and records near" in installed(tmp_path, near, "kiro")
    gone = entry("/gone/bin/mcpproxy", "run", "--name", "far", "--", "x")
    (tmp_path / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"far": gone}}))
    text = mcpproxy("status", cwd=tmp_path, HOME=str(tmp_path)).stdout.decode()
    assert "The mcpproxy in the entries of far is missing; run mcpproxy install to replace it" in text
    mcpproxy("install", "cursor", cwd=tmp_path, HOME=str(tmp_path))
    assert "missing" not in mcpproxy("status", cwd=tmp_path, HOME=str(tmp_path)).stdout.decode()


def test_nothing_is_cut_where_no_terminal_is_narrow(tmp_path: Path) -> None:
    name = "a-server-with-quite-a-long-name-indeed"
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {name: entry(*SERVER)}}))
    assert name in mcpproxy("status", cwd=tmp_path, HOME=str(tmp_path), COLUMNS="").stdout.decode()
    narrow = mcpproxy("status", cwd=tmp_path, HOME=str(tmp_path), COLUMNS="50").stdout.decode()
    assert name not in narrow
    assert all(len(line) <= 50 for line in narrow.splitlines()[:2])


def test_a_port_that_another_program_took_is_not_ours(tmp_path: Path) -> None:
    with upstream() as server:
        url = install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"})["far"]
        port = int(url.split(":")[2].split("/")[0])
        with socket.create_server(("127.0.0.1", port)), started("up", HOME=str(tmp_path)) as up:
            assert up.stderr is not None
            assert b"still trying" in up.stderr.readline()
            text = mcpproxy("status", cwd=tmp_path, HOME=str(tmp_path)).stdout.decode()
            assert "yes, but its port is taken" in text
            assert "mcpproxy up cannot listen for far" in text


def test_a_shared_file_of_a_project_brings_no_client_that_is_not_here(home: Path) -> None:
    clients = {row["client"] for row in rows(run(home, "status", "--json"))}
    assert clients == {"claude-code", "cursor"}
    assert {row["client"] for row in rows(run(home, "status", "--json", "vscode"))} == {"vscode"}
    (home / ".claude.json").unlink()
    (home / ".cursor/mcp.json").unlink()
    assert {row["client"] for row in rows(run(home, "status", "--json"))} == {"claude-code"}


def test_a_frame_without_a_name_is_of_no_client(tmp_path: Path) -> None:
    with upstream() as server:
        url = install(tmp_path, {"far": f"http://127.0.0.1:{server.server_port}/mcp"})["far"]
        with started("up", HOME=str(tmp_path)):
            assert wait_until(lambda: post(url))
            (row,) = rows(mcpproxy("status", "--json", cwd=tmp_path, HOME=str(tmp_path)))
            assert (row["last_frame"], row["listening"]) == (None, True)


def test_a_clock_that_was_wrong_once_satisfies_no_wait(home: Path) -> None:
    run(home, "install", "claude-code")
    use(home, claude(home)["mcpServers"]["files"], "claude-code")
    (capture,) = (home / ".local/share/mcpproxy/captures/files").glob("*.mcpcap")
    os.utime(capture, (1_000_000_000, 1_000_000_000))
    (row,) = rows(run(home, "status", "claude-code", "--json"))[:1]
    assert row["last_frame"].startswith("2001-")


@pytest.mark.parametrize("program", ["/x\0/mcpproxy", "/\ud800/mcpproxy"])
def test_a_program_that_no_file_can_be_is_missing(home: Path, program: str) -> None:
    words = entry(program, "run", "--name", "odd", "--", "true")
    (home / "project/.mcp.json").write_text(json.dumps({"mcpServers": {"odd": words}}))
    done = run(home, "status", "claude-code")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"through a missing program" in done.stdout
    assert run(home, "install", "claude-code", "--scope", "project").returncode == 0


def test_many_servers_of_many_captures_are_looked_through_at_once(home: Path) -> None:
    folder = home / "project/captures"
    run(home, "install", "claude-code", "--capture", str(folder))
    words = claude(home)["mcpServers"]["files"]
    use(home, words, "somebody else")
    (capture,) = (folder / "files").glob("*.mcpcap")
    for number in range(200):
        (folder / "files" / f"20261121T1015{number // 60:02}Z-{number:04x}.mcpcap").write_bytes(capture.read_bytes())
    servers = {f"s{number}": {**words, "env": {"N": str(number)}} for number in range(200)}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    done = mcpproxy("status", "claude-code", "--json", cwd=home, HOME=str(home))
    assert len(rows(done)) == 200


def test_a_narrow_terminal_shows_a_part_of_every_column(home: Path) -> None:
    run(home, "install", "--all")
    text = mcpproxy("status", cwd=home, HOME=str(home), COLUMNS="40").stdout.decode()
    lines = text.splitlines()[:3]
    assert all(len(line) <= 40 for line in text.splitlines()[:3])
    assert all("yes" in line and "nev" in line for line in lines[1:])
