"""Every verdict is given on a real failure of its kind, and on no server that works."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.doctor.config_checks import PROXIES
from mcpproxy.doctor.pages import pages
from mcpproxy.doctor.verdict import HEADINGS
from mcpproxy.doctor.verdicts import VERDICTS
from tests.harness import all_pids, wait_until
from tests.mcpproxy.cli.typed import mcpproxy, started

ROOT = Path(__file__).parents[3]

GOOD = """
import json, os, sys, time
for line in sys.stdin:
    message = json.loads(line)
    results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                              "serverInfo": {"name": "good", "version": "1"}},
               "tools/list": {"tools": [{"name": sorted(os.environ)[0], "inputSchema": {"type": "object"}}]}}
    if message.get("method") in results:
        BEFORE
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}), flush=True)
"""


def good(before: str = "pass") -> list[str]:
    return [sys.executable, "-c", GOOD.replace("BEFORE", before)]


def refusing() -> list[str]:
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "too old"}}
    return [sys.executable, "-c", f"import sys\nfor line in sys.stdin: print({json.dumps(error)!r}, flush=True)"]


def entry(words: list[str], **more: Any) -> dict[str, Any]:
    return {"command": words[0], "args": words[1:], **more}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path


def configure(home: Path, servers: dict[str, Any], file: str = ".claude.json", key: str = "mcpServers") -> None:
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(json.dumps({key: servers}))


UNSET = dict.fromkeys(("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", *PROXIES), "")
"""Variables of the machine that runs the tests, which are not what they are about."""


def doctor(home: Path, *arguments: str, code: int = 1, **variables: str) -> list[dict[str, Any]]:
    environment: Any = {"HOME": str(home), **UNSET, **variables}
    done = mcpproxy("doctor", *arguments, "--json", cwd=home / "project", **environment)
    assert done.returncode == code, (done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def examine(home: Path, text: str, code: int = 1) -> list[dict[str, Any]]:
    """What `doctor` says of a server in Python."""
    configure(home, {"server": entry([sys.executable, "-c", text])})
    return doctor(home, "claude-code", "server", code=code)


def verdicts(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Each verdict with its evidence and advice."""
    return {one["verdict"]: f"{one['evidence']} → {one['advice']}" for row in rows for one in row["verdicts"]}


# ---- servers with a command


def test_a_server_that_works_has_no_verdict(home: Path) -> None:
    configure(home, {"fine": entry(good())})
    (row,) = doctor(home, "claude-code", "fine", code=0)
    assert (row["works"], row["verdicts"], row["tools"]) == (True, [], 1)
    assert 0 < row["first_byte_ms"] <= row["initialize_ms"] <= row["tools_list_ms"]


def test_a_command_can_be_examined_without_a_client(home: Path) -> None:
    done = mcpproxy("doctor", "--", *good(), cwd=home, HOME=str(home))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"1 tool" in done.stdout


