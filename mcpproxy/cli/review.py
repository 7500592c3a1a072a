"""Asks the questions of `share --review` on the terminal, with sanitised texts from the traffic."""

import os
import sys
from collections.abc import Callable
from typing import Final

from mcpproxy.sanitise import sanitise
from mcpproxy.sharing.json_places import Path, pointer_of

_MAX_SHOWN_CHARS: Final = 200


class ReviewCancelled(Exception):
    """Raised if the user quits the review and wants no copy."""


class SecretReview:
    """Asks the user which secrets to replace."""

    def __init__(self, before: Callable[[], None]) -> None:
        """`before` is called before each question, to clear the line of the terminal."""
        self._before_question = before
        self._replaces_all = False

    def __call__(self, kind: str, secret: str, path: Path) -> bool:
        """Ask whether to replace a secret; returns the answer.

        Raises:
            Stopped: the user quits, or stdin has ended.
        """
        if self._replaces_all:
            return True
        self._before_question()
        place = f" at {sanitise(pointer_of(path), _MAX_SHOWN_CHARS)}" if path is not None else ""
        question = (
            f"{sanitise(kind)}{place}: {sanitise(secret, _MAX_SHOWN_CHARS)}\n  replace it? [y]es, [n]o, [a]ll, [q]uit: "
        )
        while True:
            os.write(2, question.encode("utf-8", "backslashreplace"))
            line = sys.stdin.readline()
            word = line.strip().lower()
            if not line or word in ("q", "quit"):
                raise ReviewCancelled
            if word in ("a", "all"):
                self._replaces_all = True
                return True
            if word in ("", "y", "yes", "n", "no"):
                return word[:1] != "n"
