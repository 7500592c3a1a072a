"""Signals: each reaches the server once, regardless of its origin; one that is ignored finally ends the whole tree."""

import contextlib
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import (
    Place,
    Session,
    is_alive,
    members_of,
    peer,
    read_some,
    wait_until,
    write_all,
)

PORTABLE = """
import signal, sys
del signal.sigtimedwait, signal.sigwaitinfo
import mcpproxy.relay.processes
mcpproxy.relay.processes.PROC = "/nonexistent"
from mcpproxy.__main__ import main
sys.exit(main())
"""
"""A recorder on a system that has neither `sigtimedwait` nor /proc, so it uses ps."""


def portable(place: Place, server: list[str | bytes], capture: Path) -> list[str | bytes]:
    return [sys.executable, "-P", "-c", PORTABLE, "run", "--capture", str(capture), "--", *server]


def start(place: Place, server: list[str | bytes], *, system: str = "linux") -> Session:
    """Start a session on this system, or on one with fewer features."""
    if system == "linux":
        return place.start(server)
    session = place.start(portable(place, server, place.root / "portable.mcpcap"), direct=True)
    session.capture = place.root / "portable.mcpcap"
    return session


def signals(session: Session, event: str) -> list[tuple[str, str]]:
    """Returns what the capture says about signals: name and origin, or name and reason."""
    rows = members_of(session.capture or Path(), "signal")
    return [(row["name"], str(row.get("origin") or row.get("reason"))) for row in rows if row["event"] == event]


@pytest.mark.parametrize("system", ["linux", "portable"])
def test_each_signal_is_passed_on_once_and_recorded(place: Place, system: str) -> None:
    session = start(place, peer("signal_counter", "--status", "3"), system=system)
    session.next_report()
    names = ["TERM", "INT", "HUP", "USR1", "USR2", "QUIT"]
    for name in names:
        session.process.send_signal(signal.Signals[f"SIG{name}"])
        assert session.next_report() == {"signal": name, "count": 1}
    session.close_stdin()
    assert session.next_report() == {"total": dict.fromkeys(names, 1)}
    assert session.end() == 3
    assert signals(session, "received") == [(f"SIG{name}", "process") for name in names]
    assert signals(session, "sent") == [(f"SIG{name}", "forwarded") for name in names]


def test_signals_that_we_were_started_ignoring_are_ignored(place: Place) -> None:
    ignore = "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)]"
    session = place.start(["sh", "-c", "echo ready; cat; exit 4"], before=ignore)
    assert session.line() == b"ready\n"
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        session.process.send_signal(signum)
    session.send(b"still\n")
    assert session.line() == b"still\n"
    assert session.finish() == 4
    assert signals(session, "received") == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1"])
def test_a_server_that_dies_of_a_signal_to_us_is_gone_as_in_a_direct_run(place: Place, name: str) -> None:
    session = place.start(["sh", "-c", "echo ready; exec cat"], before="import resource; resource.setrlimit(4, (0, 0))")
    assert session.line() == b"ready\n"
    session.process.send_signal(signal.Signals[name])
    assert session.end() == -signal.Signals[name]
    assert session.errors() == b""
    assert "ignored" not in [reason for _, reason in signals(session, "sent")]


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "recorded"])
def test_a_shell_that_dies_of_a_signal_leaves_its_stubborn_child_as_in_a_direct_run(
    place: Place, *, direct: bool
) -> None:
    session = place.start(["sh", "-c", f"{shlex.join(map(os.fsdecode, peer('stubborn')))}; true"], direct=direct)
    child = session.next_report()["ready"]
    session.process.send_signal(signal.SIGTERM)
    assert session.end() == -signal.SIGTERM
    assert is_alive(child)
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: not is_alive(child), "the child to be gone")


def test_ctrl_c_while_we_start_is_no_traceback(place: Place) -> None:
    sessions = [place.start(["cat"], stdout=subprocess.DEVNULL) for _ in range(8)]
    for number, session in enumerate(sessions):
        with contextlib.suppress(subprocess.TimeoutExpired):
            session.process.wait(0.01 * number)
        session.process.send_signal(signal.SIGINT)
        errors, status = session.errors(), session.end()
        # Before mcpproxy's first line has run, the interpreter itself may complain, or fail to start.
        assert b"mcpproxy/cli/run" not in errors
        of_python = b"KeyboardInterrupt" in errors or errors.startswith(b"Fatal Python error")
        assert status == -signal.SIGINT or (status == 1 and of_python)


