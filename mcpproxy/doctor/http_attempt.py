"""Speaks to a server with a URL as a client would, with the headers of its entry; names the first thing that fails."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from analysis.protocol.error_codes import METHOD_NOT_FOUND
from mcpproxy.clients.probe import HOPS, REDIRECTS, NoRedirect, next_url
from mcpproxy.clients.timeouts import run_with_timeout
from mcpproxy.doctor.http_request import failure_diagnosis
from mcpproxy.doctor.process_attempt import HELLO, interrupted
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import (
    NotMcp,
    Redirected,
    RedirectFollowed,
    Refused,
    Unauthorized,
    WrongTransport,
)

_BODY: Final = 1 << 20
_TEXT: Final = 1000
_ACCEPT: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class HttpAttempt(NamedTuple):
    """The outcome of one conversation."""

    diagnosis: Diagnosis | None
    initialize_s: float | None = None
    """Seconds until `initialize` was answered."""
    tools: int | None = None
    remarks: tuple[Diagnosis, ...] = ()


class _Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any] | None:
        """The first message of a JSON or an event-stream body."""
        for part in (self.body, *(line[5:] for line in self.body.splitlines() if line.startswith(b"data:"))):
            try:
                value = json.loads(part)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
        return None


def attempt(url: str, headers: Mapping[str, str], *, is_sse: bool, limit_s: float) -> HttpAttempt:
    """Speak to a server: initialize, tools/list, and the end of the session; a redirect is followed as SDKs follow it.

    Args:
        url: the URL of the server.
        headers: the headers of its entry.
        is_sse: whether the entry names the older transport, HTTP+SSE.
        limit_s: how long each request may take, in seconds.
    """
    try:
        return run_with_timeout(2 * limit_s, lambda: _conversation(url, headers, limit_s, is_sse=is_sse), interrupted)
    except TimeoutError as error:
        return HttpAttempt(failure_diagnosis(error, 2 * limit_s))


def _conversation(url: str, headers: Mapping[str, str], limit_s: float, *, is_sse: bool) -> HttpAttempt:
    began = time.monotonic()
    method, body = ("GET", None) if is_sse else ("POST", _request(1, "initialize", HELLO))
    remarks: tuple[Diagnosis, ...] = ()
    try:
        reply = _ask(method, url, headers, body, limit_s)
        for _ in range(HOPS):
            target = next_url(url, method, reply.status, reply.headers.get("Location", ""))
            if target is None:
                break
            shown = _shown(target)
            remarks = (Diagnosis(RedirectFollowed, f"{reply.status} to {shown}", f"change its URL to {shown}"),)
            url, reply = target, _ask(method, target, headers, body, limit_s)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return HttpAttempt(failure_diagnosis(error, limit_s), remarks=remarks)
    talk = _sse if is_sse else _streamable
    return talk(url, headers, limit_s, began, reply)._replace(remarks=remarks)


def _streamable(url: str, headers: Mapping[str, str], limit_s: float, began: float, reply: _Reply) -> HttpAttempt:
    """The outcome of a conversation whose `initialize` got this reply."""
    diagnosis = _of_status(reply, url)
    if diagnosis is not None:
        return HttpAttempt(_other_transport(diagnosis, url, headers, limit_s) or diagnosis)
    answer = reply.message
    if answer is None:
        return HttpAttempt(Diagnosis(NotMcp, f"{reply.headers.get('Content-Type', 'no media type')}, not a message"))
    result = answer.get("result")
    if not isinstance(result, dict):
        return HttpAttempt(Diagnosis(Refused, f"initialize: {_error_text(answer)}"))
    initialize_s = time.monotonic() - began
    session = {"Mcp-Session-Id": reply.headers["Mcp-Session-Id"]} if "Mcp-Session-Id" in reply.headers else {}
    more = {**headers, **session, "MCP-Protocol-Version": str(result.get("protocolVersion", ""))}
    try:
        return HttpAttempt(*_tools(url, more, limit_s, initialize_s))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return HttpAttempt(failure_diagnosis(error, limit_s), initialize_s)


def _tools(
    url: str, headers: Mapping[str, str], limit_s: float, initialize_s: float
) -> tuple[Diagnosis | None, float, int | None]:
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    _ask("POST", url, headers, note, limit_s)
    reply = _ask("POST", url, headers, _request(2, "tools/list", {}), limit_s)
    answer = reply.message or {}
    result = answer.get("result")
    tools = result.get("tools") if isinstance(result, dict) else None
    if "Mcp-Session-Id" in headers:
        _ask("DELETE", url, headers, None, limit_s)
    if isinstance(tools, list):
        return None, initialize_s, len(tools)
    error = answer.get("error")
    if isinstance(error, dict) and error.get("code") == METHOD_NOT_FOUND:
        return None, initialize_s, 0
    return Diagnosis(Refused, f"tools/list: {_error_text(answer)}"), initialize_s, None


def _sse(url: str, headers: Mapping[str, str], limit_s: float, began: float, reply: _Reply) -> HttpAttempt:
    """The outcome of a conversation in the older transport, whose stream should begin with this reply."""
    if reply.status == 200 and b"event: endpoint" in reply.body.replace(b"event:endpoint", b"event: endpoint"):
        return HttpAttempt(None, time.monotonic() - began)
    diagnosis = _of_status(reply, url)
    if diagnosis is not None and diagnosis.verdict is not NotMcp:
        return HttpAttempt(diagnosis)
    try:
        posted = _ask("POST", url, headers, _request(1, "initialize", HELLO), limit_s)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return HttpAttempt(failure_diagnosis(error, limit_s))
    if posted.status == 200 and posted.message is not None:
        return HttpAttempt(
            Diagnosis(WrongTransport, "it speaks Streamable HTTP, but the entry says HTTP+SSE", 'write "type": "http"')
        )
    return HttpAttempt(diagnosis or Diagnosis(NotMcp, f"GET got {reply.status}, but no endpoint event"))


def _other_transport(diagnosis: Diagnosis, url: str, headers: Mapping[str, str], limit_s: float) -> Diagnosis | None:
    """The diagnosis if a server that refuses a POST opens the older transport's stream, or None."""
    if diagnosis.verdict is not NotMcp:
        return None
    try:
        reply = _ask("GET", url, headers, None, limit_s)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    if reply.status == 200 and reply.headers.get("Content-Type", "").startswith("text/event-stream"):
        return Diagnosis(
            WrongTransport, "it speaks HTTP+SSE, but the entry says Streamable HTTP", 'write "type": "sse"'
        )
    return None


