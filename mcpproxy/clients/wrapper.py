"""Composes and recognises the `mcpproxy run` prefix of a server's command.

The prefix depends on no environment variable and no current directory, because clients strip the environment. One
client joins the words for `/bin/sh -c`, so none of them contains a space or a shell metacharacter, unless the path of
this installation does.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from captures.paths import safe_name

_SHELL_SAFE_WORD: Final = re.compile(r"[\w./@:+=,%-]+")
_PROGRAM: Final = re.compile(r"(?:.*[/\\])?mcpproxy(?:\.exe)?(?:[@=].*)?")
_INTERPRETER: Final = re.compile(r"(?:.*/)?(?:python|pypy)[^/]*")
_INTERPRETER_OPTIONS: Final = re.compile(r"((-[XW] ?\S+|-[^XWm-]\S*)( |$))*(-m)?")
"""Matches the options of an interpreter before mcpproxy's name, joined by spaces."""
KEEP_SERVING_OPTION: Final = "--if-unrecordable=pass"
"""The option that `install` writes for `run`: clients must keep their servers when the disk is full or home is lost."""
_OPTIONS_WITHOUT_VALUE: Final = frozenset({"--summary", "--help", "-h"})
_MAX_WORDS_BEFORE_RUN: Final = 8
"""The maximum number of words before `run`, as in `uv tool run --from DIR mcpproxy` or `python -P -m mcpproxy`."""

_TEMPORARY_PARTS: Final = ("/archive-v0/", "/builds-v0/", "/environments-v2/", "/pipx/.cache/", "/.cache/pipx/")
"""Parts of the paths in which `uvx` and `pipx run` install a program for a single run."""


class NoProgram(Exception):
    """A client's configuration cannot refer to this installation; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class WrappedCommand:
    """A server's command with mcpproxy's words in front of it."""

    program: str
    """The first word."""
    name: str
    """The value of `--name`; empty if it is missing."""
    capture: str
    """The value of `--capture`; empty if it is missing."""
    server_command: tuple[str, ...]
    """The server's own command."""
    prefix_length: int
    """The number of words that belong to mcpproxy."""
    is_passing: bool
    """Whether the server starts unrecorded if no capture can be created."""
    machine: str
    """The value of `--machine`; empty if it is missing."""
    machine_index: int | None
    """The index of the word that contains the value of `--machine`, perhaps after `=`; None if it is missing."""

    @property
    def program_exists(self) -> bool:
        """Whether the program exists; a name without a path is assumed to exist, because the client looks it up."""
        try:
            return not os.path.isabs(self.program) or os.access(self.program, os.X_OK)
        except ValueError:  # no file can have such a name
            return False


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Composes the words of mcpproxy in front of a server's command."""

    program: tuple[str, ...]
    """The command of this installation, with an absolute path."""
    capture: Path | None = None
    """The directory below which captures go; None for the default."""
    machine: str = ""
    """The name of this machine in captures; empty for the default."""

    def words(self, name: str) -> tuple[str, ...]:
        """Returns the words in front of the command of the server with this name."""
        safe = safe_name(name)
        capture_words = () if self.capture is None else ("--capture", self.capture_value(name))
        return (*self.program, "run", "--name", safe, *capture_words, *self._machine_words, KEEP_SERVING_OPTION, "--")

    def capture_value(self, name: str) -> str:
        """Returns the value of `--capture` for the server with this name, or an empty string for the default."""
        return "" if self.capture is None else f"{self.capture / safe_name(name)}{os.sep}"

    @property
    def _machine_words(self) -> tuple[str, ...]:
        return ("--machine", self.machine) if self.machine else ()

    @property
    def unsafe_word(self) -> str | None:
        """The first word that a shell would change, or None."""
        return next((word for word in self.words("x") if not is_shell_safe(word)), None)


def is_shell_safe(word: str) -> bool:
    """Returns whether a shell passes a word on unchanged."""
    return _SHELL_SAFE_WORD.fullmatch(word) is not None


def program_words() -> tuple[str, ...]:
    """Returns the command of this installation, with an absolute path.

    Raises:
        NoProgram: the installation is temporary.
    """
    typed_path = os.path.abspath(sys.argv[0])
    installed_path = os.path.join(sysconfig.get_path("scripts"), "mcpproxy")
    for path in (typed_path, installed_path):
        if os.path.basename(path) == "mcpproxy" and os.access(path, os.X_OK) and os.path.isfile(path):
            words: tuple[str, ...] = (path,)
            break
    else:
        words = (sys.executable, "-P", "-m", "mcpproxy")
    if any(part in os.path.realpath(words[0]) for part in _TEMPORARY_PARTS):
        raise NoProgram(
            f"{words[0]} is a temporary installation, which clients could not start later; "
            "install mcpproxy permanently first, with `pipx install .` in your clone of it"
        )
    return words


def is_recorder(words: Sequence[str]) -> bool:
    """Returns whether a process with these arguments is `run` itself, and not a launcher that starts it."""
    run_index = _run_index(words)
    if run_index is None:
        return False
    if run_index == 1:
        return True
    # The kernel puts the interpreter in front of a script. Only the interpreter's options may come in between.
    interpreter_options = " ".join(words[1 : run_index - 1])
    return (
        _INTERPRETER.fullmatch(words[0]) is not None and _INTERPRETER_OPTIONS.fullmatch(interpreter_options) is not None
    )


def _run_index(words: Sequence[str]) -> int | None:
    """Returns the index of the word `run` after mcpproxy's name in a command, or None if there is none."""
    for index, word in enumerate(words[: _MAX_WORDS_BEFORE_RUN + 1]):
        if word == "run" and index and _PROGRAM.fullmatch(words[index - 1]):
            return index
    return None


def wrapped_command_of(words: Sequence[str]) -> WrappedCommand | None:
    """Returns a command as wrapped by any version of mcpproxy at any path, or None if it is not wrapped."""
    run_index = _run_index(words)
    if run_index is None:
        return None
    values = {"--name": "", "--capture": "", "--if-unrecordable": "", "--machine": ""}
    machine_index = None
    index = run_index + 1
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        option, equals, value = words[index].partition("=")
        if option in _OPTIONS_WITHOUT_VALUE:
            index += 1
            continue
        values[option] = value if equals else "".join(words[index + 1 : index + 2])
        if option == "--machine":
            machine_index = index if equals else index + 1
        index += 1 if equals else 2
    index += words[index : index + 1] == ["--"] or words[index : index + 1] == ("--",)
    passes = values["--if-unrecordable"] == "pass"
    name, capture, machine = values["--name"], values["--capture"], values["--machine"]
    return WrappedCommand(words[0], name, capture, tuple(words[index:]), index, passes, machine, machine_index)
