"""Every verdict is given for a real failure of its kind, and none for a server that works."""

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.wrapper import KEEP_SERVING_OPTION
from mcpproxy.doctor.pages import pages
from mcpproxy.doctor.verdict import HEADINGS
from mcpproxy.doctor.verdicts import VERDICTS
from tests.harness import DEADLINE_S, all_pids, wait_until
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal, started
from tests.mcpproxy.doctor.cases import GOOD, configure, doctor, entry, examine, good, verdicts

ROOT = Path(__file__).parents[3]


# ---- servers with a command


def test_a_server_that_works_has_no_verdict(home: Path) -> None:
    configure(home, {"fine": entry(good())})
    (row,) = doctor(home, "claude-code", "fine", code=0)
    assert (row["works"], verdicts([row]), row["tools"]) == (True, {}, 1)
    assert 0 < row["first_byte_ms"] <= row["initialize_ms"] <= row["tools_list_ms"]


def test_a_command_can_be_examined_without_a_client(home: Path) -> None:
    done = mcpproxy("doctor", "--", *good(), cwd=home, HOME=str(home))
    assert (done.returncode, done.stderr) == (0, b"")
    first, times = done.stdout.decode().splitlines()[:2]
    assert first.endswith("  1 tool")
    assert re.fullmatch(
        r"    first byte after [\d.]+ m?s, initialize after [\d.]+ m?s, tools/list after [\d.]+ m?s", times
    )
    without_tools = good().copy()
    without_tools[-1] = without_tools[-1].replace('"capabilities": {"tools": {}}', '"capabilities": {}')
    done = mcpproxy("doctor", "--", *without_tools, cwd=home, HOME=str(home))
    assert re.search(r"\n    first byte after [\d.]+ m?s, initialize after [\d.]+ m?s\n", done.stdout.decode())


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
            '"command": {}, "args": {}, followed by what args contains now',
        ),
        (
            "cursor",
            ".cursor/mcp.json",
            {"mcpServers": {"a": entry([sys.executable, "run", "--name", "a", "--", LINE])}},
            f'replace "{LINE}" with "{sys.executable}", "-c", "pass" in its args',
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
    """The advice shows the separate words as this client's file would have them."""
    if isinstance(text, dict) and advice.endswith("in its args"):
        text["mcpServers"]["a"]["command"] = str(Path(sys.executable).parent / "mcpproxy")
    (home / file).parent.mkdir(parents=True)
    (home / file).write_text(text if isinstance(text, str) else json.dumps(text))
    found = verdicts(doctor(home, client))
    assert list(found) == ["start/not-found"]
    assert f"{sys.executable} is a program; the words after it are arguments" in found["start/not-found"]
    assert advice.format(*APART) in found["start/not-found"]


def test_a_command_line_in_one_word_whose_program_is_missing_or_typed(home: Path) -> None:
    configure(home, {"a": {"command": "no-such-program-of-ours -y x"}})
    found = verdicts(doctor(home, "claude-code"))["start/not-found"]
    assert "no-such-program-of-ours is not in" in found
    assert (
        '→ install no-such-program-of-ours, and write "command": "no-such-program-of-ours", "args": ["-y", "x"]'
        in found
    )
    done = mcpproxy("doctor", "--", LINE, cwd=home, HOME=str(home))
    assert f"→ run mcpproxy doctor -- {LINE}" in " ".join(done.stdout.decode().split())
    configure(home, {"a": {"command": "/no such/program -y"}})
    assert "/no such/program -y does not exist → None" in verdicts(doctor(home, "claude-code"))["start/not-found"]


def test_a_secret_behind_a_variable_is_not_in_the_advice(home: Path) -> None:
    configure(home, {"a": {"command": LINE + " ${PASSWORD_OF_OURS}"}})
    found = verdicts(doctor(home, "claude-code", PASSWORD_OF_OURS="hunter2"))["start/not-found"]
    assert '"${PASSWORD_OF_OURS}"' in found
    assert "hunter2" not in found


def test_a_recorder_that_cannot_record_is_not_taken_for_the_server(home: Path) -> None:
    """The captures directory of a routed server is a file."""
    configure(home, {"a b": entry(good())}, ".cursor/mcp.json")
    assert mcpproxy("install", "cursor", "--capture", "own", cwd=home, HOME=str(home)).returncode == 0
    assert verdicts(doctor(home, "cursor", code=0)) == {}
    assert not (home / "own").exists(), "doctor leaves nothing where captures go"
    (home / "own").write_text("")
    found = verdicts(doctor(home, "cursor", code=0))
    assert list(found) == ["route/unrecorded"], "install has written that it starts all the same"
    assert f"{home}/own is not a directory" in found["route/unrecorded"]
    path = home / ".cursor/mcp.json"
    path.write_text(path.read_text().replace(f'"{KEEP_SERVING_OPTION}", ', ""))
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
        "taken": (["--capture", f"{home}/taken.mcpcap"], {}, "already exists"),
        "long": (["--capture", f"{home}/{'x' * 300}/"], {}, "a name in it is too long"),
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
    """The recorder refuses to write below a directory in which everyone can rename files."""
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
        assert first.split()[-1].removeprefix("#!") in verdicts(doctor(home))["start/interpreter-missing"]


def test_a_server_that_hangs_is_given_up_and_ended(home: Path) -> None:
    mark = home / "pid"
    code = f"import os,time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    (home / ".codex").mkdir()
    with started("doctor", "--json", "--", sys.executable, "-c", code, HOME=str(home)) as process:
        wait_until(lambda: mark.exists() and mark.read_text())
        process.terminate()
        wait_until(lambda: process.poll() is not None)
    wait_until(lambda: int(mark.read_text()) not in all_pids())


@pytest.mark.costly("fourteen thousand lines go through the recorder")
def test_a_server_that_prints_without_end_is_heard_all_the_same(home: Path) -> None:
    noise = "for n in range(7_000): print('INFO line', n)"
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
    from mcpproxy.doctor.process_attempt import attempt_command

    recorder = (sys.executable, "-P", "-m", "mcpproxy")
    ask = json.dumps({"jsonrpc": "2.0", "id": "x" * 200, "method": "roots/list"})
    code = f"while True: print({ask!r}, flush=True)"
    seen = attempt_command(recorder, [sys.executable, "-c", code], dict(os.environ, HOME=str(home)), home, 1.0)
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
    from mcpproxy.doctor.process_attempt import attempt_command

    recorder = (sys.executable, "-P", "-m", "mcpproxy")
    words = [sys.executable, "-c", "import sys, time; print('waiting', file=sys.stderr, flush=True); sys.stdin.read()"]
    seen = attempt_command(recorder, words, dict(os.environ, HOME=str(home)), home, 3.0)
    assert (seen.result, seen.initialize_s) == (None, None)
    assert seen.stderr[-1:] == ["waiting"] or seen.stderr == []


def test_a_slow_start_is_measured_against_the_client(home: Path) -> None:
    from mcpproxy.clients.machine import Machine
    from mcpproxy.doctor.examination import diagnose_slowness, examine_command

    machine = Machine("linux", home, dict(os.environ), home)
    recorder = (sys.executable, "-P", "-m", "mcpproxy")
    variables = dict(os.environ, HOME=str(home))
    result = examine_command("x", good(), variables, home, machine, recorder, 0.01)
    assert [one.verdict.id for one in result.diagnoses] == ["start/too-slow"]
    assert result.fails
    slow = [diagnose_slowness(seconds, 30.0) for seconds in (None, 1.0, 16.0, 31.0)]
    assert [one and one.verdict.id for one in slow] == [None, None, "start/slow", "start/too-slow"]


def test_a_server_gets_the_environment_of_its_client(home: Path) -> None:
    """The good server has a tool named after its first variable; Copilot CLI passes on only PATH."""
    configure(home, {"fine": entry(good())}, ".copilot/mcp-config.json")
    variables = {"HTTPS_PROXY": "http://127.0.0.1:1", "NODE_EXTRA_CA_CERTS": "/x", "AAA": "1"}
    found = verdicts(doctor(home, "copilot", "fine", code=0, **variables))
    assert "HTTPS_PROXY" in found["environment/proxy-lost"]
    assert "NODE_EXTRA_CA_CERTS" in found["environment/ca-lost"]
    own = {"HTTPS_PROXY": "", "NODE_EXTRA_CA_CERTS": "/x"}
    configure(home, {"fine": entry(good(), env=own)}, ".copilot/mcp-config.json")
    assert verdicts(doctor(home, "copilot", "fine", code=0, **variables)) == {}


@pytest.mark.parametrize(
    "entry_of",
    [
        lambda words: {"command": words},
        lambda words: {"executable": words[0], "args": words[1:]},
        lambda words: {"command": shlex.join(words)},
    ],
    ids=("list", "executable", "command line"),
)
def test_every_form_that_mcporter_accepts_is_started(
    home: Path, entry_of: Callable[[list[str]], dict[str, Any]]
) -> None:
    (home / "code.py").write_text(good()[-1])
    configure(home, {"a": entry_of([sys.executable, str(home / "code.py")])}, ".mcporter/mcporter.json")
    (row,) = doctor(home, "mcporter", code=0)
    assert (row["works"], verdicts([row]), row["tools"]) == (True, {}, 1)


def test_an_entry_that_cannot_be_started_is_not_said_to_work(home: Path) -> None:
    program = str(Path(sys.executable).parent / "mcpproxy")
    servers = {"odd": {"command": 5}, "none": {"x": 1}, "bare": entry([program, "run", "--name", "x", "--"])}
    configure(home, {**servers, "fine": entry(good())}, ".cursor/mcp.json")
    rows = {row["server"]: row for row in doctor(home, "cursor", code=0)}
    reasons = {
        "odd": "its command is not a string",
        "none": "has neither a command nor a URL",
        "bare": "nothing follows",
    }
    for name, reason in reasons.items():
        assert rows[name]["works"] is None, name
        assert reason in verdicts([rows[name]])["config/no-command"]
    assert rows["fine"]["works"] is True
    text = mcpproxy("doctor", "cursor", cwd=home / "project", HOME=str(home)).stdout.decode()
    assert "· cursor  none" in text
    assert text.endswith("\n\n1 server examined, 0 not working\n3 servers not examined, for the reason given\n")


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
    done = mcpproxy("doctor", cwd=home, HOME=str(home))
    assert done.stdout.endswith(b"\n\nNo server was found to examine; first fix the files above\n")


def test_a_file_that_the_client_does_not_read(home: Path) -> None:
    configure(home, {}, ".claude.json")
    configure(home, {"a": {"command": "x"}}, ".claude/mcp.json")
    assert "~/.claude.json" in verdicts(doctor(home))["config/unread-file"]


def test_variables_without_a_value(home: Path) -> None:
    configure(home, {"a": entry(good(), env={"KEY": "${NO_SUCH_VARIABLE}", "B": "${NO_SUCH:-x}", "C": "${HOME}"})})
    found = verdicts(doctor(home, "claude-code"))
    assert list(found) == ["config/variable-unset"]
    assert "no value for NO_SUCH_VARIABLE in env.KEY" in found["config/variable-unset"]
    configure(home, {"a": {"command": "x", "args": ["${NO_A}", "${NO_A}"], "headers": {"X": "Bearer ${NO_B}"}}})
    assert (
        "no value for NO_A in args, NO_B in headers.X" in verdicts(doctor(home, "claude-code"))["config/variable-unset"]
    )


FOLDERS = ("${userHome}", "${workspaceFolder}", "${workspaceFolderBasename}", "${pathSeparator}", "${/}", "${env:OURS}")


@pytest.mark.parametrize(
    ("client", "file", "key"),
    [("cursor", ".cursor/mcp.json", "mcpServers"), ("vscode", ".config/Code/User/mcp.json", "servers")],
)
def test_variables_that_an_editor_defines(home: Path, client: str, file: str, key: str) -> None:
    """The server works only if it gets the values of these variables."""
    values = [str(home), str(home / "project"), "project", "/", "/", "${userHome}"]
    code = f"import os, sys; assert sys.argv[1:] == {values!r}; assert os.environ['H'] == {str(home)!r}\n" + good()[-1]
    (home / "code.py").write_text(code)
    server = entry([sys.executable, "${userHome}/code.py", *FOLDERS], env={"H": "${userHome}"})
    configure(home, {"a": server}, file, key)
    assert verdicts(doctor(home, client, code=0, OURS="${userHome}")) == {}


def test_a_server_with_a_variable_that_only_its_client_knows_is_not_examined(home: Path) -> None:
    servers = {"a": entry(good(), env={"KEY": "${input:key}"}), "b": entry(good(), env={"KEY": "${env:NO_SUCH}"})}
    configure(home, servers, ".config/Code/User/mcp.json", "servers")
    rows = {row["server"]: row for row in doctor(home, "vscode", code=0)}
    assert (rows["a"]["works"], rows["b"]["works"]) == (None, True)
    assert "only VS Code knows the value of ${input:key} in env.KEY" in verdicts([rows["a"]])["config/variable-unknown"]
    assert "no value for NO_SUCH in env.KEY" in verdicts([rows["b"]])["config/variable-empty"]


def test_variables_of_mcporter(home: Path) -> None:
    """The values are those that mcporter 0.9.0 and 0.12.3 were observed to pass on."""
    wanted = {"B": "x", "C": "y", "D": "mine", "E": "mine/z", "F": "at ${OURS}", "G": "${OURS:-z}"}
    code = (
        f"import os; assert {{n: os.environ.get(n) for n in 'BCDEFG'}} == {wanted!r}; assert not os.environ.get('A')\n"
    )
    (home / "code.py").write_text(code + good()[-1])
    values = {
        "A": "${NO_SUCH}",
        "B": "${NO_SUCH:-x}",
        "C": "${NO_SUCH-y}",
        "D": "$env:OURS",
        "E": "${OURS}/z",
        "F": "at ${OURS}",
        "G": "${GIVEN}",
    }
    server = entry([sys.executable, "${HERE}/${NO_SUCH:-code}.py"], env=values)
    configure(home, {"a": server}, ".mcporter/mcporter.json")
    variables = {"OURS": "mine", "HERE": str(home), "GIVEN": "${OURS:-z}"}
    found = verdicts(doctor(home, "mcporter", code=0, **variables))
    assert found == {"config/variable-empty": "no value for NO_SUCH in env.A → None"}
    for more, place in (
        ({"env": {"A": "$env:NO_SUCH"}}, "env.A"),
        ({"args": ["${NO_SUCH}"]}, "args"),
        ({"headers": {"Authorization": "Bearer ${NO_SUCH}"}}, "headers.Authorization"),
    ):
        configure(home, {"a": {"url": "http://127.0.0.1:1/", **more}}, ".mcporter/mcporter.json")
        assert f"no value for NO_SUCH in {place}" in verdicts(doctor(home, "mcporter"))["config/variable-unset"]


def test_words_that_a_shell_would_change(home: Path) -> None:
    configure(home, {"a": entry([sys.executable, "two words"])}, ".augment/settings.json")
    assert "two words" in verdicts(doctor(home, "auggie"))["config/shell-words"]


# ---- as typed


def test_text_for_people(home: Path) -> None:
    configure(home, {"fine": entry(good()), "bad\x1b[2J": {"command": "no-such-program-of-ours"}})
    done = mcpproxy("doctor", cwd=home / "project", HOME=str(home))
    text = done.stdout.decode()
    assert done.returncode == 1
    assert "✓ claude-code  fine" in text
    assert "start/not-found" in text
    assert "2 servers examined, 1 not working" in text
    assert [line for line in text.splitlines() if not line.strip()] == [""]
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_usage_shows_every_form(home: Path) -> None:
    text = mcpproxy("doctor", "--help", HOME=str(home)).stdout.decode()
    forms = ("[CLIENT [SERVER]]", "URL", "-- COMMAND [ARGUMENT ...]")
    usage = "\n       ".join(f"mcpproxy doctor [OPTION ...] {form}" for form in forms)
    assert text.startswith(f"usage: {usage}\n\n")
    assert "one JSON object per server" in text


def test_nothing_to_examine_says_where_it_looked_and_what_to_do(home: Path) -> None:
    off = {"command": "x", "disabled": True}

    def said(*words: str) -> str:
        done = mcpproxy("doctor", *words, cwd=home / "project", HOME=str(home))
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), done
        return done.stderr.decode()

    command = "to examine a command, run mcpproxy doctor -- COMMAND\n"
    assert said().endswith(command)
    text = said("cursor")
    assert text.endswith(command)
    assert (
        "Cursor has no configuration file on this machine; looked for ~/.cursor/mcp.json, ~/project/.cursor/mcp.json"
        in text
    )
    configure(home, {}, ".cursor/mcp.json")
    assert (
        said() == said("cursor") == f"mcpproxy: no server is configured in ~/.cursor/mcp.json; add one there; {command}"
    )
    assert "cursor has no server x, nor any other" in said("cursor", "x")
    configure(home, {"weather": off}, ".cursor/mcp.json")
    assert "every server is switched off: weather in ~/.cursor/mcp.json; switch one on" in said()
    assert "weather of cursor is switched off in ~/.cursor/mcp.json; switch it on there" in said("cursor", "weather")
    configure(home, {**{f"s{n}": entry(["x"]) for n in range(9)}, "weather": entry(["x"])}, ".cursor/mcp.json")
    assert "no server wether (did you mean weather?); it has s0, s1, s2, s3, s4, s5 and 4 more" in said(
        "cursor", "wether"
    )


