"""Sends one HTTP request with a limit on everything: its time, its body, and the events of a stream."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mcpproxy import __version__
from mcpproxy.clients.probe import NoRedirectHandler
from mcpproxy.clients.timeouts import run_with_timeout
from mcpproxy.doctor.process_attempt import interruption
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import ClosedPort, MissingHttpAnswer, UnreachableHost, UntrustedCertificate

MAX_BODY: Final = 4 << 20
"""The most bytes of a body that are read, and of the events of a stream."""
FAILURES: Final = (OSError, http.client.HTTPException, ValueError)
"""What is raised if there is no response; `failure_diagnosis` says why."""
_STREAM: Final = "text/event-stream"


class HttpReply(NamedTuple):
    """The response to one request."""

    status: int
    fields: tuple[tuple[str, str], ...]
    """The header fields, with names in lower case."""
    body: bytes
    """At most `MAX_BODY` bytes; of an event stream, the messages up to the awaited one, or the first event."""
    seconds: float
    """How long the response took, its body included."""

    def values(self, name: str) -> list[str]:
        """Returns the values of a header field, by its name in lower case."""
        return [value for field, value in self.fields if field == name]

    def value(self, name: str) -> str:
        """Returns the first value of a header field, or an empty string."""
        return next(iter(self.values(name)), "")

    @property
    def media_type(self) -> str:
        """The media type of the body, in lower case and without parameters."""
        return self.value("content-type").partition(";")[0].strip().lower()

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self.media_type == _STREAM

    def message(self, request_id: int) -> dict[str, Any] | None:
        """Returns the message that answers a request, or None if there is none."""
        lines = self.body.splitlines() if self.is_stream else [b"data:" + self.body]
        return next(filter(None, (_message(line, request_id) for line in lines)), None)

    @property
    def document(self) -> dict[str, Any] | None:
        """The JSON object in the body, or None if there is none."""
        return _object(self.body)


def send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    *,
    limit_s: float,
    request_id: int | None = None,
    reads_first_event: bool = False,
) -> HttpReply:
    """Send one request; a redirect is not followed.

    Args:
        method: the method.
        url: where to send it; http or https.
        headers: the header fields.
        body: the body, if there is one.
        limit_s: the maximum time in seconds until the end of the response.
        request_id: the id of the request of MCP in the body: of an event stream, no more is read than the message that
            answers it. Without it, nothing of an event stream is read.
        reads_first_event: whether to read the first event of an event stream, if there is no `request_id`.

    Raises:
        OSError: there is no response, or not in time (`TimeoutError`).
        http.client.HTTPException: the response is not valid.
        ValueError: the URL is not valid.
    """

    def read_stream(response: Any) -> bytes:
        if request_id is not None:
            return _messages(response, request_id)
        return _first_event(response) if reads_first_event else b""

    return run_with_timeout(limit_s, lambda: _send(method, url, headers, body, limit_s, read_stream), interruption)


def failure_diagnosis(error: Exception, limit_s: float) -> Diagnosis:
    """Returns the diagnosis for a request without a response.

    Args:
        error: what was raised.
        limit_s: the maximum time of the request, in seconds.
    """
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Diagnosis(UntrustedCertificate, reason.verify_message)
    if isinstance(reason, ssl.SSLError):
        return Diagnosis(UntrustedCertificate, str(reason.reason or reason))
    if isinstance(reason, TimeoutError):
        return Diagnosis(MissingHttpAnswer, f"no answer within {limit_s:.0f} s")
    if isinstance(reason, ConnectionRefusedError):
        return Diagnosis(ClosedPort, "the connection was refused")
    if isinstance(reason, socket.gaierror):
        return Diagnosis(UnreachableHost, reason.strerror or "the host name is unknown")
    if isinstance(reason, http.client.HTTPException | ConnectionError):
        return Diagnosis(MissingHttpAnswer, f"the connection ended without a response ({type(reason).__name__})")
    return Diagnosis(UnreachableHost, str(reason))


def _send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    limit_s: float,
    read_stream: Callable[[Any], bytes],
) -> HttpReply:
    began = time.monotonic()
    named = {"User-Agent": f"mcpproxy-doctor/{__version__}", **headers}
    request = urllib.request.Request(url, body, named, method=method)  # noqa: S310 # http and https only
    try:
        response = urllib.request.build_opener(NoRedirectHandler).open(request, timeout=limit_s)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        fields = tuple((name.lower(), value) for name, value in response.headers.items())
        reply = HttpReply(response.status, fields, b"", 0.0)
        content = read_stream(response) if reply.is_stream else response.read(MAX_BODY)
    return reply._replace(body=content, seconds=time.monotonic() - began)


def _messages(response: Any, request_id: int) -> bytes:
    """Read the messages in a stream up to the one that answers the request."""
    lines: list[bytes] = []
    for line in _lines(response):
        if line.startswith(b"data:"):
            lines.append(line)
            if _message(line, request_id) is not None:
                break
    return b"".join(lines)


def _first_event(response: Any) -> bytes:
    """Read the lines of a stream up to the end of the first event that has data."""
    lines: list[bytes] = []
    has_data = False
    for line in _lines(response):
        if has_data and not line.strip():
            break
        has_data = has_data or (line.startswith(b"data:") and line[5:].strip() != b"")
        lines.append(line)
    return b"".join(lines)


def _lines(response: Any) -> Iterator[bytes]:
    left = MAX_BODY
    while left > 0 and (line := response.readline(left)):
        left -= len(line)
        yield line


def _message(line: bytes, request_id: int) -> dict[str, Any] | None:
    value = _object(line.removeprefix(b"data:")) if line.startswith(b"data:") else None
    return value if value is not None and value.get("id") == request_id else None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