def _request(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def _ask(method: str, url: str, headers: Mapping[str, str], body: bytes | None, limit_s: float) -> _Reply:
    """Send one request; returns the reply, which for an event stream holds only the first event."""
    accept = {"Accept": "text/event-stream"} if method == "GET" else _ACCEPT
    request = urllib.request.Request(url, body, {**accept, **headers}, method=method)  # noqa: S310 # http and https only
    try:
        response = urllib.request.build_opener(NoRedirect).open(request, timeout=limit_s)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        fields = {name.title(): value for name, value in response.headers.items()}
        if fields.get("Content-Type", "").startswith("text/event-stream") and response.status == 200:
            return _Reply(response.status, fields, _first_event(response, limit_s))
        return _Reply(response.status, fields, response.read(_BODY))


def _first_event(response: Any, limit_s: float) -> bytes:
    lines: list[bytes] = []
    until = time.monotonic() + limit_s
    while sum(map(len, lines)) < _BODY:
        line = response.readline(_BODY)
        if not line or (
            not line.strip() and any(earlier.startswith(b"data:") and earlier[5:].strip() for earlier in lines)
        ):
            break
        if time.monotonic() > until:
            raise TimeoutError
        lines.append(line)
    return b"".join(lines)


def _of_status(reply: _Reply, url: str) -> Diagnosis | None:
    if reply.status in REDIRECTS:
        return _redirected(reply, url)
    if reply.status in (401, 403):
        challenge = reply.headers.get("Www-Authenticate", "")
        how = "it uses OAuth: log in with the client" if "resource_metadata" in challenge else ""
        return Diagnosis(Unauthorized, f"it answers {reply.status}", how)
    if reply.status in (404, 405, 406, 410) or (reply.status == 200 and reply.message is None):
        return Diagnosis(NotMcp, f"it answers {reply.status} at this path, and not as an MCP server")
    if reply.status >= 400:
        return Diagnosis(Refused, f"it answers {reply.status}{_of_error(reply)}")
    return None


def _redirected(reply: _Reply, url: str) -> Diagnosis:
    """The diagnosis of a redirect that the SDKs do not follow."""
    location = reply.headers.get("Location", "")
    try:
        target = urljoin(url, location)
        before, after = urlsplit(url), urlsplit(target)
        shown = _shown(target)
    except ValueError:
        location = ""
    if not location:
        return Diagnosis(Redirected, f"{reply.status} to no address")
    if (before.scheme, after.scheme) == ("https", "http") and before.hostname == after.hostname:
        advice = f"change its URL to {_shown(after._replace(scheme='https', netloc=before.netloc).geturl())}"
        return Diagnosis(
            Redirected, f"{reply.status} to {shown}: the server does not know that it is reached by https", advice
        )
    if (before.scheme, before.netloc) != (after.scheme, after.netloc):
        why = ", which is another origin: clients do not follow"
    else:
        why = "" if reply.status in (307, 308) else ": clients repeat the POST as a GET, without the message"
    return Diagnosis(Redirected, f"{reply.status} to {shown}{why}", f"change its URL to {shown}")


def _shown(url: str) -> str:
    """A URL without its possible secrets: credentials, query and fragment."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _of_error(reply: _Reply) -> str:
    message = reply.message
    return f": {_error_text(message)}" if message is not None and "error" in message else ""


def _error_text(answer: Mapping[str, Any]) -> str:
    error = answer.get("error")
    return str(error.get("message", "no text"))[:_TEXT] if isinstance(error, dict) else "a response without a result"