@pytest.mark.parametrize(
    ("words", "verdict", "evidence"),
    [
        ([sys.executable, "-c", "import sys; sys.exit('no credentials')"], "start/exits", "status 1: no credentials"),
        (["no-such-program-of-ours"], "start/not-found", "no-such-program-of-ours is not in"),
        (["/no/such/program"], "start/not-found", "/no/such/program does not exist"),
        (["/etc"], "start/not-executable", "/etc is not"),
        (good("print('INFO ready', flush=True)"), "stdio/log-on-stdout", "INFO ready"),
        (
            [
                sys.executable,
                "-c",
                REFUSES := "import sys,json\nfor l in sys.stdin: print(json.dumps({'jsonrpc':'2.0','id':"
                "json.loads(l)['id'],'error':{'code':-32602,'message':'too old'}}), flush=True)",
            ],
            "start/refused",
            "too old",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_fails_is_named(home: Path, words: list[str], verdict: str, evidence: str) -> None:
    configure(home, {"server": entry(words)})
    rows = doctor(home, "claude-code", "server", code=0 if verdict.startswith("stdio/") else 1)
    assert list(verdicts(rows)) == [verdict]
    assert evidence in verdicts(rows)[verdict]


def test_a_program_outside_of_the_path_is_looked_for(home: Path) -> None:
    program = home / ".nvm/versions/node/v22.1.0/bin/npx-of-ours"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    configure(home, {"server": {"command": "npx-of-ours"}})
    assert str(program) in verdicts(doctor(home))["start/not-found"]


LINE = f"{sys.executable} -c pass"
APART = f'"{sys.executable}"', '["-c", "pass"]'


@pytest.mark.parametrize(
    ("client", "file", "text", "advice"),
    [
        ("cursor", ".cursor/mcp.json", {"mcpServers": {"a": {"command": LINE}}}, '"command": {}, "args": {}'),
        (
            "cursor",
            ".cursor/mcp.json",
            {"mcpServers": {"a": {"command": LINE, "args": ["x"]}}},
            '"command": {}, "args": {}, and behind these what args holds now',
        ),
        (
            "cursor",
            ".cursor/mcp.json",
            {"mcpServers": {"a": entry([sys.executable, "run", "--name", "a", "--", LINE])}},
            f'"{sys.executable}", "-c", "pass" in place of "{LINE}" in its args',
        ),
        (
            "opencode",
            ".config/opencode/opencode.json",
            {"mcp": {"a": {"command": [LINE]}}},
            f'"command": ["{sys.executable}", "-c", "pass"]',
        ),
        ("codex", ".codex/config.toml", f'[mcp_servers.a]\ncommand = "{LINE}"\n', "command = {}, args = {}"),
        ("goose", ".config/goose/config.yaml", f"extensions:\n  a:\n    cmd: {LINE}\n", "cmd: {}, args: {}"),
    ],
    ids=("JSON", "JSON with args", "routed", "a list", "TOML", "YAML"),
)
def test_a_command_line_in_one_word_is_recognised(
    home: Path, client: str, file: str, text: str | dict[str, Any], advice: str
) -> None:
    """The advice shows the words as this client's file would hold them."""
    if isinstance(text, dict) and advice.endswith("in its args"):
        text["mcpServers"]["a"]["command"] = str(Path(sys.executable).parent / "mcpproxy")
    (home / file).parent.mkdir(parents=True)
    (home / file).write_text(text if isinstance(text, str) else json.dumps(text))
    found = verdicts(doctor(home, client))
    assert list(found) == ["start/not-found"]
    assert f"{sys.executable} is a program, and what follows it are arguments" in found["start/not-found"]
    assert f"→ write {advice.format(*APART)}" in found["start/not-found"]


def test_a_command_line_in_one_word_whose_program_is_missing_or_typed(home: Path) -> None:
    configure(home, {"a": {"command": "no-such-program-of-ours -y x"}})
    found = verdicts(doctor(home, "claude-code"))["start/not-found"]
    assert "no-such-program-of-ours is not in" in found
    assert (
        '→ install no-such-program-of-ours, and write "command": "no-such-program-of-ours", "args": ["-y", "x"]'
        in found
    )
    done = mcpproxy("doctor", "--", LINE, cwd=home, HOME=str(home))
    assert f"→ write mcpproxy doctor -- {LINE}" in " ".join(done.stdout.decode().split())
    configure(home, {"a": {"command": "/no such/program -y"}})
    assert "/no such/program -y does not exist → None" in verdicts(doctor(home, "claude-code"))["start/not-found"]


def test_a_secret_behind_a_variable_is_not_in_the_advice(home: Path) -> None:
    configure(home, {"a": {"command": LINE + " ${PASSWORD_OF_OURS}"}})
    found = verdicts(doctor(home, "claude-code", PASSWORD_OF_OURS="hunter2"))["start/not-found"]
    assert '"${PASSWORD_OF_OURS}"' in found
    assert "hunter2" not in found


def test_a_recorder_that_cannot_record_is_not_taken_for_the_server(home: Path) -> None:
    """The directory for captures of a routed server has become a file."""
    configure(home, {"a b": entry(good())}, ".cursor/mcp.json")
    assert mcpproxy("install", "cursor", "--capture", "own", cwd=home, HOME=str(home)).returncode == 0
    assert verdicts(doctor(home, "cursor", code=0)) == {}
    assert not (home / "own").exists(), "doctor leaves nothing where captures go"
    (home / "own").write_text("")
    found = verdicts(doctor(home, "cursor"))
    assert list(found) == ["route/cannot-record"]
    assert f"{home}/own is not a directory" in found["route/cannot-record"]
    assert "`mcpproxy install cursor --server 'a b' --capture DIR`" in found["route/cannot-record"]


def test_where_a_routed_server_records_is_found_as_its_recorder_finds_it(home: Path) -> None:
    loose = home / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    (home / "file").write_text("")
    (home / "taken.mcpcap").write_text("")
    cases: dict[str, tuple[list[str], dict[str, str], str]] = {
        "data": ([], {"XDG_DATA_HOME": f"{home}/file"}, f"{home}/file is not a directory"),
        "variable": (["--name", "x"], {"MCPPROXY_CAPTURES": f"{home}/file"}, f"{home}/file is not a directory"),
        "loose": (["--capture", f"{loose}/"], {}, "is writable by others"),
        "no slash": (["--capture", str(loose)], {}, "is writable by others"),
        "below": (["--capture", f"{loose}/below/"], {}, f"{loose} is writable by everyone"),
        "taken": (["--capture", f"{home}/taken.mcpcap"], {}, "exists already"),
        "new": (["--capture", f"{home}/new.mcpcap"], {}, ""),
        "relative": (["--capture", "captures/"], {}, ""),
    }
    program = str(Path(sys.executable).parent / "mcpproxy")
    servers = {
        name: entry([program, "run", *options, "--", *good()], env=variables)
        for name, (options, variables, _) in cases.items()
    }
    configure(home, servers, ".cursor/mcp.json")
    before = sorted(home.rglob("*"))
    rows = {row["server"]: row for row in doctor(home, "cursor")}
    for name, (_, _, evidence) in cases.items():
        assert [*verdicts([rows[name]])] == (["route/cannot-record"] if evidence else []), name
        assert evidence in "".join(verdicts([rows[name]]).values()), name
    assert sorted(path for path in home.rglob("*") if ".config" not in path.parts) == before


def test_a_doctor_that_cannot_record_is_not_taken_for_the_server(home: Path) -> None:
    """The recorder refuses to write below a directory in which everyone can rename entries."""
    loose = home / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    configure(home, {"a": entry(good()), "b": entry([sys.executable, "-c", "import sys; sys.exit(73)"])})
    rows = doctor(home, "claude-code", TMPDIR=str(loose))
    for row in rows:
        found = verdicts([row])
        assert list(found) == ["route/cannot-record"]
        assert f"{loose} is writable by everyone" in found["route/cannot-record"]
        assert "→ set TMPDIR" in found["route/cannot-record"]
    assert [*verdicts(doctor(home, "claude-code", "b"))] == ["start/exits"]


def test_a_missing_interpreter_is_told_from_a_missing_program(home: Path) -> None:
    for name, first in (("gone", "#!/no/such/python"), ("unknown", "#!/usr/bin/env node-of-nobody")):
        program = home / name
        program.write_text(f"{first}\n")
        program.chmod(0o755)
        configure(home, {"server": {"command": str(program)}})
        assert first.split()[-1] in verdicts(doctor(home))["start/interpreter-missing"]


def test_a_server_that_hangs_is_given_up_and_ended(home: Path) -> None:
    mark = home / "pid"
    code = f"import os,time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    (home / ".codex").mkdir()
    with started("doctor", "--json", "--", sys.executable, "-c", code, HOME=str(home)) as process:
        wait_until(lambda: mark.exists() and mark.read_text())
        process.terminate()
        wait_until(lambda: process.poll() is not None)
    wait_until(lambda: int(mark.read_text()) not in all_pids())


def test_a_server_that_prints_without_end_is_heard_all_the_same(home: Path) -> None:
    noise = "for n in range(50_000): print('INFO line', n)"
    configure(home, {"loud": entry(good(noise.replace("\n", "; ")))})
    found = verdicts(doctor(home, "claude-code", "loud", code=0))
    assert list(found) == ["stdio/log-on-stdout"]


def test_a_server_that_leaves_a_daemon_and_ignores_the_end(home: Path) -> None:
    mark = home / "pids"
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"mark = open({str(mark)!r}, 'a')\n"
        "if os.fork() == 0: os.setsid()\n"
        "mark.write(f'{os.getpid()}\\n'); mark.flush()\n"
        "while True: time.sleep(100)"
    )
    with started("doctor", "--json", "--", sys.executable, "-c", code, HOME=str(home)) as process:
        wait_until(lambda: mark.exists() and mark.read_text().count("\n") == 2)
        process.terminate()
        wait_until(lambda: process.poll() is not None)
    pids = [int(pid) for pid in mark.read_text().split()]
    wait_until(lambda: not {*pids} & {*all_pids()})


def test_no_daemon_stays(home: Path) -> None:
    mark = home / "pid"
    daemon = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    )
    fork = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {daemon!r}], start_new_session=True)\n"
        f"while not os.path.exists({str(mark)!r}) or not os.path.getsize({str(mark)!r}): time.sleep(0.01)"
    )
    code = f"import os, time, sys\n{fork}\nsys.exit(5)"
    assert "start/exits" in verdicts(examine(home, code))
    assert int(mark.read_text()) not in all_pids()
    mark.unlink()
    examine(home, f"import os, time\n{fork}\n" + GOOD.replace("BEFORE", "pass"), code=0)
    assert int(mark.read_text()) not in all_pids()


