"""On a real terminal with a shell: `Ctrl+Z` and `fg`."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.mcpproxy.tui.stage import captured
from tests.mcpproxy.tui.terminals import Terminal, children

SHELL = r"""
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    command = [sys.executable, "-P", "-m", "mcpproxy", *sys.argv[1:]]
    os.execv("/bin/sh", ["sh", "-c", '"$@"; exit $?', "sh", *command])
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    os.tcsetpgrp(0, os.getpgrp())
    for number in range(1, 100):
        print(f"stopped, {number}?", flush=True)
        answer = input()
        if answer == "fg":
            os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
        if answer == "fg":
            break
        os.waitpid(job, os.WUNTRACED)
"""
"""A shell with one job: a script that starts the program, as a launcher does. It knows `fg` and `bg`."""


def switched(shown: Terminal, mode: int) -> str:
    """Whether a private mode of the terminal was switched on (h) or off (l) last."""
    return str(re.findall(rf"\x1b\[\?{mode}([hl])", shown.heard.decode())[-1])


@pytest.mark.costly("a shell starts it, as a user does")
def test_it_stops_with_its_job_and_draws_everything_when_it_continues(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "TERM": "xterm-256color"}
    program = (sys.executable, "-c", SHELL)
    shown = Terminal([str(captured(tmp_path))], environment, (80, 24), program, start=subprocess.Popen)
    try:
        shown.until(lambda: "search" in shown.text())
        running = shown.after()
        assert running != shown.before
        os.write(shown.ours, b"\x1a")
        shown.until(lambda: b"stopped, 1?" in shown.heard)
        assert shown.after() == shown.before
        assert {mode: switched(shown, mode) for mode in (1049, 1000, 1003, 2004, 25)} == {
            1049: "l", 1000: "l", 1003: "l", 2004: "l", 25: "h"
        }  # fmt: skip

        os.write(shown.ours, b"bg\n")
        shown.until(lambda: b"stopped, 2?" in shown.heard)
        assert switched(shown, 1049) == "l", "it must not draw in the background"

        fcntl.ioctl(shown._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        shown.screen.resize(30, 100)
        shown.pass_over()
        before = len(shown.heard)
        os.write(shown.ours, b"fg\n")
        shown.until(lambda: b"search" in shown.heard[before:] and "quit" in shown.text())
        assert shown.after() == running
        assert switched(shown, 1049) == "h"
        assert "stopped" not in shown.text()

        (launcher,) = children(shown.process.pid)
        (screen,) = children(launcher)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(screen, number)
        seen = len(shown.heard)
        shown.until(lambda: b"search" in shown.heard[seen:], "everything to be drawn again")
        assert shown.after() == running

        shown.press("q")
        shown.until(lambda: shown.process.poll() is not None)
        assert shown.process.returncode == 0
        assert shown.after() == shown.before
    finally:
        for child in children(shown.process.pid):
            os.killpg(child, signal.SIGKILL)
        shown.close()