def test_wrong_usage(home: Path) -> None:
    for words, hint in (
        (["cursr"], "did you mean cursor?"),
        ([], "docs/clients.md"),
        (["claude-code", "--"], "after `--`"),
        (["ftp://x/"], "begin with http:// or https://"),
        (["--explain", "start/not-fund"], "did you mean start/not-found"),
        (["--explain", "not-found"], "did you mean start/not-found"),
        (["--explain", "unset"], "did you mean config/variable-unset?"),
        (["--explain", "foo"], "the verdicts are config/unreadable, "),
        (["npx", "-y", "foo", "--json"], "a command goes after --: mcpproxy doctor -- npx -y foo --json"),
        (["--json", "npx", "-y"], "a command goes after --: mcpproxy doctor -- npx -y"),
        (["no-such", "a", "b c"], "a command goes after --: mcpproxy doctor -- no-such a 'b c'"),
        ([sys.executable, "x"], f"a command goes after --: mcpproxy doctor -- {sys.executable} x"),
        (["cursor", "-y"], "unrecognized arguments: -y"),
    ):
        done = mcpproxy("doctor", *words, cwd=home, HOME=str(home))
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), words
        assert hint in done.stderr.decode(), words


def test_a_server_in_the_place_of_a_client(home: Path) -> None:
    configure(home, {"my files": entry(good())}, ".cursor/mcp.json")
    configure(home, {"my files": entry(good())}, ".mcporter/mcporter.json")
    done = mcpproxy("doctor", "my files", cwd=home, HOME=str(home))
    assert done.returncode == 2
    text = "my files is a server of cursor and mcporter; use mcpproxy doctor cursor 'my files'"
    assert done.stderr.decode() == f"mcpproxy: {text}\n"


