"""The servers of one test: recorded, played and checked, and shown if the test fails."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from captures.errors import CaptureError
from mcpproxy.sanitise import sanitise
from mcpproxy.testing.capture import Capture
from mcpproxy.testing.cassette import Cassette
from mcpproxy.testing.commands import PROGRAM, Server, target_of
from mcpproxy.testing.misses import RequestsMissed
from mcpproxy.testing.mocking import mcp_mock
from mcpproxy.testing.pytest_marker import cassette_of, path_below
from mcpproxy.testing.server import RecordedServer, Source

__tracebackhide__: Final = True  # pytest shows the line of the test instead
MAX_MESSAGES: Final = 40
"""How many messages of a conversation are in the report of a failed test."""
MAX_STDERR_LINES: Final = 5
"""How many lines of the server's stderr are below them."""
_EVERY_MESSAGE: Final = "size>=0"
"""A filter, because without one, `mcpproxy show` prints stderr as well."""
_SHOW_S: Final = 60
_FOLDER: Final = "mcp"
"""The folder in `tmp_path` of a test, with a folder for each server."""


class ServersOfTest:
    """The servers that a test has got from its fixtures."""

    def __init__(self, item: pytest.Item, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self._root = item.config.rootpath
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
            kept = kept._replace(path=path_below(self._root, kept.path.parent, cassette))
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
            kept = self._cassette
            options = {"match": kept.match, "ignore": kept.ignore} | options
            source = mcp_mock(kept.path, **options).source
            assert source.played is not None
            source = source._replace(played=source.played._replace(advice=kept.advice))
        else:
            source = mcp_mock(capture, **options).source
        return self._add(RecordedServer(source, self._next))

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

    def take_misses(self) -> list[RequestsMissed]:
        """Returns the misses of the mocks since this was last called."""
        misses: list[RequestsMissed] = []
        for server in self._servers:
            with suppress(RequestsMissed):
                server.check()
            misses += server.failures
            server.failures.clear()
        return misses

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
            try:
                cassette.write(server)
            except CaptureError as error:
                pytest.fail(str(error), pytrace=False)


def _conversation(path: Path) -> str:
    """Returns the last messages as `mcpproxy show` prints them, and the end of stderr; safe to print."""
    words = [*PROGRAM, "show", "--filter", _EVERY_MESSAGE, "--tail", str(MAX_MESSAGES), "--color", "never", str(path)]
    environment = {**os.environ, "COLUMNS": "120"}
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=_SHOW_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, CaptureError) as error:
        return f"the conversation could not be shown: {sanitise(str(error), 400)}"
    messages = (done.stdout or done.stderr).decode("utf-8", "replace").rstrip("\n")
    return "\n".join([messages, *_server_lines(path)])


def _server_lines(path: Path) -> Iterator[str]:
    """Yield how the process of the server ended, and the last lines of its stderr."""
    capture = Capture(path)
    try:
        lines, ending = capture.stderr.splitlines(), capture.ending
    except CaptureError:
        return  # `show` has said so
    if ending:
        yield ending
    if lines:
        is_whole = len(lines) <= MAX_STDERR_LINES
        yield "stderr:" if is_whole else f"the last {MAX_STDERR_LINES} of {len(lines):,} lines of stderr:"
    for line in lines[-MAX_STDERR_LINES:]:
        yield f"  {sanitise(line, 400)}"
