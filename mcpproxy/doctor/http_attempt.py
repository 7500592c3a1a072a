"""Speaks to a server that has a URL as a client would, with the headers of its entry; returns the first fault."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from analysis.protocol.error_codes import METHOD_NOT_FOUND
from mcpproxy.clients.probe import MAX_REDIRECTS, REDIRECT_STATUSES, next_url
from mcpproxy.clients.timeouts import run_with_timeout
from mcpproxy.doctor.http_request import FAILURES, HttpReply, failure_diagnosis, send
from mcpproxy.doctor.process_attempt import INITIALIZE_PARAMS, interruption
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import (
    FollowedRedirect,
    MissingCredentials,
    NonMcpServer,
    RefusedRequest,
    UnfollowedRedirect,
    WrongTransport,
)

_MAX_TEXT_CHARS: Final = 1000
_STREAM_HEADERS: Final = {"Accept": "text/event-stream"}
_POST_HEADERS: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class HttpAttempt(NamedTuple):
    """The outcome of one conversation."""

    diagnosis: Diagnosis | None
    """The fault, if there was one."""
    initialize_s: float | None = None
    """The time until `initialize` was answered, in seconds."""
    tools: int | None = None
    remarks: tuple[Diagnosis, ...] = ()


def attempt_url(url: str, headers: Mapping[str, str], *, is_sse: bool, limit_s: float) -> HttpAttempt:
    """Send `initialize` and `tools/list`, and end the session; follow redirects as SDKs do.

    Args:
        url: the URL of the server.
        headers: the headers of its entry.
        is_sse: whether the entry specifies the older transport, HTTP+SSE.
        limit_s: how long each request may take, in seconds.
    """
    try:
        return run_with_timeout(2 * limit_s, lambda: _converse(url, headers, limit_s, is_sse=is_sse), interruption)
    except TimeoutError as error:
        return HttpAttempt(failure_diagnosis(error, 2 * limit_s))


def _converse(url: str, headers: Mapping[str, str], limit_s: float, *, is_sse: bool) -> HttpAttempt:
    start_s = time.monotonic()
    method, begin = ("GET", _open_stream) if is_sse else ("POST", _initialize)
    remarks: tuple[Diagnosis, ...] = ()
    try:
        reply = begin(url, headers, limit_s)
        for _ in range(MAX_REDIRECTS):
            target = next_url(url, method, reply.status, reply.value("location"))
            if target is None:
                break
            shown_url = _without_secrets(target)
            remarks = (Diagnosis(FollowedRedirect, f"{reply.status} to {shown_url}", f"change its URL to {shown_url}"),)
            url, reply = target, begin(target, headers, limit_s)
    except FAILURES as error:
        return HttpAttempt(failure_diagnosis(error, limit_s), remarks=remarks)
    converse = _continue_sse if is_sse else _continue_streamable
    return converse(url, headers, limit_s, start_s, reply)._replace(remarks=remarks)


def _continue_streamable(
    url: str, headers: Mapping[str, str], limit_s: float, start_s: float, reply: HttpReply
) -> HttpAttempt:
    """Continue a conversation in Streamable HTTP after the reply to `initialize`; returns the outcome."""
    diagnosis = _diagnose_status(reply, url)
    if diagnosis is not None:
        return HttpAttempt(_diagnose_other_transport(diagnosis, url, headers, limit_s) or diagnosis)
    answer = _answer(reply, 1)
    if answer is None:
        return HttpAttempt(Diagnosis(NonMcpServer, f"{reply.value('content-type') or 'no media type'}, not a message"))
    result = answer.get("result")
    if not isinstance(result, dict):
        return HttpAttempt(Diagnosis(RefusedRequest, f"initialize: {_error_text(answer)}"))
    initialize_s = time.monotonic() - start_s
    session = {"Mcp-Session-Id": session_id} if (session_id := reply.value("mcp-session-id")) else {}
    session_headers = {**headers, **session, "MCP-Protocol-Version": str(result.get("protocolVersion", ""))}
    try:
        return HttpAttempt(*_list_tools(url, session_headers, limit_s, initialize_s))
    except FAILURES as error:
        return HttpAttempt(failure_diagnosis(error, limit_s), initialize_s)


def _list_tools(
    url: str, headers: Mapping[str, str], limit_s: float, initialize_s: float
) -> tuple[Diagnosis | None, float, int | None]:
    _post(url, headers, limit_s, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    answer = _answer(_post(url, headers, limit_s, _request(2, "tools/list", {})), 2) or {}
    result = answer.get("result")
    tools = result.get("tools") if isinstance(result, dict) else None
    if "Mcp-Session-Id" in headers:
        send("DELETE", url, {**_POST_HEADERS, **headers}, limit_s=limit_s)
    if isinstance(tools, list):
        return None, initialize_s, len(tools)
    error = answer.get("error")
    if isinstance(error, dict) and error.get("code") == METHOD_NOT_FOUND:
        return None, initialize_s, 0
    return Diagnosis(RefusedRequest, f"tools/list: {_error_text(answer)}"), initialize_s, None


def _continue_sse(
    url: str, headers: Mapping[str, str], limit_s: float, start_s: float, reply: HttpReply
) -> HttpAttempt:
    """Examine the reply that should open the stream of the older transport; returns the outcome."""
    if reply.status == 200 and b"event: endpoint" in reply.body.replace(b"event:endpoint", b"event: endpoint"):
        return HttpAttempt(None, time.monotonic() - start_s)
    diagnosis = _diagnose_status(reply, url)
    if diagnosis is not None and diagnosis.verdict is not NonMcpServer:
        return HttpAttempt(diagnosis)
    try:
        post_reply = _initialize(url, headers, limit_s)
    except FAILURES as error:
        return HttpAttempt(failure_diagnosis(error, limit_s))
    if post_reply.status == 200 and _answer(post_reply, 1) is not None:
        return HttpAttempt(
            Diagnosis(WrongTransport, "it speaks Streamable HTTP, but the entry says HTTP+SSE", 'write "type": "http"')
        )
    return HttpAttempt(diagnosis or Diagnosis(NonMcpServer, f"GET got {reply.status}, but no endpoint event"))


def _diagnose_other_transport(
    diagnosis: Diagnosis, url: str, headers: Mapping[str, str], limit_s: float
) -> Diagnosis | None:
    """Return a diagnosis if a server that refuses a POST opens the older transport's stream, or None."""
    if diagnosis.verdict is not NonMcpServer:
        return None
    try:
        reply = _open_stream(url, headers, limit_s)
    except FAILURES:
        return None
    if reply.status == 200 and reply.is_stream:
        return Diagnosis(
            WrongTransport, "it speaks HTTP+SSE, but the entry says Streamable HTTP", 'write "type": "sse"'
        )
    return None


