"""Connections to a collector that may be broken or hostile: requests end in time, responses are read up to a limit.

The time-outs of `requests` are those of a single read, so a response that arrives byte by byte never ends, and all of
it is kept in memory. Here the time-out is that of the whole request. A response counts as soon as its head is known;
what follows is read up to a limit.
"""

import socket
import ssl
import time
from contextlib import suppress
from io import BytesIO
from threading import Event, Thread
from typing import Any, Final, TypeVar

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPResponse
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import HTTPError

from mcpproxy.sanitise import sanitise

MAX_ANSWER_BYTES: Final = 64 << 10
"""Bytes of a response that are kept; a collector's is empty, or a short message."""
BODY_S: Final = 1.0
"""How long to wait for the rest of a response once its head has arrived."""
_TIMEOUT_S: Final = 10.0
"""The time-out of requests that have none of their own."""
_POLL_S: Final = 0.1
_Error = TypeVar("_Error", bound=BaseException)


class BoundedAdapter(HTTPAdapter):
    """Sends requests, one at a time."""

    def __init__(self) -> None:
        """Create an adapter without connections."""
        super().__init__()
        self.requests = 0
        """How many requests were sent, or attempted."""
        self.distrust: str | None = None
        """Why the certificate of the collector is not trusted; stays until a response arrives or a reader clears it."""
        self.authority: str | None = None
        """The file of certificates to trust; `requests` would prefer that in REQUESTS_CA_BUNDLE to its session's."""
        self.is_refused = False
        """Whether nothing listened at the address when the last request was sent."""
        self._connection: Any = None
        """The newest connection: the only one that can be in use."""
        self._until_s = 0.0
        """When the request under way must have ended, by the monotonic clock."""
        self._is_closed = False
        self._is_interrupted = False
        """Whether the request under way was ended before the head of its response was known."""

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: ARG002 - the signature is that of `requests`
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send a request, and read the beginning of the response, within `timeout` seconds.

        Raises:
            requests.RequestException: there was no response in time.
        """
        self.requests += 1
        limit_s = timeout if isinstance(timeout, int | float) and timeout > 0 else _TIMEOUT_S
        self._until_s = time.monotonic() + limit_s
        self.is_refused = self._is_interrupted = False
        done = Event()
        watch = Thread(target=self._interrupt_when_late, args=(done,), name="otlp deadline", daemon=True)
        watch.start()
        try:
            response = super().send(request, True, limit_s, self.authority or verify, cert, proxies)
            if self._is_interrupted:
                # Our closing of the connection was taken for the end of the head, however much of it was missing.
                response.close()
                raise requests.exceptions.ReadTimeout("the head of the response did not arrive in time")
            self._until_s = min(self._until_s, time.monotonic() + BODY_S)
            response.raw = BytesIO(_beginning(response.raw))
            self.distrust = None
        except requests.exceptions.ConnectionError as error:
            self.is_refused = _cause(error, ConnectionRefusedError) is not None
            distrust = _cause(error, ssl.SSLCertVerificationError)
            self.distrust = self.distrust if distrust is None else sanitise(distrust.verify_message, 100)
            raise
        else:
            return response
        finally:
            done.set()
            watch.join()

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> HTTPConnectionPool:
        """The pool of connections for a request; the newest connection that it opens is remembered."""
        pool = super().get_connection_with_tls_context(request, verify, proxies, cert)
        opened = type(pool).ConnectionCls

        def connection(*arguments: Any, **options: Any) -> Any:
            self._connection = opened(*arguments, **options)
            return self._connection

        pool.ConnectionCls = connection  # type: ignore[assignment] # it is only ever called
        return pool

    def close(self) -> None:
        """Close the connections. A request under way fails."""
        self._is_closed = True
        super().close()

    def _interrupt_when_late(self, done: Event) -> None:
        """Once it is late, and until the request is done, shut down its socket: the sender may be between two."""
        while not done.wait(_POLL_S):
            sock = getattr(self._connection, "sock", None)
            is_over = self._is_closed or time.monotonic() >= self._until_s
            if is_over and isinstance(sock, socket.socket) and not _is_before_handshake(self._connection, sock):
                self._is_interrupted = True
                with suppress(OSError):
                    # Not the method of a TLS socket, which would change it under the thread that reads.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _is_before_handshake(connection: Any, sock: object) -> bool:
    """Whether a connection is to have TLS and has none yet, which lasts while the certificates to trust are read.

    Nothing is waited for then, and `ssl` would leave a socket that is shut down to the garbage collector.
    """
    return isinstance(connection, HTTPSConnection) and connection.proxy is None and not isinstance(sock, ssl.SSLSocket)


def _cause(error: BaseException | None, kind: type[_Error]) -> _Error | None:
    """The error of a kind that led to another one, if any."""
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error


def _beginning(answer: HTTPResponse) -> bytes:
    """What follows the head, up to the limit. The connection stays open for the next request if that was all."""
    kept = b""
    try:
        if int(answer.headers.get("Content-Length", 0)) <= MAX_ANSWER_BYTES:
            kept = answer.read(MAX_ANSWER_BYTES, decode_content=False)
            if not answer.read(1, decode_content=False):
                return kept
    except (HTTPError, OSError, ValueError):
        pass  # the head has arrived, and is enough
    answer.close()
    return kept