def test_a_server_that_asks_without_end_and_never_reads(home: Path) -> None:
    from mcpproxy.doctor.process_attempt import attempt

    recorder = (sys.executable, "-P", "-m", "mcpproxy")
    ask = json.dumps({"jsonrpc": "2.0", "id": "x" * 200, "method": "roots/list"})
    code = f"while True: print({ask!r}, flush=True)"
    seen = attempt(recorder, [sys.executable, "-c", code], dict(os.environ, HOME=str(home)), home, 3.0)
    assert (seen.result, seen.status, seen.is_closed) == (None, None, False)


def test_little_is_kept_of_long_lines(home: Path) -> None:
    code = "import sys; sys.stderr.write('x' * 30_000_000); sys.stderr.write('\\nno key\\n'); sys.exit(3)"
    evidence = verdicts(examine(home, code))["start/exits"]
    assert "no key" in evidence
    assert len(evidence) < 10_000


def test_a_server_that_closes_its_stdout_and_goes_on(home: Path) -> None:
    code = "import os, time; os.close(1); time.sleep(1000)"
    assert "has closed its stdout" in verdicts(examine(home, code))["start/no-answer"]


UNFIT: dict[str, dict[str, Any]] = {
    "NUL in a word": {"args": ["\0"]},
    "half a character": {"args": ["\ud800"]},
    "NUL in the command": {"command": "/bin/cat\0"},
    "half a character in the command": {"command": "cat\ud800"},
    "NUL in a variable": {"env": {"A": "\0"}},
    "NUL in the PATH": {"env": {"PATH": "\0"}},
    "an impossible variable": {"env": {"A=B": "x"}},
    "NUL in the folder": {"cwd": "\0"},
    "a long command": {"command": "/" + "x" * 5000},
    "a first line with an open quote": {"command": "./script"},
}


