"""Selects the captures that `--follow` follows: captures that are being recorded, and captures that begin later.

A file is followed directly. A server's name, or no name, means the session that is being recorded or, if there is none,
the next session. A folder, several arguments, or an option that widens a name means all sessions that are being
recorded or begin later.
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
from mcpproxy.cli.selection import (
    ALL_CAPTURES,
    CaptureScope,
    NamedCaptures,
    check_names,
    is_recorded,
    named_captures,
    present_captures,
)

POLL_S: Final = 0.2
"""The interval at which to look for new captures."""


class FollowedCaptures:
    """The captures to follow, as they begin."""

    def __init__(self, arguments: Sequence[str], scope: CaptureScope) -> None:
        """Resolve the arguments.

        Raises:
            NotACapture: an argument can never name a capture.
        """
        check_names(arguments)
        self._arguments, self._scope = arguments, scope
        meanings = [_meaning(argument) for argument in arguments]
        self._files = [
            argument.paths[0] for argument in meanings if argument is not None and argument.kind in ("file", "listed")
        ]
        self.is_endless = len(self._files) < max(1, len(arguments))
        """Whether more captures may begin at any time, because not every argument is a file."""
        self.is_single_session = len(arguments) < 2 and not scope.is_wide and not (meanings and _is_folder(meanings[0]))
        """Whether the arguments select a single session, with which following ends."""

    async def paths(self) -> AsyncIterator[Path]:
        """Yield each capture once; ends after a single selected session, or if all arguments are files."""
        for file in self._files:
            yield file
        if not self.is_endless:
            return
        live_paths = [
            path
            for path in present_captures(self._arguments, replace(self._scope, reads_all=True))
            if is_recorded(path) and _is_readable(path)
        ]
        known_captures = {_identity(path) for path in (*self._files, *live_paths)}
        # A capture that is being recorded but has no header yet is treated as one that begins later.
        known_captures |= {
            _identity(path) for path in present_captures(self._arguments, ALL_CAPTURES) if not is_recorded(path)
        }
        file_captures = {_identity(path) for path in self._files}
        for path in live_paths[:1] if self.is_single_session else live_paths[::-1]:
            if _identity(path) not in file_captures:
                say(f"following {path}")
                yield path
        if live_paths and self.is_single_session:
            return
        servers_text = f" of {', '.join(self._arguments)}" if self._arguments else ""
        if self._arguments and not known_captures:
            servers_text += ", which has no captures yet"
        say(f"waiting for the next session{servers_text}; press Ctrl-C to stop")
        while True:
            for path in present_captures(self._arguments, ALL_CAPTURES)[::-1]:
                if _identity(path) not in known_captures and _is_readable(path):
                    known_captures.add(_identity(path))
                    say(f"following {path}")
                    yield path
                    if self.is_single_session:
                        return
            await asyncio.sleep(POLL_S)


def _meaning(argument: str) -> NamedCaptures | None:
    """Return the current meaning of an argument, or None if it is a name without captures."""
    try:
        return named_captures(argument)
    except NotACapture:
        return None


def _is_folder(meaning: NamedCaptures | None) -> bool:
    return meaning is not None and meaning.kind == "folder"


def _identity(path: Path) -> Path:
    """Return a path that identifies a capture, even after the ring has deleted its first segments."""
    return first_segment(real_path(path))


def _is_readable(path: Path) -> bool:
    """Whether a capture can be read: its recorder may not have written the header yet."""
    try:
        Capture(path)
    except NothingRecorded:
        # A recorder locks its file after creating it, so an unlocked file may still have a recorder.
        return False
    except CaptureError:
        return not is_recorded(path)
    return True
