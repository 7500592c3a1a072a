"""The servers of one test: recorded, played and checked, and shown if the test fails."""

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from captures.errors import CaptureError
from mcpproxy.sanitise import sanitise
from mcpproxy.testing.cassette import Cassette
from mcpproxy.testing.commands import PROGRAM, Server, target_of
from mcpproxy.testing.misses import RequestsMissed
from mcpproxy.testing.mocking import mcp_mock
from mcpproxy.testing.pytest_marker import cassette_of
from mcpproxy.testing.server import RecordedServer, Source

MAX_LINES: Final = 40
"""How many lines of a conversation are in the report of a failed test."""
_SHOW_S: Final = 60
_FOLDER: Final = "mcp"
"""The folder in `tmp_path` of a test, with a folder for each server."""


class ServersOfTest:
    """The servers that a test has got from its fixtures."""

    def __init__(self, item: pytest.Item, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self._cassette = cassette_of(item)
        self._servers: list[RecordedServer] = []
        self._recorded: list[tuple[RecordedServer, Cassette]] = []
        """The servers whose recordings are for cassettes."""
        self._has_passed = False

    def record(self, server: Server, *, cassette: Path | str | None = None) -> RecordedServer:
        """Record a server or, with the marker `mcp`, record or play the cassette.

        Args:
            server: as for `mcpproxy.testing.mcp_record`.
            cassette: for a test with several servers, the name of the cassette of this one, next to that of the test.

        Raises:
            FileNotFoundError, TypeError, ValueError: as for `mcpproxy.testing.mcp_record`.
        """
        target = target_of(server)
        kept = self._cassette
        if kept is None:
            if cassette is not None:
                raise ValueError("a cassette needs the marker @pytest.mark.mcp()")
            return self._add(
                RecordedServer(Source(target.command, target.url, parameters=target.parameters), self._next)
            )
        if cassette is not None:
            kept = kept._replace(path=kept.path.parent / cassette)
        elif any(other.path == kept.path for _, other in self._recorded):
            raise ValueError(
                'the test has several servers: give each a cassette, as mcp_record(…, cassette="NAME.mcpcap")'
            )
        recorded = self._add(RecordedServer(kept.source(target), self._next))
        self._recorded.append((recorded, kept))
        return recorded

    def mock(self, capture: Path | str | None = None, **options: Any) -> RecordedServer:
        """Play a capture, or the cassette of the marker; the options are those of `mcpproxy.testing.mcp_mock`.

        Raises:
            CaptureError, TypeError, ValueError: as for `mcpproxy.testing.mcp_mock`.
        """
        if capture is None:
            if self._cassette is None:
                raise ValueError("mcp_mock needs a capture: name one, or mark the test with @pytest.mark.mcp()")
            capture = self._cassette.path
        return self._add(RecordedServer(mcp_mock(capture, **options).source, self._next))

    @property
    def _next(self) -> Path:
        """The folder for the captures of the next server."""
        return self._folder / str(len(self._servers))

    def _add(self, server: RecordedServer) -> RecordedServer:
        self._servers.append(server)
        return server

    def check(self) -> None:
        """Fail if a mock got requests that are not in its capture.

        Raises:
            RequestsMissed: it did.
        """
        for server in self._servers:
            server.check()

    def add_misses_to(self, error: BaseException) -> None:
        """Add the misses of the mocks to an exception, as they are probably the reason."""
        if isinstance(error, RequestsMissed):
            return
        try:
            self.check()
        except RequestsMissed as missed:
            if str(missed) not in getattr(error, "__notes__", ()):
                error.add_note(str(missed))

    def on_report(self, report: pytest.TestReport) -> None:
        """Note whether the test passed; if it failed, add the end of each conversation, and the path of its capture."""
        if report.when == "call":
            self._has_passed = report.passed
        if not report.failed:
            return
        for server in self._servers:
            for path in server.folder.captures:
                report.sections.append(
                    ("MCP conversation", f"{_conversation(path)}\ncapture: {sanitise(str(path), None)}")
                )

    def close(self) -> None:
        """End all servers, check the mocks once more, and write the cassettes if the test passed."""
        for server in self._servers:
            server.close()
        if not self._has_passed:
            return
        self.check()
        for server, cassette in self._recorded:
            cassette.write(server)


def _conversation(path: Path) -> str:
    """Returns the end of a conversation as `mcpproxy show` prints it, which is safe to print."""
    words = [*PROGRAM, "show", "--tail", str(MAX_LINES), "--color", "never", str(path)]
    environment = {**os.environ, "COLUMNS": "120"}
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=_SHOW_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, CaptureError) as error:
        return f"the conversation could not be shown: {sanitise(str(error), 400)}"
    return (done.stdout or done.stderr).decode("utf-8", "replace").rstrip("\n")
