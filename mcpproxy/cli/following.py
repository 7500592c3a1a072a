"""The captures that `--follow` follows: those that are being recorded, and those that begin later.

A file is followed as it is. A server's name, or no name, means the session that is being recorded; where there is none,
the next one to begin. A folder, several arguments and the options that widen a name mean all sessions that are being
recorded and all that begin.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from captures.errors import CaptureError, NotACapture, NothingRecorded
from captures.listing import first_segment, real_path
from captures.reader import Capture
from mcpproxy.cli.diagnostics import say
from mcpproxy.cli.selection import EVERY, Meaning, Scope, is_recorded, meaning_of, present, wait_for

POLL_S: Final = 0.2
"""Seconds between two looks for captures that have begun."""


class Followed:
    """The captures to follow, as they come."""

    def __init__(self, arguments: Sequence[str], scope: Scope) -> None:
        """Find out what is meant.

        Raises:
            NotACapture: an argument can never mean a capture.
        """
        wait_for(arguments)
        self._arguments, self._scope = arguments, scope
        meanings = [_meaning(argument) for argument in arguments]
        self._files = [
            argument.paths[0] for argument in meanings if argument is not None and argument.kind in ("file", "listed")
        ]
        self.is_endless = len(self._files) < max(1, len(arguments))
        """Whether more captures may still begin, however many have ended."""
        self.is_one = len(arguments) < 2 and not scope.is_wide and not (meanings and _is_folder(meanings[0]))
        """Whether one session is meant, so that following ends with it."""

    async def paths(self) -> AsyncIterator[Path]:
        """Each capture once; of what is not one session, this only ends where nothing but files is named."""
        for file in self._files:
            yield file
        if not self.is_endless:
            return
        recorded = [
            path
            for path in present(self._arguments, replace(self._scope, every=True))
            if is_recorded(path) and _has_begun(path)
        ]
        known = {_name(path) for path in (*self._files, *recorded)}
        # What is being recorded without a header yet is one of those to come.
        known |= {_name(path) for path in present(self._arguments, EVERY) if not is_recorded(path)}
        files = {_name(path) for path in self._files}
        for path in recorded[:1] if self.is_one else recorded[::-1]:
            if _name(path) not in files:
                say(f"following {path}")
                yield path
        if recorded and self.is_one:
            return
        of = f" of {', '.join(self._arguments)}" if self._arguments else ""
        if self._arguments and not known:
            of += ", of which nothing is recorded yet"
        say(f"waiting for the next session{of}; press Ctrl-C to stop")
        while True:
            for path in present(self._arguments, EVERY)[::-1]:
                if _name(path) not in known and _has_begun(path):
                    known.add(_name(path))
                    say(f"following {path}")
                    yield path
                    if self.is_one:
                        return
            await asyncio.sleep(POLL_S)


def _meaning(argument: str) -> Meaning | None:
    """What an argument means now; None if it is a name without captures."""
    try:
        return meaning_of(argument)
    except NotACapture:
        return None


def _is_folder(meaning: Meaning | None) -> bool:
    return meaning is not None and meaning.kind == "folder"


def _name(path: Path) -> Path:
    """What a capture is known by, however many of its first segments a ring has deleted."""
    return first_segment(real_path(path))


def _has_begun(path: Path) -> bool:
    """Whether a capture can be read: its recorder may not have written the header yet."""
    try:
        Capture(path)
    except NothingRecorded:  # a recorder locks its file only after making it, so no lock does not mean that it has gone
        return False
    except CaptureError:
        return not is_recorded(path)
    return True
