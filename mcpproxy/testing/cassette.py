"""Cassettes: recordings that are kept with the tests, and played instead of the server."""

import os
import warnings
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from analysis.playback.matching import Matching
from captures.errors import CannotCreate
from mcpproxy.sanitise import sanitise
from mcpproxy.testing.commands import Target
from mcpproxy.testing.misses import OF_CASSETTE, Advice
from mcpproxy.testing.mocking import Match, OnMiss, mock_source
from mcpproxy.testing.server import RecordedServer, Source

__tracebackhide__: Final = True  # pytest shows the line of the test instead

Mode: TypeAlias = Literal["once", "none", "new", "all"]
"""What is done with a cassette: `once` records it if it is missing, and plays it otherwise; `none` only plays it; `new`
plays it and asks the server for what is not in it; `all` always records."""
MODES: Final[tuple[str, ...]] = get_args(Mode)


class Cassette(NamedTuple):
    """The file of a cassette, and what is done with it."""

    path: Path
    mode: Mode
    match: Match = "arguments"
    """Which recorded request a request matches."""
    ignore: tuple[str, ...] = ()
    """Places in params that do not count."""
    advice: Advice = OF_CASSETTE
    """What to do about a miss."""

    @property
    def is_played(self) -> bool:
        """Whether the cassette is played; otherwise it is recorded.

        Raises:
            FileNotFoundError: it must be played and there is none.
            ValueError: there is no such mode.
        """
        if self.mode not in MODES:
            raise ValueError(f"{self.mode!r:.40} is not a mode; the modes are {', '.join(MODES)}")
        exists = os.path.exists(self.path)
        if self.mode == "none" and not exists:
            raise FileNotFoundError(
                f"there is no cassette {sanitise(str(self.path), None)}, and mode none does not use the server; "
                "mode once records it (with pytest: --mcp-mode once)"
            )
        return exists and self.mode != "all"

    def source(self, target: Target) -> Source:
        """Returns what the recorder records: the server, or a mock that plays the cassette.

        Raises:
            FileNotFoundError, ValueError: as for `is_played`.
        """
        if not self.is_played:
            return Source(target.command, target.url, parameters=target.parameters)
        on_miss: OnMiss = "pass" if self.mode == "new" else "error"
        return mock_source(
            self.path, match=self.match, on_miss=on_miss, ignore=self.ignore, target=target, advice=self.advice
        )

    def write(self, server: RecordedServer) -> None:
        """Write what was recorded, without its secrets, if it was recorded or the server was asked for something new.

        The file is whole or absent at any time; of two processes that write it, the last one wins. An earlier cassette
        is replaced, but never a recording. If a request had secrets, so that it will not match, there is a warning.

        Raises:
            CannotCreate: the cassette cannot be written, or there is a recording in its place.
            RuntimeError: the client started the server several times.
        """
        captures = server.folder.captures
        if not captures or (server.source.played is not None and not server.passed_captures):
            return
        if len(captures) > 1:
            raise RuntimeError(
                f"the client started the server {len(captures)} times, and a cassette holds one recording: call "
                "mcp_record for each start, each with a cassette of its own"
            )
        # Loading the rules for secrets takes half a second, which tests that only play should not wait for.
        from mcpproxy.sharing import ShareOptions, redacted_copy

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            folder = sanitise(str(self.path.parent), None)
            raise CannotCreate(f"cannot create the folder {folder}: {error.strerror}") from None
        account = redacted_copy(captures[0], self.path, ShareOptions(is_cassette=True, replaces=True, compares=False))
        if account.replacement_counts:
            self._warn_of_places(captures[0])

    def _warn_of_places(self, recording: Path) -> None:
        """Warn if requests do not match any more because their secrets were replaced."""
        from mcpproxy.testing.redacted_places import redacted_places

        places = redacted_places(recording, self.path, Matching(self.match, self.ignore))
        if places:
            shown_places = ", ".join(sanitise(place, 100) for place in places)
            text = (
                f"the cassette has pseudonyms for secrets at {shown_places} of requests, so they will not match; "
                f"ignore these places: {self.advice.ignoring([*self.ignore, *places])}"
            )
            # It is about the file; the line of the test that ends the block says nothing.
            warnings.warn_explicit(text, UserWarning, str(self.path), 0)
