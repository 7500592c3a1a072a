"""Completion scripts, in the shells that they are for."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mcpproxy.cli import COMMANDS
from mcpproxy.cli.command_line import grammars
from mcpproxy.cli.completion import SCRIPTS
from tests.mcpproxy.cli.typed import mcpproxy

DEADLINE_S = 600
"""Only against hangs."""

COMPLETED = [
    ("mcpproxy ", set(COMMANDS), {"a.mcpcap"}),
    ("mcpproxy ver", {"verify"}, {"run"}),
    ("mcpproxy hel", {"help"}, {"run"}),
    ("mcpproxy help ver", {"verify"}, {"run", "a.mcpcap"}),
    ("mcpproxy show ", {"a.mcpcap", "of two words.mcpcap", "folder/"}, {"note.txt", "run"}),
    ("mcpproxy show file", {"filesystem"}, {"a.mcpcap", "folder/", "weather"}),
    ("mcpproxy tui we", {"weather"}, {"filesystem"}),
    ("mcpproxy rule --in file", {"filesystem"}, {"a.mcpcap"}),
    ("mcpproxy repair -o file", set(), {"filesystem"}),
    ("mcpproxy check --rule fram", {"framing/bom"}, {"id/null", "folder/"}),
    ("mcpproxy check --ignore id", {"id/null", "id/type-changed"}, {"framing/bom"}),
    ("mcpproxy query --schema lat", {"latency", "latency_histogram"}, {"frames", "folder/"}),
    ("mcpproxy query --schema fra", {"frames"}, {"latency"}),
    ("mcpproxy show a", {"a.mcpcap"}, {"folder/", "note.txt"}),
    ("mcpproxy show folder/", {"folder/inner.mcpcap"}, {"folder/note.txt"}),
    (
        "mcpproxy show --",
        {"--follow", "--tail", "--limit", "--time", "--color", "--format", "--json", "--help"},
        {"--keep"},
    ),
    ("mcpproxy install cur", {"cursor"}, {"codex", "a.mcpcap"}),
    ("mcpproxy install --server file", {"filesystem"}, {"a.mcpcap", "weather"}),
    ("mcpproxy doctor cur", {"cursor"}, {"codex", "weather"}),
    ("mcpproxy doctor cursor ", {"filesystem", "weather"}, {"cursor", "codex", "a.mcpcap"}),
    ("mcpproxy doctor --json cursor we", {"weather"}, {"filesystem"}),
    ("mcpproxy doctor --explain start", {"start/not-found", "start/no-answer"}, {"http/not-mcp", "cursor"}),
    ("mcpproxy compare ", {"a.mcpcap", "folder/"}, {"note.txt"}),
    ("mcpproxy compare a.mcpcap file", {"filesystem"}, {"a.mcpcap", "weather"}),
    ("mcpproxy compare --fail-on ", {"breaking", "slower", "never"}, {"a.mcpcap"}),
    ("mcpproxy compare --explain tool", {"tool/removed"}, {"finding/new", "folder/"}),
    ("mcpproxy compare --each we", {"weather"}, {"filesystem", "a.mcpcap"}),
    ("mcpproxy mock ", {"a.mcpcap", "folder/"}, {"note.txt", "run"}),
    ("mcpproxy mock we", {"weather"}, {"filesystem"}),
    ("mcpproxy mock --match ", {"arguments", "exact", "method", "sequence"}, {"a.mcpcap"}),
    ("mcpproxy show --time ", {"rel", "delta", "abs"}, {"a.mcpcap"}),
    ("mcpproxy show --as ", {"curl", "shell", "message"}, {"a.mcpcap"}),
    ("mcpproxy show --tail ", set(), {"a.mcpcap", "folder/"}),
    ("mcpproxy verify a.mcpcap ", {"a.mcpcap", "folder/"}, {"note.txt"}),
    ("mcpproxy repair -o ", {"a.mcpcap", "folder/"}, {"note.txt"}),
    ("mcpproxy demo --capture ", {"folder/"}, {"a.mcpcap", "note.txt"}),
    ("mcpproxy demo ", set(), {"a.mcpcap", "folder/", "note.txt"}),
    ("mcpproxy prune --dry", {"--dry-run"}, {"--json"}),
    ("mcpproxy ship --comp", {"--compact"}, {"--json"}),
    ("mcpproxy ship lake/ ", {"a.mcpcap", "folder/"}, {"note.txt"}),
    ("mcpproxy rule --in ", {"a.mcpcap", "folder/"}, {"note.txt", "id/null"}),
    ("mcpproxy completion ", {"bash", "zsh", "fish"}, {"a.mcpcap", "folder/"}),
    (
        "mcpproxy run --",
        {"--name", "--capture", "--ring-size", "--fsync", "--on-record-error", "--summary", "--"},
        {"--json"},
    ),
    ("mcpproxy run --fsync ", {"1s", "always", "never"}, {"a.mcpcap"}),
    ("mcpproxy run --on-record-error ", {"pass", "stop", "block"}, {"a.mcpcap"}),
    ("mcpproxy run --capture ", {"a.mcpcap", "folder/"}, {"note.txt"}),
    ("mcpproxy run --name files -- exampleserv", {"exampleserver"}, {"--name", "a.mcpcap"}),
    ("mcpproxy run -- exampleserver no", {"note.txt"}, {"--name", "verify"}),
]
"""What is typed, what must be offered, and what must not be."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with captures, other files, and a server in `bin`."""
    for name in (
        "a.mcpcap",
        "of two words.mcpcap",
        "note.txt",
        "folder/inner.mcpcap",
        "folder/note.txt",
        "bin/exampleserver",
    ):
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
    (tmp_path / "here/bin/exampleserver").chmod(0o755)
    (tmp_path / ".local/share/mcpproxy/captures/filesystem").mkdir(parents=True)
    (tmp_path / "own captures/weather").mkdir(parents=True)
    return tmp_path / "here"