def test_a_signal_to_the_whole_group_ends_all_of_it(place: Place) -> None:
    session = place.start(["sh", "-c", "echo ready; exec cat"], start_new_session=True)
    assert session.line() == b"ready\n"
    os.killpg(session.pid, signal.SIGTERM)
    assert session.end() == -signal.SIGTERM
    assert "ignored" not in [reason for _, reason in signals(session, "sent")]
    wait_until(lambda: not place.leftovers(), "the guard to go too")


@pytest.mark.parametrize("system", ["linux", "portable"])
def test_a_tree_that_ignores_term_is_gone_after_the_escalation(place: Place, system: str) -> None:
    session = start(place, peer("three_deep"), system=system)
    pids = session.next_report()["pids"]
    session.process.send_signal(signal.SIGTERM)
    assert session.end() == -signal.SIGKILL
    wait_until(lambda: not any(map(is_alive, pids)), "the tree to be gone")
    assert [name for name, _ in signals(session, "sent")] == ["SIGTERM", "SIGTERM", "SIGKILL"]
    assert [reason for _, reason in signals(session, "sent")] == ["forwarded", "ignored", "ignored"]


class Terminal:
    """Both ends of a terminal; reads what its session prints, line by line."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self._heard = b""

    def told(self) -> dict[str, Any]:
        while b"\n" not in self._heard:
            self._heard += read_some(self.ours)
        line, _, self._heard = self._heard.partition(b"\n")
        data = json.loads(line[line.index(b"{") :])["params"]["data"]
        assert isinstance(data, dict)
        return data


@contextmanager
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    modes = termios.tcgetattr(made.theirs)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(made.theirs, termios.TCSANOW, modes)
    try:
        yield made
    finally:
        for fd in (made.ours, made.theirs):
            try:
                os.close(fd)
            except OSError:
                continue


LEAD = "import fcntl, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
"""Lead a session of its own, with stdin as its terminal."""
AS_SHELL = ["sh", "-c", 'trap : INT QUIT; "$@"; exit $?', "sh"]
"""A shell in between: it leads the session, and the recorder is in the foreground group."""


def on_terminal(place: Place, screen: Terminal, command: list[str | bytes]) -> Session:
    slave = screen.theirs
    return place.start(command, direct=True, before=LEAD, stdin=slave, stdout=slave, stderr=slave)


@pytest.mark.parametrize("system", ["linux", "portable"])
@pytest.mark.parametrize("shell", [False, True], ids=["as leader", "below a shell"])
def test_ctrl_c_on_a_terminal_reaches_the_server_once(place: Place, system: str, *, shell: bool) -> None:
    counter = peer("signal_counter", "--signals", "INT,QUIT,TERM", "--status", "6")
    capture = place.root / "tty.mcpcap"
    command = place.command(counter, capture=capture) if system == "linux" else portable(place, counter, capture)
    with terminal() as screen:
        session = on_terminal(place, screen, [*AS_SHELL, *command] if shell else command)
        session.capture = capture
        screen.told()
        write_all(screen.ours, b"\x03")
        assert screen.told() == {"signal": "INT", "count": 1}
        write_all(screen.ours, b"\x1c")
        assert screen.told() == {"signal": "QUIT", "count": 1}
        write_all(screen.ours, b"\x04")
        assert screen.told() == {"total": {"INT": 1, "QUIT": 1}}
        assert session.end() == 6
        assert signals(session, "received") == [("SIGINT", "terminal"), ("SIGQUIT", "terminal")]
        assert signals(session, "sent") == []


def test_a_terminal_that_goes_away_takes_the_server_with_it(place: Place) -> None:
    capture = place.root / "tty.mcpcap"
    with terminal() as screen:
        session = on_terminal(place, screen, place.command(["sleep", "600"], capture=capture))
        wait_until(lambda: members_of(capture, "process"), "the server to run")
        os.close(screen.theirs)
        os.close(screen.ours)
        assert session.end() == -signal.SIGHUP
        wait_until(lambda: not place.leftovers(), "all to be gone")


def test_a_group_that_is_stopped_and_continued_goes_on(place: Place) -> None:
    session = place.start(peer("echo", "--raw"), start_new_session=True)
    session.send(b"before\n")
    assert session.line() == b"before\n"
    os.killpg(session.pid, signal.SIGSTOP)
    wait_until(lambda: _state(session.pid) == "T", "the recorder to be stopped")
    session.send(b"meanwhile\n")
    os.killpg(session.pid, signal.SIGCONT)
    assert session.line() == b"meanwhile\n"
    assert session.finish() == 0
    assert session.recorded("c2s") == session.recorded("s2c") == b"before\nmeanwhile\n"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