@pytest.mark.parametrize("kind", UNFIT)
def test_what_no_process_can_be_given(home: Path, kind: str) -> None:
    script = home / "project/script"
    script.write_text('#!/no/such/shell "x\n')
    script.chmod(0o755)
    configure(home, {"odd": {"command": sys.executable, **UNFIT[kind]}}, ".cursor/mcp.json")
    (row,) = doctor(home, "cursor")
    assert {one["verdict"] for one in row["verdicts"]} & {"start/exits", "start/not-found", "start/interpreter-missing"}


def test_no_answer_in_the_time_of_the_client(home: Path) -> None:
    from mcpproxy.doctor.process_attempt import attempt

    recorder = (sys.executable, "-P", "-m", "mcpproxy")
    words = [sys.executable, "-c", "import sys, time; print('waiting', file=sys.stderr, flush=True); sys.stdin.read()"]
    seen = attempt(recorder, words, dict(os.environ, HOME=str(home)), home, 3.0)
    assert (seen.result, seen.initialize_s) == (None, None)
    assert seen.stderr[-1:] == ["waiting"] or seen.stderr == []


def test_a_slow_start_is_measured_against_the_client(home: Path) -> None:
    from mcpproxy.clients.machine import Machine
    from mcpproxy.doctor.examination import of_command, slowness

    machine = Machine("linux", home, dict(os.environ), home)
    recorder = (sys.executable, "-P", "-m", "mcpproxy")
    variables = dict(os.environ, HOME=str(home))
    result = of_command("x", good(), variables, home, machine, recorder, 0.01)
    assert [one.verdict.id for one in result.diagnoses] == ["start/too-slow"]
    assert result.fails
    slow = [slowness(seconds, 30.0) for seconds in (None, 1.0, 16.0, 31.0)]
    assert [one and one.verdict.id for one in slow] == [None, None, "start/slow", "start/too-slow"]


