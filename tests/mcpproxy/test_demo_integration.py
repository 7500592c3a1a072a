"""The faults of the bundled server, the scripted client, and the command that records the two."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_types import methods

from mcpproxy.demo.call import HANDSHAKE_REVISIONS, MODERN_REVISIONS, VERSION_KEY
from mcpproxy.demo.client import SilentError, converse
from mcpproxy.demo.faults import FAULTS
from tests.harness import DEADLINE_S

SERVER = [sys.executable, "-P", "-m", "mcpproxy.demo.server"]
PEERS = Path(__file__).parents[1] / "peers"

Json = dict[str, Any]


def conversation(tmp_path: Path, *options: str) -> tuple[list[Json | str], list[Json | str], bytes]:
    """Let the scripted client talk through `tee`s; returns the messages of the client and the server, and stderr."""
    asked, said = tmp_path / "asked", tmp_path / "said"
    script = 'asked=$1 said=$2; shift 2; tee "$asked" | "$@" | tee "$said"'
    with (tmp_path / "stderr").open("w+b") as stderr:
        assert converse(["sh", "-c", script, "sh", str(asked), str(said), *SERVER, *options], stderr) == 0
        stderr.seek(0)
        return _lines(asked), _lines(said), stderr.read()


def _lines(path: Path) -> list[Json | str]:
    return [_parsed(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _parsed(line: str) -> Json | str:
    try:
        message = json.loads(line)
    except ValueError:
        return line
    assert isinstance(message, dict)
    return message


def ids(messages: list[Json | str]) -> list[object]:
    return [m["id"] for m in messages if isinstance(m, dict) and "id" in m]


def test_an_honest_conversation_pairs_every_request_but_the_cancelled_one(tmp_path: Path) -> None:
    asked, said, stderr = conversation(tmp_path)
    cancelled = [m["params"]["requestId"] for m in asked if isinstance(m, dict) and m["method"].endswith("cancelled")]
    assert len(cancelled) == 1
    assert ids(said) == [number for number in ids(asked) if number not in cancelled]
    assert stderr == b""


def test_an_honest_conversation_is_valid_by_the_official_types(tmp_path: Path) -> None:
    asked, said, _ = conversation(tmp_path)
    open_requests = {m["id"]: m for m in asked if isinstance(m, dict) and "id" in m}
    for message in said:
        assert isinstance(message, dict)
        assert message["jsonrpc"] == "2.0"
        if "result" in message:
            of = open_requests[message["id"]]
            modern = "_meta" in of.get("params", {}) and VERSION_KEY in of["params"]["_meta"]
            revision = MODERN_REVISIONS[-1] if modern else HANDSHAKE_REVISIONS[-1]
            methods.validate_client_request(of["method"], revision, of.get("params"))
            methods.validate_server_result(of["method"], revision, message["result"])
            assert ("resultType" in message["result"]) == modern


def test_the_script_is_the_same_each_time(tmp_path: Path) -> None:
    runs = [conversation(_made(tmp_path / name), "--faulty") for name in ("first", "second")]
    assert runs[0] == runs[1]


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_faulty_server_commits_each_fault_of_its_table_once(tmp_path: Path) -> None:
    asked, said, stderr = conversation(tmp_path, "--faulty")
    answers = ids(said)
    called = {_key(m): m["id"] for m in reversed(asked) if isinstance(m, dict) and "id" in m}
    assert {key for key in FAULTS if key not in called} == set()
    assert [m for m in said if isinstance(m, str)] == ["Loaded 5 tools"]
    assert answers.count(called["tools/call add"]) == 2
    assert str(called["tools/call word_count"]) in answers
    assert called["tools/call word_count"] not in answers
    assert called["resources/templates/list"] not in answers
    assert len([m for m in said if isinstance(m, dict) and "jsonrpc" not in m]) == 1
    assert stderr.count(b"\n") == 1


def _key(message: Json) -> str:
    return f"tools/call {message['params']['name']}" if message["method"] == "tools/call" else message["method"]


@pytest.mark.parametrize("status", [0, 7])
def test_the_client_tells_how_a_server_ended_that_said_nothing(status: int) -> None:
    argv = [sys.executable, "-I", str(PEERS / "exit_code.py"), "--status", str(status)]
    if status:
        assert converse(argv) == status
    else:
        with pytest.raises(SilentError):
            converse(argv)


def test_the_client_tells_the_signal_that_ended_a_server() -> None:
    assert converse([sys.executable, "-I", str(PEERS / "die_by_signal.py"), "--signal", "KILL"]) == 128 + signal.SIGKILL


def test_the_client_ends_a_server_that_does_not_end() -> None:
    argv = [sys.executable, "-I", str(PEERS / "stubborn.py")]
    assert converse(argv, answer_s=0.01, end_s=0.01) in {128 + signal.SIGTERM, 128 + signal.SIGKILL}


# --- the command ------------------------------------------------------------------------------------------------------


def surroundings(home: Path) -> dict[str, str]:
    """Returns an environment with all of the user's files below `home`."""
    ours = ("XDG_", "MCPPROXY_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {"HOME": str(home)}


def command(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `mcpproxy demo` with all of the user's files below `home`."""
    environment = surroundings(home)
    argv = [sys.executable, "-P", "-m", "mcpproxy", "demo", *options]
    return subprocess.run(
        argv, env=environment, cwd=home, capture_output=True, encoding="utf-8", timeout=DEADLINE_S, check=False
    )


def frames(capture: Path, direction: str) -> list[Json | str]:
    records = [json.loads(line) for line in capture.read_bytes().splitlines()]
    return [_parsed(record["raw"]) for record in records if record["rec"] == "frame" and record["dir"] == direction]


def test_the_demo_records_the_conversation_as_it_was_shows_it_and_tells_where_it_lies(tmp_path: Path) -> None:
    done = command(_made(tmp_path / "home"))
    (capture,) = (tmp_path / "home").rglob("*.mcpcap")
    asked, said, _ = conversation(_made(tmp_path / "direct"), "--faulty")
    assert done.returncode == 0, done.stderr
    assert capture.parent.name == "demo"
    assert frames(capture, "c2s") == asked
    assert frames(capture, "s2c") == said
    assert "framing/stdout-not-json" in done.stdout
    assert "slow_echo" in done.stdout
    assert str(capture) in done.stderr
    assert all(fault.description in done.stderr for fault in FAULTS.values())


@pytest.mark.costly("seven commands, each started as by a user")
@pytest.mark.parametrize("is_known", [False, True], ids=["in a checkout", "installed"])
def test_what_the_demo_says_to_try_next_works_from_there(tmp_path: Path, *, is_known: bool) -> None:
    """Both as `make demo` starts it (not in PATH, and with another program of that name there), and by its name."""
    checkout = _made(tmp_path / "checkout")
    programs = {name: _made(checkout / name) for name in ("bin", "others")}
    (programs["others"] / "mcpproxy").write_text("#!/bin/sh\nexit 99\n")
    started = "import sys; sys.path.pop(0); from mcpproxy.__main__ import main; sys.exit(main())"
    (programs["bin"] / "mcpproxy").write_text(f"#!{sys.executable}\n{started}\n")
    for folder in programs.values():
        (folder / "mcpproxy").chmod(0o755)
    first = programs["bin" if is_known else "others"]
    environment = surroundings(tmp_path) | {"PATH": f"{first}:{os.environ['PATH']}"}

    def shell(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            line,
            shell=True,
            cwd=checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=DEADLINE_S,
        )

    us = "mcpproxy" if is_known else "bin/mcpproxy"
    done = shell(f"{us} demo")
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stderr.partition("Try next:\n")[2].splitlines() if line.startswith("  ")]
    assert ("pipx install ." in done.stderr) == Path(sys.prefix).with_name("pyproject.toml").exists()
    assert all(line.startswith(f"{us} ") for line in lines)
    if is_known:  # the other case tests that the commands work
        assert shell(next(line.partition("    ")[0] for line in lines if "verify" in line)).returncode == 0
        return
    tried = {line.split()[1]: shell(line.partition("    ")[0]) for line in lines}
    codes = {name: one.returncode for name, one in tried.items()}
    # No terminal for the screens, no client in this home, and the demo has faults for `check` to find.
    assert codes == {"tui": 2, "check": 1, "stats": 0, "show": 0, "verify": 0, "install": 2}, tried
    assert "tui needs a terminal" in tried["tui"].stderr


def test_the_demo_records_where_it_is_told_to(tmp_path: Path) -> None:
    done = command(_made(tmp_path / "home"), "--capture", str(tmp_path / "my captures"))
    (capture,) = tmp_path.rglob("*.mcpcap")
    assert done.returncode == 0, done.stderr
    assert capture.parent == tmp_path / "my captures"
    assert f"'{capture}'" in done.stderr


def test_a_demo_that_cannot_be_recorded_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = command(_made(tmp_path / "home"), "--capture", str(tmp_path / "file"))
    assert done.returncode == 73
    assert done.stdout == ""
    assert done.stderr.startswith("mcpproxy: ")
    assert done.stderr.count("\n") == 1