def environment(place: Path) -> dict[str, str]:
    """An environment with nothing of the user's own shell."""
    return {
        "HOME": str(place.parent),
        "MCPPROXY_CAPTURES": str(place.parent / "own captures"),
        "PATH": f"{place}/bin:{os.environ['PATH']}",
        "TERM": "xterm",
        "LC_ALL": "C.UTF-8",
    }


def need(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


@cache
def printed(shell: str) -> bytes:
    """Returns the script that the command prints."""
    done = mcpproxy("completion", shell)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def script(shell: str, place: Path) -> Path:
    """Write the script to a file; returns its path."""
    path = place.parent / f"completion.{shell}"
    path.write_bytes(printed(shell))
    return path


@pytest.mark.parametrize("shell", SCRIPTS)
def test_script_has_no_syntax_error(shell: str, place: Path) -> None:
    program = need(shell)
    checked = subprocess.run([program, "-n", script(shell, place)], capture_output=True, env=environment(place))
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_script_knows_every_command_and_every_option(shell: str) -> None:
    text = SCRIPTS[shell](grammars())
    for command in grammars():
        assert re.search(rf"\b{command.name}\b", text)
        for option in command.options:
            for name in option.names:
                assert re.search(rf"(?:{re.escape(name)}|-[ls] {re.escape(name.lstrip('-'))})(?![\w-])", text), name


def test_grammar_of_run_is_what_run_accepts() -> None:
    from mcpproxy.cli.run import RunOptions

    run = next(command for command in grammars() if command.name == "run")
    taking = {option.names[0] for option in run.options if option.values != "none"}
    assert taking == {*RunOptions(["--", "true"]).values, "--keep-path"}
    assert {name for option in run.options for name in option.names} - taking == {"--summary", "-h", "--help"}


def test_unknown_shell_is_wrong_usage() -> None:
    done = mcpproxy("completion", "csh")
    assert done.returncode == 2
    assert done.stdout == b""


# ---- bash: the function, and once with a terminal


BETWEEN = "----"
"""Printed between the results for two lines."""


def bash_offers(place: Path, *lines: str, breaks: str | None = None) -> list[set[str]]:
    """Returns what the completion function offers for each line, with the cursor at its end."""
    commands = [f"source {shlex.quote(str(script('bash', place)))}"]
    for line in lines:
        words = re.findall(r"=|[^ =]+", line) if breaks is None else line.split()
        if line.endswith(" "):
            words.append("")
        current = "" if words[-1] == "=" else words[-1]
        commands.append(f"""
            COMPREPLY=() COMP_WORDS=({" ".join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}
            _mcpproxy mcpproxy {shlex.quote(current)} {shlex.quote(words[-2])}
            printf '%s\\n' "${{COMPREPLY[@]}}" {BETWEEN}
        """)
    done = subprocess.run(
        [need("bash"), "--norc", "--noprofile", "-c", "\n".join(commands)],
        cwd=place,
        env=environment(place),
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    answers = done.stdout.decode().split(f"{BETWEEN}\n")[:-1]
    assert len(answers) == len(lines)
    return [
        {name + "/" if (place / name).is_dir() else name for name in answer.split("\n") if name} for answer in answers
    ]


def test_bash_completes(place: Path) -> None:
    found = bash_offers(place, *(line for line, _, _ in COMPLETED))
    for (line, offered, silent), names in zip(COMPLETED, found, strict=True):
        assert offered <= names, line
        assert not silent & names, line


def test_bash_offers_a_program_once_that_is_in_several_directories(place: Path) -> None:
    """Reads the function's own list, because the shell shows duplicates only once."""
    twin = place / "twin/exampleserver"
    twin.parent.mkdir()
    twin.write_text("#!/bin/sh\n")
    twin.chmod(0o755)
    path = f"{twin.parent}:{environment(place)['PATH']}"
    for command in ("run", "doctor"):
        commands = f"""
            source {shlex.quote(str(script("bash", place)))}
            COMP_WORDS=(mcpproxy {command} -- exampleserv) COMP_CWORD=3
            _mcpproxy mcpproxy exampleserv --
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        shell = [need("bash"), "--norc", "--noprofile", "-c", commands]
        done = subprocess.run(
            shell, cwd=place, env={**environment(place), "PATH": path}, capture_output=True, check=True
        )
        assert (done.stdout, done.stderr) == (b"exampleserver\n", b""), command


def test_bash_completes_a_group_of_rules(place: Path) -> None:
    (found,) = bash_offers(place, "mcpproxy check --rule fram")
    assert {"framing/*", "framing/bom"} <= found


def test_bash_completes_a_value_behind_an_equals_sign(place: Path) -> None:
    found = bash_offers(place, "mcpproxy run --fsync=al", "mcpproxy show --time=")
    assert found == [{"always"}, {"rel", "delta", "abs"}]


# ---- fish prints what it would offer


def test_fish_completes(place: Path) -> None:
    commands = [f"source {script('fish', place)}"]
    commands += [f"complete -C {shlex.quote(line)}; echo {BETWEEN}" for line, _, _ in COMPLETED]
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", "\n".join(commands)], cwd=place, env=environment(place), capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    answers = done.stdout.decode().split(f"{BETWEEN}\n")[:-1]
    for (line, offered, silent), answer in zip(COMPLETED, answers, strict=True):
        found = {row.partition("\t")[0] for row in answer.splitlines()}
        assert offered <= found | {row.replace("\\ ", " ") for row in found}, line
        assert not silent & found, line


# ---- a shell on a terminal


# The test runner must not fork here, because it has threads.
BECOME = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Keyboard:
    """An interactive shell on a terminal of its own."""

    def __init__(self, argv: list[str], place: Path) -> None:
        self.terminal, theirs = pty.openpty()
        self.shell = subprocess.Popen(
            [sys.executable, "-c", BECOME, *argv],
            cwd=place,
            env=environment(place),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def wait_for(self, pattern: str) -> str:
        """Wait until the pattern matches; returns what was shown since the last call, up to the match."""
        until = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, self.shown)):
            ready, _, _ = select.select([self.terminal], [], [], max(0, until - time.monotonic()))
            assert ready, f"nothing like {pattern} in {self.shown!r}"
            self.shown += os.read(self.terminal, 65536).decode("utf-8", "replace")
        shown, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return shown

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        os.close(self.terminal)


@pytest.fixture
def bash(place: Path) -> Iterator[Keyboard]:
    keyboard = Keyboard([need("bash"), "--norc", "--noprofile", "-i"], place)
    try:
        keyboard.type(f"source {script('bash', place)}; PS1='at your ''service> '\n")
        keyboard.wait_for("at your service> ")
        yield keyboard
    finally:
        keyboard.close()


@pytest.fixture
def zsh(place: Path) -> Iterator[Keyboard]:
    keyboard = Keyboard([need("zsh"), "-f", "-i"], place)
    try:
        keyboard.type(
            "stty rows 50 cols 200; autoload -Uz compinit; compinit -u -D; unsetopt beep; unset zle_bracketed_paste\n"
        )
        keyboard.type(f"source {script('zsh', place)}; PS1='at your ''service> '\n")
        keyboard.wait_for("at your service> ")
        yield keyboard
    finally:
        keyboard.close()


def test_bash_completes_at_the_keyboard(bash: Keyboard) -> None:
    bash.type("mcpproxy compl\tba\t")
    bash.wait_for(r"mcpproxy completion bash ")
    bash.type("\x15mcpproxy show --time=de\tof\t")
    bash.wait_for(r"mcpproxy show --time=delta of\\ two\\ words.mcpcap ")


def test_zsh_completes_at_the_keyboard(zsh: Keyboard) -> None:
    zsh.type("mcpproxy compl\tba\t\x01: \x05\n")
    zsh.wait_for("mcpproxy completion bash")
    zsh.wait_for("at your service> ")
    zsh.type("mcpproxy show --time=de\tof\t\x01: \x05\n")
    zsh.wait_for(r"--time=delta of\\ two\\ words.mcpcap")


def test_zsh_lists(zsh: Keyboard) -> None:
    for line, offered, silent in COMPLETED:
        prefix = line.rpartition(" ")[2].rpartition("/")[0]
        expected = {name.removeprefix(f"{prefix}/") if prefix else name for name in offered - {"--"}}
        # ^D lists. Anything typed before the list is there would stop it, so wait for the first word of it, if any is
        # expected.
        zsh.type(f"{line}\x04")
        shown = zsh.wait_for(re.escape(line.strip()))
        shown = zsh.wait_for(re.escape(min(expected, default="")))
        zsh.type("\x15echo do''ne\n")
        shown += zsh.wait_for("do''ne")
        listed = set(re.split(r"  +|\n", plain(shown)))
        assert expected - listed == set(), line
        assert silent & listed == set(), line
        zsh.wait_for("at your service> ")


def plain(shown: str) -> str:
    """Returns what a terminal showed, without control sequences and the shell's own escapes of spaces."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\b\r]", "  ", shown).replace("\\ ", " ")
