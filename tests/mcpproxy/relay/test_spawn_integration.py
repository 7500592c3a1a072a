"""The server starts in the same environment as without the recorder, or is refused as a shell would refuse it.

The probe peer is run directly and through the recorder, and its reports are compared.
"""

import base64
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.relay.spawn import EnvironmentBlock
from tests.harness import MARK, Place, members_of, peer, read_some

PROBE = peer("probe")
NOT_COMPARED = {"pid", "ppid"}

World = dict[str, Any]


def world(place: Place, *arguments: str | bytes, direct: bool, **how: Any) -> World:
    """Returns the probe's report when it is started like this."""
    session = place.start([*PROBE, *arguments], direct=direct, stdin=subprocess.DEVNULL, **how)
    found = json.loads(session.line())
    assert session.end() == 0
    assert session.errors() == b""
    assert isinstance(found, dict)
    # The standard streams are pipes either way, but different ones.
    found["fds"] = {fd: path for fd, path in found["fds"].items() if int(fd) > 2}
    return {name: value for name, value in found.items() if name not in NOT_COMPARED}


def both_worlds(place: Place, *arguments: str | bytes, **how: Any) -> tuple[World, World]:
    return world(place, *arguments, direct=True, **how), world(place, *arguments, direct=False, **how)


def entries(found: World) -> list[bytes]:
    return [base64.b64decode(entry) for entry in found["environ"]]


def test_everything_about_the_process_is_as_in_a_direct_run(place: Place) -> None:
    direct, through = both_worlds(place, "a b", "c")
    assert through == direct
    assert direct["fds"] == {}


