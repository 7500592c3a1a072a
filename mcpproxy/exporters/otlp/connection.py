"""Connects to a collector that may be broken or hostile: limits the time of requests and the size of responses.

A time-out of `request_count` limits only a single read, so a response that arrives byte by byte never ends, and all of
it is kept in memory. Here, the time-out limits the whole request. The request has succeeded as soon as the head of the
response is known; the body is read up to a limit.
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

MAX_RESPONSE_BYTES: Final = 64 << 10
"""The maximum number of bytes of a response that are kept; a collector sends an empty body or a short message."""
BODY_TIMEOUT_S: Final = 1.0
"""How long to wait for the body of a response after its head has arrived."""
_TIMEOUT_S: Final = 10.0
"""The time-out of requests that do not specify one."""
_POLL_S: Final = 0.1
_Error = TypeVar("_Error", bound=BaseException)


class BoundedAdapter(HTTPAdapter):
    """Sends requests, one at a time."""

    def __init__(self) -> None:
        """Create an adapter without connections."""
        super().__init__()
        self.request_count = 0
        """The number of requests that were sent or attempted."""
        self.distrust: str | None = None
        """Why the collector's certificate is not trusted; set until a response arrives or the caller clears it."""
        self.authority_file: str | None = None
        """The file of certificates to trust; otherwise, REQUESTS_CA_BUNDLE would override that of the session."""
        self.is_refused = False
        """Whether the connection for the last request was refused."""
        self._connection: Any = None
        """The newest connection, which is the only one that can be in use."""
        self._deadline_s = 0.0
        """The deadline of the current request, by the monotonic clock."""
        self._is_closed = False
        self._is_interrupted = False
        """Whether the current request was interrupted before the head of its response was known."""

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: ARG002 - the signature is that of `request_count`
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send a request, and read the beginning of the response, within `timeout` seconds; returns the response.

        Raises:
            requests.RequestException: there was no response in time.
        """
        self.request_count += 1
        limit_s = timeout if isinstance(timeout, int | float) and timeout > 0 else _TIMEOUT_S
        self._deadline_s = time.monotonic() + limit_s
        self.is_refused = self._is_interrupted = False
        finished = Event()
        watchdog = Thread(target=self._interrupt_after_deadline, args=(finished,), name="otlp deadline", daemon=True)
        watchdog.start()
        try:
            response = super().send(request, True, limit_s, self.authority_file or verify, cert, proxies)
            if self._is_interrupted:
                # `request_count` took the closed connection for the end of the head, which may be incomplete.
                response.close()
                raise requests.exceptions.ReadTimeout("the head of the response did not arrive in time")
            self._deadline_s = min(self._deadline_s, time.monotonic() + BODY_TIMEOUT_S)
            response.raw = BytesIO(_read_body(response.raw))
            self.distrust = None
        except requests.exceptions.ConnectionError as error:
            self.is_refused = _cause(error, ConnectionRefusedError) is not None
            distrust = _cause(error, ssl.SSLCertVerificationError)
            self.distrust = self.distrust if distrust is None else sanitise(distrust.verify_message, 100)
            raise
        else:
            return response
        finally:
            finished.set()
            watchdog.join()

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> HTTPConnectionPool:
        """Return the pool of connections for a request; `_connection` then refers to the newest one that it opens."""
        pool = super().get_connection_with_tls_context(request, verify, proxies, cert)
        connection_class = type(pool).ConnectionCls

        def new_connection(*arguments: Any, **options: Any) -> Any:
            self._connection = connection_class(*arguments, **options)
            return self._connection

        pool.ConnectionCls = new_connection  # type: ignore[assignment] # it is only ever called
        return pool

    def close(self) -> None:
        """Close the connections, which makes the current request fail."""
        self._is_closed = True
        super().close()

    def _interrupt_after_deadline(self, finished: Event) -> None:
        """After the deadline, shut down the socket until the request has finished: it may open another connection."""
        while not finished.wait(_POLL_S):
            socket_ = getattr(self._connection, "sock", None)
            is_over = self._is_closed or time.monotonic() >= self._deadline_s
            if is_over and isinstance(socket_, socket.socket) and not _is_before_handshake(self._connection, socket_):
                self._is_interrupted = True
                with suppress(OSError):
                    # The method of a TLS socket would modify the socket while the other thread reads from it.
                    socket.socket.shutdown(socket_, socket.SHUT_RDWR)


def _is_before_handshake(connection: Any, socket_: object) -> bool:
    """Whether a connection will use TLS but has not begun the handshake, because it is still loading certificates.

    In this state, it waits for nothing, and `ssl` would leave a socket that was shut down to the garbage collector.
    """
    return (
        isinstance(connection, HTTPSConnection) and connection.proxy is None and not isinstance(socket_, ssl.SSLSocket)
    )


def _cause(error: BaseException | None, kind: type[_Error]) -> _Error | None:
    """Return the error of this kind that led to `error`, if any."""
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error


def _read_body(response: HTTPResponse) -> bytes:
    """Return the body up to the limit. If that is the whole body, the connection stays open for the next request."""
    body = b""
    try:
        if int(response.headers.get("Content-Length", 0)) <= MAX_RESPONSE_BYTES:
            body = response.read(MAX_RESPONSE_BYTES, decode_content=False)
            if not response.read(1, decode_content=False):
                return body
    except (HTTPError, OSError, ValueError):
        pass  # the head has arrived, which is enough
    response.close()
    return body