def test_a_server_gets_the_environment_of_its_client(home: Path) -> None:
    """The good server names its first variable as a tool; Copilot CLI passes on PATH alone."""
    configure(home, {"fine": entry(good())}, ".copilot/mcp-config.json")
    variables = {"HTTPS_PROXY": "http://127.0.0.1:1", "NODE_EXTRA_CA_CERTS": "/x", "AAA": "1"}
    found = verdicts(doctor(home, "copilot", "fine", code=0, **variables))
    assert "HTTPS_PROXY" in found["environment/proxy-lost"]
    assert "NODE_EXTRA_CA_CERTS" in found["environment/ca-lost"]
    own = {"HTTPS_PROXY": "", "NODE_EXTRA_CA_CERTS": "/x"}
    configure(home, {"fine": entry(good(), env=own)}, ".copilot/mcp-config.json")
    assert verdicts(doctor(home, "copilot", "fine", code=0, **variables)) == {}


# ---- files and entries


def test_files_that_a_client_cannot_read(home: Path) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {}} // no')
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text('{"mcpServers": \n {')
    found = verdicts(doctor(home))
    assert "line 1, column 20" in found["config/comment"]
    assert "line 2, column 3" in found["config/unreadable"]


def test_servers_under_the_key_of_another_client(home: Path) -> None:
    configure(home, {"a": {"command": "x"}}, ".config/Code/User/mcp.json")
    assert "`mcpServers` → rename it to `servers`" in verdicts(doctor(home))["config/wrong-key"]


def test_a_file_that_the_client_does_not_read(home: Path) -> None:
    configure(home, {}, ".claude.json")
    configure(home, {"a": {"command": "x"}}, ".claude/mcp.json")
    assert "~/.claude.json" in verdicts(doctor(home))["config/unread-file"]


def test_project_servers_that_were_not_approved(home: Path) -> None:
    project = str((home / "project").resolve())
    configure(home, {"shared": entry(good())}, "project/.mcp.json")
    (home / ".claude.json").write_text(json.dumps({"projects": {project: {}}}))
    assert "shared of .mcp.json" in verdicts(doctor(home, "claude-code"))["config/not-trusted"]
    (home / ".claude.json").write_text(json.dumps({"projects": {project: {"enabledMcpjsonServers": ["shared"]}}}))
    assert verdicts(doctor(home, "claude-code", code=0)) == {}
    (home / "project/.codex").mkdir()
    (home / "project/.codex/config.toml").write_text(f'[mcp_servers.a]\ncommand = "{sys.executable}"\n')
    assert "not a trusted project" in verdicts(doctor(home, "codex"))["config/not-trusted"]


def marking(home: Path) -> tuple[dict[str, Any], Path]:
    """A server that works and leaves a mark when it is started."""
    mark = home / "started"
    return entry(good(f"open({str(mark)!r}, 'w').close()")), mark


PROJECT_FILES = {
    "cursor": ("project/.cursor/mcp.json", "mcpServers"),
    "vscode": ("project/.vscode/mcp.json", "servers"),
    "copilot": ("project/.mcp.json", "mcpServers"),
    "gemini": ("project/.gemini/settings.json", "mcpServers"),
}


@pytest.mark.parametrize("client", PROJECT_FILES)
def test_a_server_of_a_cloned_repository_is_started_only_by_its_name(home: Path, client: str) -> None:
    server, mark = marking(home)
    configure(home, {"odd; name": server}, *PROJECT_FILES[client])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        configure(home, {"odd; name": server, "web": {"url": url}}, *PROJECT_FILES[client])
        for words in ((client,), ()):
            rows = doctor(home, *words, code=1 if not words and client == "copilot" else 0)
            found = {row["server"]: row for row in rows if row["client"] == client}
            assert [*found] == ["odd; name", "web"]
            for name, row in found.items():
                assert row["works"] is None
                text = verdicts([row])["config/needs-consent"]
                assert f"→ if you trust it: mcpproxy doctor {client} {name if name == 'web' else repr(name)}" in text
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert not mark.exists()
    done = mcpproxy("doctor", client, cwd=home / "project", HOME=str(home))
    assert "· " + client in done.stdout.decode()
    assert "0 servers examined, 0 do not work\n2 servers of the project not started" in done.stdout.decode()
    (row,) = doctor(home, client, "odd; name", code=0)
    assert (row["works"], row["verdicts"], mark.exists()) == (True, [], True)


