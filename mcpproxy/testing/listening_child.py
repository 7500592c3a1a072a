"""A child process of a test that listens: it prints its URL, and ends with the block, or with the test's process.

The child ends when its stdin does, so that it does not outlive the process of the tests, however that ends.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mcpproxy.sanitise import sanitise

__tracebackhide__: Final = True  # pytest shows the line of the test instead
_TETHERED_PROGRAM: Final = (sys.executable, "-P", "-m", "mcpproxy.replay.tethered")
START_S: Final = 60.0
"""How long a child may take to print its URL."""
END_S: Final = 20.0
"""How long a child may take to end after SIGTERM, before it is killed."""
_MAX_URL_BYTES: Final = 1 << 16
_MAX_STDERR_BYTES: Final = 4000


class ListeningChild:
    """A command of mcpproxy that listens on loopback until it is closed."""

    def __init__(self, arguments: Sequence[str], stderr: Path) -> None:
        """Start the command, and wait until it listens.

        Args:
            arguments: the words of the command, without `mcpproxy`.
            stderr: the file for its stderr.

        Raises:
            RuntimeError: it ended, or did not print a URL in time.
        """
        self.stderr = stderr
        """The file with what it wrote to stderr."""
        with stderr.open("wb") as file:
            self._process = subprocess.Popen(
                [*_TETHERED_PROGRAM, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
            )
        try:
            self.url = self._read_url()
        except BaseException:
            self.close()
            raise

    def _read_url(self) -> str:
        assert self._process.stdout is not None
        output, deadline_s = self._process.stdout.fileno(), time.monotonic() + START_S
        line = b""
        while b"\n" not in line and len(line) < _MAX_URL_BYTES:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([output], [], [], left_s)[0]:
                raise RuntimeError(f"mcpproxy did not listen within {START_S:.0f} s: {self.stderr_text}")
            if not (chunk := os.read(output, _MAX_URL_BYTES)):
                raise RuntimeError(f"mcpproxy did not start: {self.stderr_text}")
            line += chunk
        return line.partition(b"\n")[0].decode()

    @property
    def stderr_text(self) -> str:
        """The end of what it wrote to stderr so far, safe to print."""
        text = self.stderr.read_bytes()[-_MAX_STDERR_BYTES:].decode("utf-8", "replace")
        return "\n".join(sanitise(line, None) for line in text.splitlines())

    def close(self) -> None:
        """End the command, if it still runs; its capture is closed afterwards."""
        process = self._process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
