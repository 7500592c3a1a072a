"""Hostile environments: locales, interpreter options, missing homes, pid 1, a package that disappears at run time."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.harness import (
    DEADLINE_S,
    ROOT,
    Place,
    Session,
    children,
    members_of,
    peer,
    wait_until,
    zombies_of,
)

GREETING = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"caf\xc3\xa9 \xff"}}\n'


def talk(session: Session) -> None:
    """A short session in which exactly the server's bytes are returned."""
    session.send(GREETING)
    assert session.line() == GREETING
    session.close_stdin()
    assert session.rest() == b""
    assert session.end() == 3


OPTIONS: dict[str, tuple[str, ...]] = {
    "warnings are errors": ("-W", "error"),
    "development mode": ("-X", "dev"),
    "optimised": ("-O",),
    "more optimised": ("-OO",),
    "no bytecode": ("-B",),
    "isolated": ("-I",),
    "bytes warnings": ("-bb",),
    "no utf-8 mode": ("-X", "utf8=0"),
}


LESS_TELLING = {"optimised", "no bytecode", "no utf-8 mode", "unknown locale", "no terminal type", "fault handler"}
"""These run only in soak, because others test the same thing harder."""


def each(surroundings: dict[str, Any]) -> list[Any]:
    """Returns a test case for each, by its name."""
    return [
        pytest.param(value, id=name, marks=[pytest.mark.soak] if name in LESS_TELLING else [])
        for name, value in surroundings.items()
    ]


@pytest.mark.parametrize("options", each(OPTIONS))
def test_options_of_the_interpreter_change_nothing(place: Place, options: tuple[str, ...]) -> None:
    session = place.start(peer("echo", "--raw", "--status", "3"), python=options)
    talk(session)
    assert session.errors() == b""


VARIABLES: dict[str, dict[str, str | None]] = {
    "C locale": {"LC_ALL": "C", "LANG": None},
    "POSIX, not coerced": {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "unknown locale": {"LC_ALL": "tlh_KX.KLINGON"},
    "no home": {"HOME": None},
    "home is no directory": {"HOME": "/dev/null/home", "XDG_CONFIG_HOME": None},
    "no terminal type": {"TERM": None},
    "development mode": {"PYTHONDEVMODE": "1"},
    "warnings are errors": {"PYTHONWARNINGS": "error"},
    "allocator checks": {"PYTHONMALLOC": "debug"},
    "fault handler": {"PYTHONFAULTHANDLER": "1"},
    "inspect": {"PYTHONINSPECT": "1"},
    "odd encoding": {"PYTHONIOENCODING": "utf-16"},
    "no temporary directory": {"TMPDIR": "/dev/null/tmp"},
}


@pytest.mark.parametrize("variables", each(VARIABLES))
def test_only_bytes_of_the_server_come_out_in_any_environment(place: Place, variables: dict[str, str | None]) -> None:
    merged = {**place.environment, **variables}
    environment = {name: value for name, value in merged.items() if value is not None}
    session = place.start(peer("echo", "--raw", "--status", "3"), environment=environment)
    talk(session)
    assert session.errors() == b""


def test_without_any_place_for_a_capture_nothing_is_started(place: Place, tmp_path: Path) -> None:
    environment = {**place.environment, "MCPPROXY_CAPTURES": "/dev/null/captures"}
    done = place.run("run", "--", "touch", str(tmp_path / "ran"), env=environment)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (73, b"", 1)
    assert not (tmp_path / "ran").exists()


def unshare(*options: str) -> list[str]:
    """Returns the command that runs another one in its own namespaces; skips if that is not possible."""
    command = ["unshare", *options]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"{' '.join(command)} does not work on this system")
    return command


def test_a_user_without_a_password_entry(place: Place) -> None:
    command = place.command(peer("echo", "--raw", "--status", "3"), capture=place.root / "c.mcpcap")
    environment = {name: value for name, value in place.environment.items() if name != "HOME"}
    session = place.start(
        [*unshare("-U", "--map-user=12345", "--map-group=12345"), *command], direct=True, environment=environment
    )
    talk(session)


def test_as_pid_1_we_reap_the_orphans_of_others(place: Place) -> None:
    server = [
        "sh",
        "-c",
        "for i in 1 2 3 4 5 6 7 8 9 10; do ( true & true & true & true ) & done; wait; echo done; cat; exit 3",
    ]
    argv = [*unshare("-Urpf", "--mount-proc"), *place.command(server, capture=place.root / "c.mcpcap")]
    session = place.start(argv, direct=True)
    assert session.line() == b"done\n"
    (recorder,) = children(session.pid)
    wait_until(lambda: not zombies_of(recorder), "every orphan to be reaped")
    talk(session)


def test_as_pid_1_a_signal_of_the_server_becomes_a_status(place: Place) -> None:
    argv = [*unshare("-Urpf", "--mount-proc"), *place.command(peer("die_by_signal", "--signal", "KILL"))]
    session = place.start(argv, direct=True)
    assert b"last words" in session.rest()
    assert session.end() == 128 + signal.SIGKILL