def test_a_server_that_was_approved_in_the_client_is_started(home: Path) -> None:
    project = str((home / "project").resolve())
    server, mark = marking(home)
    own, shared, local = (
        home / ".claude.json",
        home / ".claude/settings.json",
        home / "project/.claude/settings.local.json",
    )
    for path in (shared, local):
        path.parent.mkdir()
    configure(home, {"a": server}, "project/.mcp.json")

    def is_started(verdict: str = "") -> bool:
        mark.unlink(missing_ok=True)
        rows = doctor(home, "claude-code", code=verdict == "config/not-trusted")
        assert [*verdicts(rows)] == ([verdict] if verdict else [])
        return mark.exists()

    enabled = {"enabledMcpjsonServers": ["a"]}
    assert not is_started("config/not-trusted")
    own.write_text(json.dumps({"projects": {project: enabled}}))
    assert is_started()
    own.unlink()
    shared.write_text(json.dumps(enabled))
    assert is_started()
    shared.unlink()
    local.write_text(json.dumps({"enableAllProjectMcpServers": True}))
    assert not is_started("config/needs-consent"), "what the repository says of itself is no approval"
    own.write_text(json.dumps({"projects": {project: {"hasTrustDialogAccepted": True}}}))
    assert is_started()
    local.write_text(json.dumps({"disabledMcpjsonServers": ["a"]}))
    assert not is_started("config/not-trusted")
    (row,) = doctor(home, "claude-code", "a")
    assert ([*verdicts([row])], row["tools"], mark.exists()) == (["config/not-trusted"], 1, True)


def test_folders_that_codex_and_gemini_trust(home: Path) -> None:
    project = (home / "project").resolve()
    server, mark = marking(home)
    words = json.dumps(server["args"])
    (project / ".codex").mkdir()
    (project / ".codex/config.toml").write_text(f'[mcp_servers.a]\ncommand = "{sys.executable}"\nargs = {words}\n')
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(f'[projects."{project}"]\ntrust_level = "trusted"\n')
    assert doctor(home, "codex", code=0)[0]["works"]
    assert mark.exists()
    configure(home, {"a": server}, "project/.gemini/settings.json")
    (home / ".gemini").mkdir()
    for levels, is_started in (
        ({home: "TRUST_FOLDER"}, True),
        ({home: "TRUST_FOLDER", project: "DO_NOT_TRUST"}, False),
    ):
        mark.unlink()
        (home / ".gemini/trustedFolders.json").write_text(json.dumps({str(k): v for k, v in levels.items()}))
        doctor(home, "gemini", code=0)
        assert mark.exists() is is_started


@pytest.mark.parametrize("file", ["project/.qwen/settings.json", "project/.mcp.json"])
def test_an_approval_of_qwen_code_is_bound_to_the_entry(home: Path, file: str) -> None:
    """The hashes are those of Qwen Code 0.24.4: it replaces variables first, but not in `.mcp.json`."""
    entry = {"command": "/bin/false", "args": ["é"], "env": {"B": "${OURS}", "A": "1"}, "description": "x"}
    hashes = {
        "project/.qwen/settings.json": "c61791318d7acdc2cd23a6d4012b130e5d99ca094bfb09257720300933e9e1ea",
        "project/.mcp.json": "a9ad37305cac21ce64430dbd487257a91dbc221d4c119f0312da8d8a23a3414a",
    }
    configure(home, {"a": entry}, file)
    approvals = home / ".qwen/mcpApprovals.json"
    approvals.parent.mkdir(exist_ok=True)

    def reason(status: str = "", **change: str) -> str:
        record = {"hash": hashes[file], "status": status}
        approvals.write_text(json.dumps({str((home / "project").resolve()): {"a": record} if status else {}}))
        configure(home, {"a": {**entry, **change}}, file)
        return verdicts(doctor(home, "qwen", OURS="ours")).get("config/not-trusted", "")

    assert "was not approved yet; `qwen mcp approve a` approves it" in reason()
    assert "was rejected" in reason("rejected")
    assert reason("approved") == ""
    assert reason("approved", description="y") == ""
    assert "was changed since it was approved" in reason("approved", command="/bin/true")