def test_directory_umask_nice_and_limits_are_kept(place: Place, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9 \n"
    os.mkdir(folder)

    changes = """
import resource
os.umask(0o137)
os.nice(3)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 31))
resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192))
"""
    direct, through = both_worlds(place, cwd=folder, before=changes)
    assert through == direct
    assert base64.b64decode(through["cwd"]) == folder
    assert (through["umask"], through["nice"]) == (0o137, 3 + os.nice(0))
    assert through["rlimits"]["RLIMIT_CORE"] == [4096, 8192]


def test_a_core_dump_of_ours_is_forbidden_while_the_server_keeps_its_limit(place: Place) -> None:
    session = place.start(
        peer("echo"), before="import resource; resource.setrlimit(resource.RLIMIT_CORE, (4096, 4096))"
    )
    session.send(b'{"jsonrpc":"2.0","id":1,"method":"x"}\n')
    session.line()
    assert resource.prlimit(session.pid, resource.RLIMIT_CORE)[0] == 0
    (spawned,) = [row for row in members_of(session.capture or Path(), "process") if row["event"] == "spawned"]
    assert resource.prlimit(spawned["pid"], resource.RLIMIT_CORE) == (4096, 4096)
    assert session.finish() == 0


ARGUMENTS: list[list[str | bytes]] = [
    ["one two", "", " ", "\t", "a  b"],
    ['"quoted"', "'single'", "back\\slash", "`echo no`", "$(echo no)", "$HOME", "*", "~", ";", "&&", "|", ">x", "#"],
    ["new\nline", "\r\n", "\x01\x7f"],
    ["--", "--", "-", "--name", "x", "--help", "--capture=/nowhere"],
    [b"\xff\xfe", b"caf\xe9", "café €𝄞".encode(), b"\xed\xa0\x80"],
    ["{}", "%s", "%n", "!!", "a=b", "@file"],
    ["x" * 100_000],
]


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LANG": "C"}], ids=["utf-8", "LC_ALL=C", "LANG=C"])
def test_arguments_arrive_to_the_byte(place: Place, locale: dict[str, str]) -> None:
    words = [word for vector in ARGUMENTS for word in vector]
    clean = {name: value for name, value in place.environment.items() if not name.startswith("L")}
    found = world(place, *words, direct=False, environment=clean | locale)
    assert [base64.b64decode(word) for word in found["argv"]] == [os.fsencode(word) for word in words]


def test_arguments_are_no_options_of_ours_and_no_shell_reads_them(place: Place, tmp_path: Path) -> None:
    session = place.start(["printf", "%s|", "--", "--help", "$(touch evil)", "; touch evil", ""], cwd=tmp_path)
    assert session.rest() == b"--|--help|$(touch evil)|; touch evil||"
    assert session.end() == 0
    assert not (tmp_path / "evil").exists()


def c_environment(place: Place) -> dict[bytes, bytes]:
    """Returns only what the recorder needs, in a C locale, and variables that the interpreter itself would read."""
    keep = ("PATH", "MCPPROXY_CAPTURES", "XDG_CONFIG_HOME", MARK)
    made = {name.encode(): place.environment[name].encode() for name in keep}
    return made | {
        b"LANG": b"C",
        b"PYTHONHASHSEED": b"7",
        b"PYTHONUNBUFFERED": b"1",
        b"PYTHONPATH": b"/nowhere",
        b"EMPTY": b"",
        b"LATIN": b"caf\xe9",
        b"MANY": b"a=b=c\nd",
        b"lower.case-name": b"1",
    }


@pytest.mark.parametrize(
    "locale", [{}, {b"LC_ALL": b"POSIX"}, {b"LC_CTYPE": b"C"}], ids=["LANG=C", "LC_ALL", "LC_CTYPE"]
)
def test_the_environment_block_is_byte_identical_in_a_c_locale(place: Place, locale: dict[bytes, bytes]) -> None:
    environment = c_environment(place) | locale
    direct, through = both_worlds(place, environment=environment)
    assert through == direct
    assert entries(through) == [name + b"=" + value for name, value in environment.items()]


TWICE = """
import ctypes, os, sys
entries = [b"TWICE=1", b"LANG=C", b"TWICE=2", b"=odd=x", *(os.fsencode(word) for word in sys.argv[1].split("|"))]
argv = [os.fsencode(word) for word in sys.argv[2:]]
array = lambda words: (ctypes.c_char_p * (len(words) + 1))(*words, None)
ctypes.CDLL(None).execve(argv[0], array(argv), array(entries))
"""


def test_variables_that_occur_twice_or_have_odd_names_are_handed_over(place: Place) -> None:
    kept = "|".join(f"{name}={place.environment[name]}" for name in ("PATH", "XDG_CONFIG_HOME", MARK))
    argv = [sys.executable, "-I", "-c", TWICE, kept, *place.command(PROBE, capture=place.root / "twice.mcpcap")]
    session = place.start(argv, direct=True)
    found = json.loads(session.line())
    assert session.end() == 0
    assert entries(found)[:4] == [b"TWICE=1", b"LANG=C", b"TWICE=2", b"=odd=x"]


def test_the_environment_is_taken_from_python_where_the_system_does_not_show_the_block(tmp_path: Path) -> None:
    block = EnvironmentBlock(str(tmp_path / "missing"))
    assert dict(zip(block.keys(), block.values(), strict=True)) == dict(os.environb)


OF_LIBC = 0b11 << 31
"""The signals 32 and 33, which no program can use: glibc ignores them in a process that `posix_spawn` starts."""


def server_status(place: Place, *, direct: bool, **how: Any) -> dict[str, int]:
    """Returns the kernel's signal masks of `cat`, a server that changes none."""
    session = place.start(["cat", "/proc/self/status"], direct=direct, **how)
    lines = session.rest().decode().splitlines()
    assert session.end() == 0
    wanted = ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")
    told = (line.partition(":\t") for line in lines)
    return {name: int(value, 16) & ~OF_LIBC for name, _, value in told if name in wanted}


IGNORED = "for name in ('INT', 'HUP', 'QUIT', 'TERM', 'USR1', 'TTOU'): signal.signal(getattr(signal, 'SIG' + name), 1)"
BLOCKED = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGWINCH})"
PREPARATIONS = {
    "as is": "",
    "ignored": IGNORED,
    "SIGCHLD ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "blocked": BLOCKED,
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads what the kernel says of a process in /proc")
@pytest.mark.parametrize("preparation", PREPARATIONS.values(), ids=PREPARATIONS)
def test_signal_mask_and_dispositions_are_kept(place: Place, preparation: str) -> None:
    direct = server_status(place, direct=True, before=preparation)
    assert server_status(place, direct=False, before=preparation) == direct
    assert direct["SigIgn"] >> (signal.SIGPIPE - 1) & 1 == 0


def test_a_server_whose_parent_ignored_sigchld_still_has_its_status_passed_on(place: Place) -> None:
    session = place.start(peer("exit_code", "--status", "9"), before=PREPARATIONS["SIGCHLD ignored"])
    assert session.end() == 9


def test_inherited_descriptors_reach_the_server_and_none_of_ours(place: Place, tmp_path: Path) -> None:
    with (tmp_path / "extra").open("wb") as extra:
        direct, through = both_worlds(place, pass_fds=[extra.fileno()])
        assert through == direct
        assert list(through["fds"].values()) == [str(tmp_path / "extra")]


def test_an_inherited_pipe_ends_when_the_server_closes_it(place: Place) -> None:
    read_end, write_end = os.pipe()
    server = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import os; os.close({write_end}); os.write(1, b'closed\\n'); os.read(0, 1)",
    ]
    session = place.start(server, pass_fds=[write_end])
    os.close(write_end)
    assert session.line() == b"closed\n"
    assert read_some(read_end) == b""
    os.close(read_end)
    assert session.finish() == 0


