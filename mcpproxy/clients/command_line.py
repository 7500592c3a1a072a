"""Splits a command line that is written as one string into words, as mcporter does."""

from __future__ import annotations

import os
from pathlib import Path


def command_words(command: str, folder: Path) -> tuple[str, ...]:
    """Returns the words of a command, or the command as the only word if it names a file or contains no words.

    Args:
        command: the whole command line.
        folder: the folder of the configuration file, from which mcporter resolves a relative path.
    """
    return (command,) if _is_single_word(command, folder) else tuple(_split_words(command)) or (command,)


def _is_single_word(command: str, folder: Path) -> bool:
    """Returns whether mcporter 0.12 leaves the command whole; 0.9 also splits the path of a file."""
    path = command.strip()
    is_path = " " in path and path.startswith(("/", "./", "../", "~/"))
    return is_path and os.path.isfile(folder / os.path.expanduser(path))


def _split_words(command: str) -> list[str]:
    """Returns the words between spaces, unquoted. Unlike in a shell, a backslash escapes in single quotes, too."""
    words: list[str] = []
    word, quote, is_escaped = "", "", False
    for char in command.strip():
        if is_escaped:
            word, is_escaped = word + char, False
        elif char == "\\":
            is_escaped = True
        elif char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        elif char == " " and not quote:
            words += [word] if word else []
            word = ""
        else:
            word += char
    word += "\\" if is_escaped else ""
    return [*words, *([word] if word else [])]
