"""An S3 server in a process of its own, and a relay in front of it that breaks connections in a fixed order."""

import re
import select
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import DEADLINE_S, ROOT

_PROGRAMS: Final = (ROOT / ".venv/ship-server/bin/moto_server", Path(sys.executable).parent / "moto_server")
PROGRAM: Final = next(filter(Path.exists, _PROGRAMS), _PROGRAMS[0])
BUCKET: Final = "lake"
_LISTENS: Final = re.compile(rb"Running on http://127\.0\.0\.1:([0-9]+)")
_CHUNK: Final = 1 << 16
_PAUSE_S: Final = 0.02
_UNAVAILABLE: Final = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@contextmanager
def server() -> Iterator[int]:
    """Yields the port of an S3 server with one bucket; skips the test if none is installed."""
    if not PROGRAM.exists():
        pytest.skip("moto's server is not installed; `make setup` installs it")
    with subprocess.Popen(
        [PROGRAM, "-H", "127.0.0.1", "-p", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            # The server prints its address to stderr after its imports, which take some seconds.
            said = next((found for line in process.stderr if (found := _LISTENS.search(line))), None)
            assert said is not None, "the server ended"
            port = int(said[1])
            threading.Thread(target=process.stderr.read, daemon=True).start()
            request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
            with urllib.request.urlopen(request, timeout=DEADLINE_S):
                pass
            yield port
        finally:
            process.kill()


def environment(port: int) -> Any:
    """Returns the environment in which a command finds the server."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "very-secret-key",
        "AWS_REGION": "us-east-1",
    }


def copied(port: int, into: Path, prefix: str) -> Path:
    """Copy all objects below a prefix to files; returns their folder."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=f"http://127.0.0.1:{port}",
        access_key_id="testing",
        secret_access_key="testing",
        region="us-east-1",
        client_options={"allow_http": True},
    )
    for some in obstore.list(store):
        for meta in some:
            path = into / meta["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(obstore.get(store, meta["path"]).bytes()))
    return into


Fault = Callable[["Connection"], None]


class Connection:
    """One connection through the relay, with its first bytes."""

    def __init__(self, client: socket.socket, head: bytes, port: int) -> None:
        self.client = client
        self.head = head
        self.port = port

    def pass_on(
        self,
        upto: int | None = None,
        size: int = _CHUNK,
        pause_s: float = 0.0,
        watch: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Pass bytes on in both directions.

        Args:
            upto: how many of the client's bytes; then its connection is reset.
            size: the most at a time.
            pause_s: the pause after each piece.
            watch: called with the size of each piece before it goes on.
        """
        with socket.create_connection(("127.0.0.1", self.port)) as upstream:
            sent = 0
            pieces = [self.head[at : at + size] for at in range(0, len(self.head), size)]
            open_ones = {self.client, upstream}
            while open_ones:
                for piece in pieces:
                    if upto is not None and sent + len(piece) > upto:
                        upstream.sendall(piece[: upto - sent])
                        return self.reset()
                    watch(len(piece))
                    upstream.sendall(piece)
                    sent += len(piece)
                    if pause_s:
                        select.select([], [], [], pause_s)
                pieces = []
                ready, _, _ = select.select(list(open_ones), [], [], 60)
                for one in ready:
                    data = one.recv(size)
                    if not data:
                        open_ones.discard(one)
                        return None
                    if one is self.client:
                        pieces.append(data)
                    else:
                        self.client.sendall(data)
        return None

    def reset(self) -> None:
        """Reset the connection."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.client.close()

    def refuse(self) -> None:
        """Respond with 503, after everything that was sent has been read."""
        with suppress(OSError):
            while select.select([self.client], [], [], 0.05)[0] and self.client.recv(_CHUNK):
                pass
            self.client.sendall(_UNAVAILABLE)


FAULTS: Final[dict[str, Fault]] = {
    "reset at once": Connection.reset,
    "503": Connection.refuse,
    "reset in the head": lambda it: it.pass_on(upto=100),
    "reset in the body": lambda it: it.pass_on(upto=len(it.head) + 500),
    "short and slow writes": lambda it: it.pass_on(size=512, pause_s=_PAUSE_S / 10),
    "passed on": lambda it: it.pass_on(),
}


class Relay:
    """A relay that applies the given faults to one connection after another, in a cycle."""

    def __init__(self, port: int, faults: list[Fault]) -> None:
        self._to = port
        self._faults = faults
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.count = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        with suppress(OSError):  # closing alone would leave it listening while a thread waits for the next connection
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                fault = self._faults[self.count % len(self._faults)]
                self.count += 1
                threading.Thread(target=self._one, args=(client, fault), daemon=True).start()

    def _one(self, client: socket.socket, fault: Fault) -> None:
        with client, suppress(OSError):
            fault(Connection(client, client.recv(_CHUNK), self._to))


@contextmanager
def relayed(port: int, faults: list[Fault]) -> Iterator[Relay]:
    """Run a relay while the block runs."""
    relay = Relay(port, faults)
    try:
        yield relay
    finally:
        relay.close()


__all__ = ["BUCKET", "FAULTS", "Connection", "Relay", "copied", "environment", "relayed", "server"]