def test_group_and_session_stay_those_of_the_client(place: Place) -> None:
    direct, through = both_worlds(place)
    assert (through["pgid"], through["sid"]) == (direct["pgid"], direct["sid"]) == (os.getpgrp(), os.getsid(0))


def test_a_group_of_its_own_is_shared_by_recorder_and_server(place: Place) -> None:
    session = place.start(PROBE, start_new_session=True)
    found = json.loads(session.line())
    assert session.end() == 0
    assert found["pgid"] == found["sid"] == session.pid


def refused(place: Place, *server: str | bytes, environment: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Start a command that cannot start, and check the capture; returns the exit status and stderr."""
    session = place.start(server, environment=environment)
    assert session.rest() == b""
    status, errors = session.end(), session.errors()
    assert errors.count(b"\n") == 1
    assert errors.startswith(b"mcpproxy: ")
    (failed,) = members_of(session.capture or Path(), "process")
    assert failed["event"] == "failed"
    (close,) = members_of(session.capture or Path(), "close")
    assert close["ending"] == "failed"
    return status, errors


def script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_missing_command_is_127_and_recorded(place: Place, tmp_path: Path) -> None:
    assert refused(place, "surely-no-such-command", "x")[0] == 127
    assert refused(place, str(tmp_path / "missing"))[0] == 127
    assert refused(place, str(tmp_path / "missing"), environment=place.environment | {"PATH": ""})[0] == 127


def test_a_command_that_cannot_be_run_is_126_and_recorded(place: Place, tmp_path: Path) -> None:
    status, errors = refused(place, script(tmp_path / "plain", "no program", 0o644))
    assert (status, b"Permission denied" in errors) == (126, True)
    status, errors = refused(place, script(tmp_path / "orphan", "#!/no/such/interpreter\n"))
    assert (status, b"interpreter" in errors) == (126, True)
    assert refused(place, str(tmp_path))[0] == 126


def test_a_name_that_could_act_on_a_terminal_is_shown_harmlessly(place: Place) -> None:
    status, errors = refused(place, b"no\x1b[31m\nsuch\xff")
    assert status == 127
    assert b"\x1b" not in errors


def test_a_script_without_an_interpreter_line_runs_as_execvp_would_run_it(place: Place, tmp_path: Path) -> None:
    session = place.start([script(tmp_path / "bare", 'echo "$1"; exit 5\n'), "x y"])
    assert (session.rest(), session.end()) == (b"x y\n", 5)


def test_the_path_is_searched_like_execvp_does(place: Place, tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
    script(tmp_path / "first/tool", "#!/bin/sh\necho wrong\n", 0o644)
    script(tmp_path / "second/tool", "#!/bin/sh\necho right\n")
    script(tmp_path / "third/tool", "#!/bin/sh\necho late\n")
    path = f"{tmp_path}/nowhere:{tmp_path}/first:{tmp_path}/second:{tmp_path}/third"
    session = place.start(["tool"], environment=place.environment | {"PATH": path})
    assert (session.rest(), session.end()) == (b"right\n", 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nam", "x", "touch", "ran"],
        ["--nam", "x", "--", "touch", "ran"],
        ["--name", "--", "touch", "ran"],
        ["-n", "--", "touch", "ran"],
        ["--ring-size", "many", "--", "touch", "ran"],
        ["--fsync=often", "--", "touch", "ran"],
        ["--on-record-error", "shrug", "--", "touch", "ran"],
        ["--"],
        [],
        ["--", ""],
    ],
)
def test_wrong_usage_is_exit_2_and_runs_nothing(place: Place, tmp_path: Path, arguments: list[str]) -> None:
    done = place.run("run", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert not (tmp_path / "ran").exists()
    assert not place.captures.exists()


def test_a_deleted_directory_is_still_a_place_to_run_in(place: Place, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    argv = place.command(["echo", "here"], capture=tmp_path / "c.mcpcap")
    session = place.start(["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone), *argv], direct=True)
    assert (session.rest(), session.end(), session.errors()) == (b"here\n", 0, b"")


def test_our_own_files_stay_private_whatever_the_umask(place: Place) -> None:
    session = place.start(["true"], before="os.umask(0)")
    assert session.end() == 0
    assert session.capture is not None
    assert stat.S_IMODE(session.capture.stat().st_mode) == 0o600