def test_below_another_proc_signals_still_reach_the_server(place: Place) -> None:
    """In this pid namespace, /proc shows the outer one, whose pids must not be taken for those inside."""
    argv = [
        *unshare("-Urpf"),
        "--kill-child",
        *place.command(["sh", "-c", "trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done"]),
    ]
    session = place.start(argv, direct=True)
    assert session.line() == b"ready\n"
    (recorder,) = children(session.pid)
    os.kill(recorder, signal.SIGTERM)
    assert session.end() == 4


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the three packages that can be moved away."""
    where = tmp_path / "installed"
    for package in ("captures", "analysis", "mcpproxy"):
        shutil.copytree(ROOT / package, where / package, ignore=shutil.ignore_patterns("__pycache__"))
    return where


def test_a_session_outlives_the_package_that_it_was_started_from(place: Place, copied: Path) -> None:
    environment = {**place.environment, "PYTHONPATH": str(copied)}
    session = place.start(peer("signal_counter", "--signals", "USR1", "--status", "3"), environment=environment)
    session.next_report()
    # In its first 20 ms the recorder loads the rest; an upgrade just then costs verdicts, not the session.
    wait_until(lambda: "orjson" in Path(f"/proc/{session.pid}/maps").read_text(), "orjson to be loaded")
    copied.rename(copied.with_name("gone"))
    for number in range(3):
        session.process.send_signal(signal.SIGUSR1)
        assert session.next_report() == {"signal": "USR1", "count": number + 1}
    giant = b'{"jsonrpc":"2.0","method":"x","params":["' + b"y" * (3 << 20) + b'"]}\n'
    session.send(GREETING * 100 + b"no json\n" + giant)
    session.close_stdin()
    session.next_report()
    assert session.end() == 3
    assert session.errors() == b""
    assert session.recorded("c2s") == GREETING * 100 + b"no json\n" + giant
    assert len(members_of(session.capture or Path(), "signal")) == 6
    assert members_of(session.capture or Path(), "close")[0]["status"] == 3


def test_nothing_is_imported_once_the_session_runs(place: Place) -> None:
    """`-X importtime` names each module on stderr when it is loaded."""
    code = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"heard\\n"))
for line in sys.stdin.buffer:
    os.write(2, b"=== from here on\\n" if b"mark" in line else b"")
    os.write(1, line)
sys.exit(3)
"""
    session = place.start([sys.executable, "-I", "-S", "-c", code], python=("-X", "importtime"))
    heard: list[bytes] = []
    listener = threading.Thread(target=lambda: heard.append(session.errors()))
    listener.start()
    session.send(GREETING)
    assert session.line() == GREETING
    # The thread that loads orjson during the traffic also passes signals on, once it is done.
    session.process.send_signal(signal.SIGUSR1)
    assert session.line() == b"heard\n"
    session.send(b"mark\n")
    assert session.line() == b"mark\n"
    odd = GREETING * 50 + b"[1,\n\xff\n" * 50 + b"z" * (2 << 20) + b"\n"
    session.send(odd)
    assert session.receive(len(odd)) == odd
    session.process.send_signal(signal.SIGUSR1)
    assert session.line() == b"heard\n"
    assert session.finish() == 3
    listener.join(DEADLINE_S)
    before, _, after = heard[0].partition(b"=== from here on\n")
    assert b"orjson" in before
    assert after == b""


def test_two_dozen_descriptors_are_enough(place: Place) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))"
    talk(place.start(peer("echo", "--raw", "--status", "3"), before=limit))


def test_300_mib_of_address_space_are_enough(place: Place) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))"
    load = GREETING * 5_000
    session = place.start(peer("echo", "--raw", "--status", "3"), before=limit)
    sender = threading.Thread(target=session.send, args=(load,))
    sender.start()
    assert session.receive(len(load)) == load
    sender.join(DEADLINE_S)
    assert session.finish() == 3
    assert session.recorded("s2c") == load


def test_a_long_session_grows_no_descriptors_and_no_threads(place: Place) -> None:
    session = place.start(peer("echo", "--raw", "--status", "3"))

    def size() -> tuple[int, str]:
        status = Path(f"/proc/{session.pid}/status").read_text()
        return len(os.listdir(f"/proc/{session.pid}/fd")), status.partition("Threads:")[2].split()[0]

    session.send(GREETING)
    session.line()
    wait_until(lambda: b"orjson" in Path(f"/proc/{session.pid}/maps").read_bytes(), "all to be loaded")
    before = size()
    for _ in range(60):
        load = GREETING * 50
        session.send(load)
        assert session.receive(len(load)) == load
    # A sync briefly holds one more descriptor, and may have held it at the first count.
    wait_until(lambda: size() <= before, "descriptors and threads to be as few as before")
    assert session.finish() == 3
