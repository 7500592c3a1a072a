"""Runs mcpproxy commands in this process, with a made-up home, which saves a start and a fork.

`doctor` is the exception: it ends all descendants of its own process, and so would end what other tests have started.
"""

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from mcpproxy.cli import dispatch
from tests.mcpproxy.cli.typed import mcpproxy


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


class CommandRunner:
    """Runs commands; exceptions that they raise reach the test."""

    def __init__(self, patch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]) -> None:
        self._patch = patch
        self._said = said

    def __call__(self, home: Path, *arguments: str) -> CommandResult:
        """Run a command with this home (`doctor` in a fork)."""
        if arguments[0] == "doctor":
            done = mcpproxy(*arguments, cwd=home, HOME=str(home))
            return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())
        with self._patch.context() as patch:
            for name in [name for name in os.environ if name.startswith(("MCPPROXY_", "XDG_"))]:
                patch.delenv(name)
            patch.setenv("HOME", str(home))
            patch.setenv("COLUMNS", "80")
            patch.chdir(home)
            self._said.readouterr()
            code = dispatch(list(arguments))
        out, err = self._said.readouterr()
        return CommandResult(code, out, err)