def test_variables_without_a_value(home: Path) -> None:
    configure(home, {"a": entry(good(), env={"KEY": "${NO_SUCH_VARIABLE}", "B": "${NO_SUCH:-x}", "C": "${HOME}"})})
    found = verdicts(doctor(home, "claude-code"))
    assert list(found) == ["config/variable-unset"]
    assert "NO_SUCH_VARIABLE has no value" in found["config/variable-unset"]


def test_words_that_a_shell_would_change(home: Path) -> None:
    configure(home, {"a": entry([sys.executable, "two words"])}, ".augment/settings.json")
    assert "two words" in verdicts(doctor(home, "auggie"))["config/shell-words"]


# ---- servers with a URL


class _Handler(BaseHTTPRequestHandler):
    """Speaks as its path says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.path.strip("/").partition("?")[0]
        if kind == "streamable" and self.headers.get("X-Key", "") == "":
            message = json.loads(body)
            results = {
                "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}},
                "tools/list": {"tools": [{"name": "a"}, {"name": "b"}]},
                "ping": {},
            }
            if "id" not in message:
                return self.answer(202)
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
            if message["method"] == "tools/list":
                return self.answer(200, f"event: message\ndata: {json.dumps(answer)}\n\n", "text/event-stream")
            return self.answer(200, json.dumps(answer), "application/json", {"Mcp-Session-Id": "s"})
        if kind == "hangs":
            self.server.gate.wait(60)  # type: ignore[attr-defined]
            return None
        if kind in ("drips", "pings"):
            media = "text/event-stream" if kind == "pings" else "application/json"
            self.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: 9999\r\n\r\n".encode())
            while not self.server.gate.wait(0.1):  # type: ignore[attr-defined]
                self.wfile.write(b": ping\n\n" if kind == "pings" else b" ")
            return None
        if kind == "text":
            return self.answer(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": "x"}), "application/json")
        if kind == "page":
            return self.answer(200, "<html>", "text/html")
        if kind == "refuses":
            error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "too new"}}
            return self.answer(200, json.dumps(error), "application/json")
        if kind == "oauth":
            return self.answer(401, headers={"WWW-Authenticate": 'Bearer resource_metadata="http://127.0.0.1/m"'})
        if kind == "moved":
            return self.answer(307, headers={"Location": "https://other.example/mcp?secret=1"})
        return self.answer(405 if kind == "sse" else 404)

    def do_GET(self) -> None:
        if self.path == "/sse":
            return self.answer(200, "event: endpoint\ndata: /messages?x=1\n\n", "text/event-stream")
        return self.answer(405)

    def do_DELETE(self) -> None:
        self.answer(405)

    def answer(
        self, status: int, body: str = "", kind: str = "text/plain", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def http_server(certificate: Path | None = None) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.gate = threading.Event()  # type: ignore[attr-defined]
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.gate.set()  # type: ignore[attr-defined]
            server.shutdown()
            thread.join()


def test_urls(home: Path) -> None:
    paths = {
        "page": "http/not-mcp",
        "nowhere": "http/not-mcp",
        "refuses": "start/refused",
        "text": "start/refused",
        "oauth": "http/unauthorized",
        "moved": "http/redirected",
        "sse": "http/wrong-transport",
    }
    with http_server() as base:
        (row,) = doctor(home, f"{base}/streamable", code=0)
        assert (row["works"], row["tools"], row["verdicts"]) == (True, 2, [])
        for path, verdict in paths.items():
            found = verdicts(doctor(home, f"{base}/{path}"))
            assert list(found) == [verdict], path
            assert "secret" not in found[verdict]
        configure(
            home, {"old": {"type": "sse", "url": f"{base}/sse"}, "new": {"type": "sse", "url": f"{base}/streamable"}}
        )
        rows = {row["server"]: row for row in doctor(home, "claude-code")}
        assert rows["old"]["works"]
        assert list(verdicts([rows["new"]])) == ["http/wrong-transport"]


def test_a_closed_port_and_an_unknown_host(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert list(verdicts(doctor(home, f"http://127.0.0.1:{port}/mcp"))) == ["http/port-closed"]
    (home / "hosts").write_text("")
    assert list(verdicts(doctor(home, "http://[::1%nosuch]:1/mcp"))) == ["http/unreachable"]


def test_a_certificate_that_is_not_trusted(home: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    pem = home / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-keyout", str(pem), "-out", str(home / "cert.pem")], check=True, capture_output=True,
    )  # fmt: skip
    pem.write_text(pem.read_text() + (home / "cert.pem").read_text())
    with http_server(pem) as base:
        assert "self-signed" in verdicts(doctor(home, f"{base}/streamable"))["http/tls"].replace(
            "self signed", "self-signed"
        )


def test_a_server_that_accepts_and_says_nothing(home: Path) -> None:
    from mcpproxy.doctor.http_attempt import attempt

    with http_server() as base:
        for path in ("hangs", "drips", "pings"):
            seen = attempt(f"{base}/{path}", {}, is_sse=False, limit_s=0.5)
            assert seen.diagnosis is not None, path
            assert seen.diagnosis.verdict.id == "http/no-answer", path


def test_headers_of_the_entry_are_sent_and_never_shown(home: Path) -> None:
    with http_server() as base:
        configure(
            home, {"a": {"type": "http", "url": f"{base}/streamable?token=hunter2", "headers": {"X-Key": "hunter2"}}}
        )
        done = mcpproxy("doctor", cwd=home / "project", HOME=str(home))
        assert done.returncode == 1
        assert b"http/not-mcp" in done.stdout
        assert b"hunter2" not in done.stdout + done.stderr


def test_loopback_through_a_proxy(home: Path) -> None:
    with http_server() as base:
        configure(home, {"a": {"type": "http", "url": f"{base}/streamable"}})
        proxied = {"HTTPS_PROXY": "http://127.0.0.1:1", "no_proxy": "", "NO_PROXY": "example.com"}
        found = verdicts(doctor(home, "claude-code", code=0, **proxied))
        assert list(found) == ["http/loopback-proxied"]
        assert verdicts(doctor(home, "claude-code", code=0, **proxied | {"NO_PROXY": "127.0.0.1"})) == {}


def test_a_route_that_is_cut_is_named_before_the_server_behind_it(home: Path) -> None:
    """The client reaches neither, however well the server itself works."""
    with http_server() as base:
        configure(home, {"a": {"url": f"{base}/streamable"}}, ".cursor/mcp.json")
        assert mcpproxy("install", "cursor", cwd=home, HOME=str(home), NO_PROXY="127.0.0.1").returncode == 0
        assert "start `mcpproxy up`" in verdicts(doctor(home, "cursor"))["http/port-closed"]
    gone = entry(["/no/such/mcpproxy", "run", "--name", "x", "--", *good()])
    configure(home, {"x": gone}, ".cursor/mcp.json")
    assert "run `mcpproxy install` again" in verdicts(doctor(home, "cursor"))["start/not-found"]


# ---- as typed


def test_text_for_people(home: Path) -> None:
    configure(home, {"fine": entry(good()), "bad\x1b[2J": {"command": "no-such-program-of-ours"}})
    done = mcpproxy("doctor", cwd=home / "project", HOME=str(home))
    text = done.stdout.decode()
    assert done.returncode == 1
    assert "✓ claude-code  fine" in text
    assert "start/not-found" in text
    assert "2 servers examined, 1 does not work" in text
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_wrong_usage(home: Path) -> None:
    for words, hint in (
        (["cursr"], "did you mean cursor?"),
        (["cursor"], "docs/clients.md"),
        (["claude-code", "--"], "after `--`"),
        (["ftp://x/"], "http or https"),
        (["--explain", "start/not-fund"], "did you mean start/not-found?"),
    ):
        done = mcpproxy("doctor", *words, cwd=home, HOME=str(home))
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), words
        assert hint in done.stderr.decode(), words


def test_every_verdict_has_a_page_that_is_made_from_it() -> None:
    folder = ROOT / "docs/doctor"
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == pages(), "make doctor-docs"
    for verdict in VERDICTS:
        done = mcpproxy("doctor", "--explain", verdict.id)
        assert done.returncode == 0
        assert all(heading in done.stdout.decode() for heading in HEADINGS)
