"""Mocks over HTTP, as tests run them."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.harness import Place
from tests.http_harness import Wire, connected
from tests.warm import Started


class HttpMockProcess:
    """A mock that serves over HTTP while it runs, and its end."""

    def __init__(self, process: Started, url: str) -> None:
        self.process = process
        self.url = url
        """The URL that it printed on stdout."""
        self.errors = b""
        """Its stderr, once it has ended."""

    @property
    def address(self) -> tuple[str, int]:
        """Its host and port."""
        host, _, port = self.url.removeprefix("http://").partition("/")[0].rpartition(":")
        return host, int(port)

    def client(self, receive_buffer: int = 0) -> Wire:
        """Connect to it."""
        return connected(self.address, receive_buffer)

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Send it a signal, and wait for its end; returns its exit code."""
        self.process.send_signal(signum)
        _, self.errors = self.process.communicate()
        return self.process.returncode


@contextlib.contextmanager
def http_mock(place: Place, capture: Path, *options: str, codes: tuple[int, ...] = (0,)) -> Iterator[HttpMockProcess]:
    """Yields a mock of a capture on a free port, which must then end with one of the exit codes."""
    words = ["mock", "--listen", "127.0.0.1:0", *options, str(capture)]
    with Started(words, place.environment, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().decode().strip()
        assert url, process.stderr.read()
        mock = HttpMockProcess(process, url)
        try:
            yield mock
        finally:
            status = mock.stop() if process.poll() is None else process.returncode
    assert status in codes, mock.errors
    assert b"Traceback" not in mock.errors
    assert b"a fault in mcpproxy" not in mock.errors, mock.errors
