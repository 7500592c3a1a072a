"""Finds programs on the PATH that a client gives to its servers, and in folders that this PATH may lack."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import MissingInterpreter, MissingProgram, NonExecutableProgram

_USUAL_FOLDERS: Final = (
    "~/.nvm/versions/node/*/bin",
    "~/.volta/bin",
    "~/.asdf/shims",
    "~/.local/share/mise/shims",
    "~/.fnm/aliases/default/bin",
    "~/.pyenv/shims",
    "~/.local/bin",
    "~/.cargo/bin",
    "~/.bun/bin",
    "~/.deno/bin",
    "~/go/bin",
    "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/usr/local/bin",
    "/usr/bin",
)
MAX_SHOWN_FOLDERS: Final = 4
"""The maximum number of folders of a PATH that a message names."""
_DEFAULT_PATH: Final = os.defpath
_MAX_FIRST_LINE_BYTES: Final = 256


def diagnose_command(command: str, variables: dict[str, str], folder: Path, home: Path) -> Diagnosis | None:
    """Return the fault that keeps a command from being started, or None.

    Args:
        command: the first word, as the client starts it.
        variables: the environment of the server.
        folder: the directory in which the command is started.
        home: the home directory of the user.
    """
    path = variables.get("PATH", _DEFAULT_PATH)
    if "/" in command:
        file = folder / command
        if not os.path.exists(file):  # unlike `Path.exists`, this accepts any text
            return Diagnosis(MissingProgram, f"{command} does not exist")
    else:
        program = shutil.which(command, path=path)
        if program is None:
            return _diagnose_missing(command, path, home)
        file = Path(program)
    if not file.is_file() or not os.access(file, os.X_OK):
        return Diagnosis(NonExecutableProgram, f"{file} is not an executable file")
    return _diagnose_interpreter(file, path, home)


def diagnose_unsplit_command(command: str, variables: dict[str, str], folder: Path, home: Path) -> Diagnosis | None:
    """Return the diagnosis of a command that is not found because it contains its arguments as well, or None.

    Args:
        command: a word that does not name a program.
        variables: the environment of the server.
        folder: the directory in which the command is started.
        home: the home directory of the user.
    """
    program, *arguments = split_words(command)
    if not arguments:
        return None
    path = variables.get("PATH", _DEFAULT_PATH)
    if "/" in program:
        is_found = (folder / program).is_file()
    else:
        is_found = shutil.which(program, path=path) is not None or any(_find_elsewhere(program, home))
        if not is_found:
            evidence = f"{program} is not in {_path_text(path)}, and the words after it are its arguments"
            return Diagnosis(MissingProgram, evidence, f"install {program}, and ")
    return Diagnosis(MissingProgram, f"{program} is a program; the words after it are arguments") if is_found else None


def split_words(command: str) -> list[str]:
    """Split a command line as a shell would or, if a quotation mark is not closed, at white space."""
    try:
        return shlex.split(command) or [command]
    except ValueError:
        return command.split()


def is_passable(text: str) -> bool:
    """Whether a text can be an argument, an environment variable or the directory of a process."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _diagnose_missing(command: str, path: str, home: Path) -> Diagnosis:
    places = list(_find_elsewhere(command, home))
    evidence = f"{command} is not in {_path_text(path)}"
    return Diagnosis(MissingProgram, evidence, f"use {places[0]} as its command" if places else f"install {command}")


def _path_text(path: str) -> str:
    """Format a PATH for people."""
    folders = list(dict.fromkeys(filter(None, path.split(os.pathsep))))
    if len(folders) <= MAX_SHOWN_FOLDERS:
        return ", ".join(folders) or "an empty PATH"
    return f"{', '.join(folders[:MAX_SHOWN_FOLDERS])}, or {len(folders) - MAX_SHOWN_FOLDERS} other folders on its PATH"


def _find_elsewhere(command: str, home: Path) -> Iterator[str]:
    for place in _USUAL_FOLDERS:
        folder = str(home / place[2:]) if place.startswith("~/") else place
        prefix, _, suffix = folder.partition("/*/")
        folders = sorted(Path(prefix).glob(f"*/{suffix}"), reverse=True) if suffix else [Path(folder)]
        yield from (str(place / command) for place in folders if os.access(place / command, os.X_OK))
    own_path = shutil.which(command)
    if own_path is not None:
        yield own_path


def _diagnose_interpreter(file: Path, path: str, home: Path) -> Diagnosis | None:
    """Return the diagnosis of a script whose first line names a missing interpreter, or None."""
    try:
        with file.open("rb") as script:
            first_line = script.readline(_MAX_FIRST_LINE_BYTES)
    except OSError:
        return None
    if not first_line.startswith(b"#!"):
        return None
    first_line = first_line.partition(b"\0")[0]
    words = split_words(first_line[2:].decode("utf-8", "replace"))
    if not words[0].strip():
        return None
    if not os.path.exists(words[0]):
        return Diagnosis(MissingInterpreter, f"{file} needs {words[0]}, which does not exist")
    names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if Path(words[0]).name == "env" and names and shutil.which(names[0], path=path) is None:
        places = list(_find_elsewhere(names[0], home))
        evidence = f"{file} needs {names[0]}, which is not in {_path_text(path)}"
        return Diagnosis(MissingInterpreter, evidence, f"add {Path(places[0]).parent} to its PATH" if places else "")
    return None