def test_each_result_is_printed_as_soon_as_it_is_complete(home: Path) -> None:
    """The server that hangs is first in the file; Ctrl-C ends the command while it waits for that server."""
    mark = home / "pid"
    code = f"import os,time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    configure(home, {"silent": entry([sys.executable, "-c", code]), "fine": entry(good())}, ".cursor/mcp.json")
    with started("doctor", "cursor", HOME=str(home)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().decode() == "✓ cursor  fine  1 tool\n"
        wait_until(lambda: mark.exists() and mark.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
    wait_until(lambda: int(mark.read_text()) not in all_pids())


def test_the_progress_names_who_is_awaited_and_leaves_one_line(home: Path) -> None:
    """`late` responds only after the progress line has named it alone."""
    done = home / "done"
    waits = f"\n        while not os.path.exists({str(done)!r}): time.sleep(0.01)"
    configure(home, {"late": entry(good("pass" + waits)), "fine": entry(good())}, ".cursor/mcp.json")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mcpproxy", "doctor", "cursor"]
    variables = {**os.environ, "HOME": str(home), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    shown = b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=home, env=variables) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # at the end of a terminal, a read may fail
            while data := os.read(ours, 65536):
                shown += data
                if b"waiting for late (1 of 2 done)" in shown:
                    done.touch()
        os.close(ours)
        assert process.wait(DEADLINE_S) == 0
    text = shown.decode()
    assert "\r\x1b[Kmcpproxy: waiting for late, fine (0 of 2 done)\r\x1b[K✓ cursor  fine" in text
    assert "\r\x1b[Kmcpproxy: waiting for late (1 of 2 done)\r\x1b[K✓ cursor  late" in text
    assert not [line for line in text.split("\r\n") if "waiting" in line.rpartition("\x1b[K")[2]]


def test_a_fault_without_advice_of_its_own_says_the_first_thing_to_do(home: Path) -> None:
    configure(home, {"a": entry([sys.executable, "-c", "exit(1)"])}, ".cursor/mcp.json")
    text = mcpproxy("doctor", "cursor", cwd=home, HOME=str(home)).stdout.decode()
    assert "→ Read its last lines on stderr, or run the command by hand if there are none 1 server" in " ".join(
        text.split()
    )
    assert "--explain" not in text
    for verdict in VERDICTS:
        step = verdict.first_step()
        assert len(step) > 10, verdict.id
        assert "**" not in step, verdict.id
        assert step.count("`") % 2 == step.count("(") - step.count(")") == 0, verdict.id


def test_a_page_is_wrapped_at_the_width_of_the_terminal(home: Path) -> None:
    for columns in (40, 72):
        text = on_terminal("doctor", "--explain", "start/not-found", columns=columns, HOME=str(home)).decode()
        lines = text.splitlines()
        assert columns - 15 < max(map(len, lines)) <= columns
        assert lines[0] == "start/not-found"


def test_every_verdict_has_a_page_that_is_made_from_it() -> None:
    folder = ROOT / "docs/doctor"
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == pages(), "make doctor-docs"
    for verdict in VERDICTS:
        done = mcpproxy("doctor", "--explain", verdict.id)
        assert done.returncode == 0
        assert max(map(len, done.stdout.decode().splitlines())) <= 80
        assert all(heading in done.stdout.decode() for heading in HEADINGS)