def _request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _initialize(url: str, headers: Mapping[str, str], limit_s: float) -> HttpReply:
    return _post(url, headers, limit_s, _request(1, "initialize", INITIALIZE_PARAMS))


def _post(url: str, headers: Mapping[str, str], limit_s: float, message: dict[str, Any]) -> HttpReply:
    body = json.dumps(message).encode()
    return send("POST", url, {**_POST_HEADERS, **headers}, body, limit_s=limit_s, request_id=message.get("id"))


def _open_stream(url: str, headers: Mapping[str, str], limit_s: float) -> HttpReply:
    """Send a GET as a client of the older transport; returns the reply with the first event of its stream."""
    return send("GET", url, {**_STREAM_HEADERS, **headers}, limit_s=limit_s, reads_first_event=True)


def _answer(reply: HttpReply, request_id: int) -> dict[str, Any] | None:
    """Return the message that answers a request, or None; an error whose sender did not know the id is one, too."""
    document = reply.document or {}
    is_error_without_id = "error" in document and document.get("id") is None
    return reply.message(request_id) or (document if is_error_without_id else None)


def _diagnose_status(reply: HttpReply, url: str) -> Diagnosis | None:
    if reply.status in REDIRECT_STATUSES:
        return _diagnose_redirect(reply, url)
    if reply.status in (401, 403):
        challenge = reply.value("www-authenticate")
        advice = "it uses OAuth: log in with the client" if "resource_metadata" in challenge else ""
        return Diagnosis(MissingCredentials, f"it answers {reply.status}", advice)
    if reply.status in (404, 405, 406, 410) or (reply.status == 200 and _answer(reply, 1) is None):
        return Diagnosis(NonMcpServer, f"it answers {reply.status} at this path, but not as an MCP server")
    if reply.status >= 400:
        return Diagnosis(RefusedRequest, f"it answers {reply.status}{_error_suffix(reply)}")
    return None


def _diagnose_redirect(reply: HttpReply, url: str) -> Diagnosis:
    """Return the diagnosis of a redirect that the SDKs do not follow."""
    location = reply.value("location")
    try:
        target = urljoin(url, location)
        old_parts, new_parts = urlsplit(url), urlsplit(target)
        shown_url = _without_secrets(target)
    except ValueError:
        location = ""
    if not location:
        return Diagnosis(UnfollowedRedirect, f"{reply.status} to no address")
    if (old_parts.scheme, new_parts.scheme) == ("https", "http") and old_parts.hostname == new_parts.hostname:
        advice = (
            "change its URL to "
            f"{_without_secrets(new_parts._replace(scheme='https', netloc=old_parts.netloc).geturl())}"
        )
        return Diagnosis(
            UnfollowedRedirect,
            f"{reply.status} to {shown_url}: the server does not know that it is reached by https",
            advice,
        )
    if (old_parts.scheme, old_parts.netloc) != (new_parts.scheme, new_parts.netloc):
        reason = ", which is another origin: clients do not follow"
    else:
        reason = "" if reply.status in (307, 308) else ": clients repeat the POST as a GET, without the message"
    return Diagnosis(UnfollowedRedirect, f"{reply.status} to {shown_url}{reason}", f"change its URL to {shown_url}")


def _without_secrets(url: str) -> str:
    """Return a URL without the parts that may be secret: credentials, query and fragment."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _error_suffix(reply: HttpReply) -> str:
    message = reply.document or reply.message(1)
    return f": {_error_text(message)}" if message is not None and "error" in message else ""


def _error_text(answer: Mapping[str, Any]) -> str:
    error = answer.get("error")
    return (
        str(error.get("message", "no text"))[:_MAX_TEXT_CHARS]
        if isinstance(error, dict)
        else "a response without a result"
    )
