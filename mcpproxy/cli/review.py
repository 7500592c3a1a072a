"""The questions of `share --review`, on the terminal. The texts shown come from the traffic, and are sanitised."""

import os
import sys
from collections.abc import Callable
from typing import Final

from mcpproxy.sanitise import sanitise
from mcpproxy.sharing.json_places import Path, pointer_of

_MAX_SHOWN_CHARS: Final = 200


class Stopped(Exception):
    """The user wants no copy."""


class Review:
    """Asks whether secrets are replaced."""

    def __init__(self, before: Callable[[], None]) -> None:
        """`before` clears the line of the terminal."""
        self._before = before
        self._is_sure = False

    def __call__(self, kind: str, secret: str, path: Path) -> bool:
        """Ask whether to replace a secret; returns the answer.

        Raises:
            Stopped: the user quits, or stdin has ended.
        """
        if self._is_sure:
            return True
        self._before()
        where = f" at {sanitise(pointer_of(path), _MAX_SHOWN_CHARS)}" if path is not None else ""
        question = (
            f"{sanitise(kind)}{where}: {sanitise(secret, _MAX_SHOWN_CHARS)}\n  replace it? [y]es, [n]o, [a]ll, [q]uit: "
        )
        while True:
            os.write(2, question.encode("utf-8", "backslashreplace"))
            answer = sys.stdin.readline()
            word = answer.strip().lower()
            if not answer or word in ("q", "quit"):
                raise Stopped
            if word in ("a", "all"):
                self._is_sure = True
                return True
            if word in ("", "y", "yes", "n", "no"):
                return word[:1] != "n"
