"""The `mcpproxy run` prefix of a server's command: adds, recognises and removes it.

It is complete in itself: it relies on no variable and no directory, because clients strip the environment. None of its
words contains a blank or a shell metacharacter, unless the path of this installation does: one client joins the words
for `/bin/sh -c`.
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

_SAFE: Final = re.compile(r"[\w./@:+=,%-]+")
_PROGRAM: Final = re.compile(r"(?:.*[/\\])?mcpproxy(?:\.exe)?(?:[@=].*)?")
_INTERPRETER: Final = re.compile(r"(?:.*/)?(?:python|pypy)[^/]*")
_OPTIONS: Final = re.compile(r"((-[XW] ?\S+|-[^XWm-]\S*)( |$))*(-m)?")
"""Options of an interpreter before mcpproxy's name, joined by blanks."""
PASSES: Final = "--if-unrecordable=pass"
"""The option that `install` writes for `run`: a full disk, or a lost home directory, must not leave clients without
their servers.
"""
_FLAGS: Final = frozenset({"--summary", "--help", "-h"})
_BEFORE: Final = 8
"""Words that may come before `run`: `uv tool run --from DIR mcpproxy`, `python -P -m mcpproxy`."""

_TEMPORARY: Final = ("/archive-v0/", "/builds-v0/", "/environments-v2/", "/pipx/.cache/", "/.cache/pipx/")
"""Parts of paths in which `uvx` and `pipx run` install for one call."""


class NoProgram(Exception):
    """This installation cannot be named in a client's configuration; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class WrappedCommand:
    """A server's command with mcpproxy's words in front of it."""

    program: str
    """The first word."""
    name: str
    """The value of `--name`; empty if it is missing."""
    capture: str
    """The value of `--capture`; empty if it is missing."""
    inner: tuple[str, ...]
    """The server's own command."""
    count: int
    """How many words are mcpproxy's."""
    passes: bool
    """Whether the server starts unrecorded if no capture can be created."""
    machine: str
    """The value of `--machine`; empty if it is missing."""
    machine_at: int | None
    """The index of the word that holds it, perhaps after a `=`."""

    @property
    def is_there(self) -> bool:
        """Whether the program exists; a bare name is found by the client."""
        try:
            return not os.path.isabs(self.program) or os.access(self.program, os.X_OK)
        except ValueError:  # no file can have such a name
            return False


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Writes mcpproxy's words."""

    program: tuple[str, ...]
    """The command of this installation, with an absolute path."""
    capture: Path | None = None
    """The directory below which captures go; None for the default."""
    machine: str = ""
    """The name of this machine in captures; empty for the default."""

    def words(self, name: str) -> tuple[str, ...]:
        """The words in front of the command of the server of this name."""
        plain = safe_name(name)
        where = () if self.capture is None else ("--capture", self.folder_of(name))
        return (*self.program, "run", "--name", plain, *where, *self._machine_words, PASSES, "--")

    def folder_of(self, name: str) -> str:
        """The value of `--capture` for the server of this name; empty for the default."""
        return "" if self.capture is None else f"{self.capture / safe_name(name)}{os.sep}"

    @property
    def _machine_words(self) -> tuple[str, ...]:
        return ("--machine", self.machine) if self.machine else ()

    @property
    def unsafe(self) -> str | None:
        """The first word that a shell would change, if there is one."""
        return next((word for word in self.words("x") if not is_plain(word)), None)


def is_plain(word: str) -> bool:
    """Whether a shell passes a word on unchanged."""
    return _SAFE.fullmatch(word) is not None


def program_words() -> tuple[str, ...]:
    """Returns the command of this installation: absolute, and permanent.

    Raises:
        NoProgram: the installation is temporary.
    """
    typed = os.path.abspath(sys.argv[0])
    installed = os.path.join(sysconfig.get_path("scripts"), "mcpproxy")
    for path in (typed, installed):
        if os.path.basename(path) == "mcpproxy" and os.access(path, os.X_OK) and os.path.isfile(path):
            words: tuple[str, ...] = (path,)
            break
    else:
        words = (sys.executable, "-P", "-m", "mcpproxy")
    if any(part in os.path.realpath(words[0]) for part in _TEMPORARY):
        raise NoProgram(
            f"{words[0]} is a temporary installation, which clients could not start later; "
            "install mcpproxy permanently first, with `pipx install .` in your clone of it"
        )
    return words


def is_recorder(words: Sequence[str]) -> bool:
    """Whether a process with these arguments is `run` itself, rather than a launcher that was given its command."""
    at = _place_of_run(words)
    if at is None:
        return False
    if at == 1:
        return True
    # The kernel puts an interpreter in front of a script. Only its options may come in between.
    between = " ".join(words[1 : at - 1])
    return _INTERPRETER.fullmatch(words[0]) is not None and _OPTIONS.fullmatch(between) is not None


def _place_of_run(words: Sequence[str]) -> int | None:
    """The index of the word `run` of mcpproxy in a command, or None if it is not there."""
    for at, word in enumerate(words[: _BEFORE + 1]):
        if word == "run" and at and _PROGRAM.fullmatch(words[at - 1]):
            return at
    return None


def routed(words: Sequence[str]) -> WrappedCommand | None:
    """The words of mcpproxy in a command, of any version and at any path; returns None if it is not wrapped."""
    at = _place_of_run(words)
    if at is None:
        return None
    values = {"--name": "", "--capture": "", "--if-unrecordable": "", "--machine": ""}
    machine_at = None
    place = at + 1
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        option, equals, value = words[place].partition("=")
        if option in _FLAGS:
            place += 1
            continue
        values[option] = value if equals else "".join(words[place + 1 : place + 2])
        if option == "--machine":
            machine_at = place if equals else place + 1
        place += 1 if equals else 2
    place += words[place : place + 1] == ["--"] or words[place : place + 1] == ("--",)
    passes = values["--if-unrecordable"] == "pass"
    name, capture, machine = values["--name"], values["--capture"], values["--machine"]
    return WrappedCommand(words[0], name, capture, tuple(words[place:]), place, passes, machine, machine_at)
