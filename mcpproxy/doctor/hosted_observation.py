"""Sends a server the requests that a hosted client sends before a login, and keeps the responses.

The requests are `initialize`, `tools/list`, and GET of the documents about authorization. Nothing is registered, no
login begins, and no tool is called. A redirect is followed only within its origin. The server may name documents on
other hosts: they are requested without credentials, and every document is kept with its URL.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from analysis.protocol.challenges import parse_challenges
from analysis.protocol.error_codes import METHOD_NOT_FOUND
from captures.metadata_paths import OPENID_METADATA_PATH, RESOURCE_METADATA_PATH, SERVER_METADATA_PATH
from mcpproxy import __version__
from mcpproxy.clients.hosted import BY_PATH, BY_ROOT, OLD_PLACE, POINTER, SSE, STREAMABLE, HostedClient
from mcpproxy.clients.probe import MAX_REDIRECTS, REDIRECT_STATUSES, next_url
from mcpproxy.doctor.http_request import FAILURES, MAX_BODY, HttpReply, failure_diagnosis, send
from mcpproxy.doctor.process_attempt import INITIALIZE_PARAMS
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import FollowedRedirect, NonMcpServer, RefusedRequest

MAX_PAGES: Final = 20
"""The most pages of a list of tools that are requested; no more are if the list exceeds `MAX_BODY` bytes."""
_REFUSED: Final = (401, 403)
_TEXT: Final = 200
_ACCEPT: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Document(NamedTuple):
    """The outcome of the request for a document about authorization."""

    place: str
    """Where its URL comes from: `POINTER`, `BY_PATH`, `BY_ROOT` or `OLD_PLACE`; empty if it comes from an issuer."""
    url: str
    outcome: str
    """The response, or why there is none, in words."""
    content: dict[str, Any] | None = None
    """The JSON object in the response; None if there is none."""
    seconds: float | None = None
    """The duration of the response; None if there was none."""


@dataclass
class Observation:
    """The responses of a server to the requests of a hosted client."""

    url: str
    """The URL that the user gave."""
    failure: Diagnosis | None = None
    """The fault that kept further requests from being sent, if it does not depend on the client."""
    remarks: list[Diagnosis] = field(default_factory=list)
    redirect: str = ""
    """The status and the target of a redirect that was not followed."""
    leaves_origin: bool = False
    """Whether that redirect leads to another origin; otherwise it makes a GET of a POST."""
    transport: str = ""
    """`STREAMABLE` or `SSE`; empty if it is not known."""
    reply: HttpReply | None = None
    """The response to `initialize`."""
    refusal: HttpReply | None = None
    """The response that refused `initialize` or `tools/list` because there are no credentials."""
    preflight: HttpReply | None = None
    """The response to the request that a browser sends first, if it was sent."""
    initialize_s: float | None = None
    tools: list[dict[str, Any]] | None = None
    """The tools; None if they could not be listed."""
    documents: list[Document] = field(default_factory=list)
    """The documents about the protected resource, in the order of the requests."""
    issuer: str = ""
    """The first of the authorization servers."""
    server_documents: list[Document] = field(default_factory=list)
    """The documents about the authorization server, in the order of the requests."""

    @property
    def needs_login(self) -> bool:
        """Whether the server refused a request because there are no credentials."""
        return self.refusal is not None

    @property
    def resource(self) -> Document | None:
        """The document about the protected resource that a client uses: the first that is one."""
        return next((document for document in self.documents if document.place != OLD_PLACE and document.content), None)

    @property
    def server_metadata(self) -> Document | None:
        """The document about the authorization server that a client uses."""
        return next((document for document in self.server_documents if document.content), None)


class _Budget:
    """Sends requests until the time for all of them is used up."""

    def __init__(self, limit_s: float, total_s: float) -> None:
        self.limit_s = limit_s
        self._until = time.monotonic() + total_s

    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None, request_id: int | None = None
    ) -> HttpReply:
        """Send a request; raises what `http_request.send` raises."""
        remaining_s = self._until - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError
        return send(method, url, headers, body, limit_s=min(remaining_s, self.limit_s), request_id=request_id)


def observe(client: HostedClient, url: str, origin: str, limit_s: float, total_s: float) -> Observation:
    """Send the requests of a hosted client to a server; returns the responses.

    Args:
        client: the hosted client.
        url: the URL of the server.
        origin: the origin of the page in which the client runs; empty if it does not run in a browser.
        limit_s: the maximum time of each request, in seconds.
        total_s: the maximum time of all requests, in seconds.
    """
    budget = _Budget(limit_s, total_s)
    server = Observation(url)
    page = {"Origin": origin} if origin else {}
    try:
        if origin:
            server.preflight = _preflight(budget, url, origin)
        _initialize(budget, server, client, page)
        if server.needs_login and any(requirement.kind == "metadata" for requirement in client.requirements):
            _discover(budget, server)
    except FAILURES as error:
        server.failure = server.failure or failure_diagnosis(error, limit_s)
    return server


def _initialize(budget: _Budget, server: Observation, client: HostedClient, page: dict[str, str]) -> None:
    """Send `initialize`, and `tools/list` if it succeeds."""
    info = {"name": client.speaks_as or INITIALIZE_PARAMS["clientInfo"]["name"], "version": __version__}
    hello = _request(1, "initialize", {**INITIALIZE_PARAMS, "clientInfo": info})
    url, headers = server.url, {**_ACCEPT, **page}
    began = time.monotonic()
    reply = budget.send("POST", url, headers, hello, 1)
    for _ in range(MAX_REDIRECTS):
        target = next_url(url, "POST", reply.status, reply.value("location"))
        if target is None:
            break
        shown = shown_url(target)
        server.remarks = [Diagnosis(FollowedRedirect, f"{reply.status} to {shown}", f"change its URL to {shown}")]
        url, reply = target, budget.send("POST", target, headers, hello, 1)
    server.reply = reply
    message = reply.message(1)
    if reply.status in REDIRECT_STATUSES:
        location = reply.value("location")
        server.redirect = f"{reply.status} to {shown_url(location) or 'no address'}"
        server.leaves_origin = bool(location) and next_url(url, "GET", reply.status, location) is None
    elif reply.status in _REFUSED:
        server.refusal = reply  # the transport shows only after the login
    elif reply.status == 200 and message is not None and isinstance(message.get("result"), dict):
        server.transport, server.initialize_s = STREAMABLE, time.monotonic() - began
        headers["MCP-Protocol-Version"] = str(message["result"].get("protocolVersion", ""))[:_TEXT]
        if reply.value("mcp-session-id"):
            headers["Mcp-Session-Id"] = reply.value("mcp-session-id")
        _list_tools(budget, server, url, headers)
    elif message is not None or reply.status >= 500 or reply.status == 400:
        server.failure = Diagnosis(RefusedRequest, f"initialize: {_outcome(reply)}{_error_text(message)}")
    elif reply.status >= 400 and _opens_stream(budget, url, page):
        server.transport = SSE
    else:
        server.failure = Diagnosis(NonMcpServer, f"POST {shown_url(url)}: {_outcome(reply)}")


def _opens_stream(budget: _Budget, url: str, page: dict[str, str]) -> bool:
    """Whether the server opens the stream of the older transport."""
    reply = budget.send("GET", url, {"Accept": "text/event-stream", **page})
    return reply.status == 200 and reply.is_stream


def _list_tools(budget: _Budget, server: Observation, url: str, headers: dict[str, str]) -> None:
    notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    budget.send("POST", url, headers, notification)
    tools: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    remaining_bytes = MAX_BODY
    for number in range(2, MAX_PAGES + 2):
        reply = budget.send("POST", url, headers, _request(number, "tools/list", params), number)
        message = reply.message(number) or {}
        result = message.get("result")
        listed = result.get("tools") if isinstance(result, dict) else None
        if reply.status in _REFUSED:
            server.refusal = reply
            return
        if not isinstance(result, dict) or not isinstance(listed, list):
            if _error_code(message) != METHOD_NOT_FOUND:
                server.failure = Diagnosis(RefusedRequest, f"tools/list: {_outcome(reply)}{_error_text(message)}")
                return
            break
        tools += [tool for tool in listed if isinstance(tool, dict)]
        cursor = result.get("nextCursor")
        remaining_bytes -= len(reply.body)
        if not isinstance(cursor, str) or remaining_bytes < 0:
            break
        params = {"cursor": cursor}
    server.tools = tools
    if "Mcp-Session-Id" in headers:
        with suppress(*FAILURES):
            budget.send("DELETE", url, headers)


def _preflight(budget: _Budget, url: str, origin: str) -> HttpReply:
    asked = "authorization, content-type, mcp-protocol-version, mcp-session-id"
    fields = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
    return budget.send("OPTIONS", url, fields)


def _discover(budget: _Budget, server: Observation) -> None:
    """Request the documents about authorization that a client needs before a login."""
    parts = urlsplit(server.url)
    root = urlunsplit((parts.scheme, parts.netloc, RESOURCE_METADATA_PATH, "", ""))
    places = [(POINTER, pointer_of(server.refusal)), (BY_PATH, f"{root}{parts.path.rstrip('/')}"), (BY_ROOT, root)]
    for place, url in places:
        if url and url not in [document.url for document in server.documents]:
            server.documents.append(_document(budget, server, place, url))
    servers = (server.resource.content or {}).get("authorization_servers") if server.resource is not None else None
    if isinstance(servers, list) and servers and isinstance(servers[0], str):
        server.issuer = servers[0]
        for url in server_places(server.issuer):
            server.server_documents.append(_document(budget, server, "", url))
            if server.server_documents[-1].content:
                break
    elif server.resource is None:
        old = _document(
            budget, server, OLD_PLACE, urlunsplit((parts.scheme, parts.netloc, SERVER_METADATA_PATH, "", ""))
        )
        server.documents.append(old)
        server.server_documents.append(old)


def pointer_of(reply: HttpReply | None) -> str:
    """Returns the `resource_metadata` of the first Bearer challenge, or an empty string."""
    challenges = [] if reply is None else parse_challenges(reply.values("www-authenticate"))
    bearer = next((challenge for challenge in challenges if challenge.scheme == "bearer"), None)
    return "" if bearer is None else bearer.parameters.get("resource_metadata", "")


def server_places(issuer: str) -> Sequence[str]:
    """Returns the URLs of the document about an authorization server, in the order in which clients try them."""
    try:
        parts = urlsplit(issuer)
    except ValueError:
        return [issuer]
    path = parts.path.rstrip("/")
    paths = [f"{SERVER_METADATA_PATH}{path}", f"{OPENID_METADATA_PATH}{path}"] + (
        [f"{path}{OPENID_METADATA_PATH}"] if path else []
    )
    return [urlunsplit((parts.scheme, parts.netloc, each, "", "")) for each in paths]


def _document(budget: _Budget, server: Observation, place: str, url: str) -> Document:
    """Request a document; a redirect is followed within its origin."""
    reason = _unreachable_reason(url, server.url)
    if reason:
        return Document(place, url, f"not requested: {reason}")
    requested_url = url
    try:
        reply = budget.send("GET", url, {"Accept": "application/json"})
        for _ in range(MAX_REDIRECTS):
            target = next_url(requested_url, "GET", reply.status, reply.value("location"))
            if target is None:
                break
            requested_url, reply = target, budget.send("GET", target, {"Accept": "application/json"})
    except FAILURES as error:
        return Document(place, url, failure_diagnosis(error, budget.limit_s).evidence)
    content = reply.document if reply.status == 200 else None
    if reply.status in REDIRECT_STATUSES:
        outcome = f"{reply.status} to {shown_url(reply.value('location'))}, which was not followed"
    else:
        outcome = f"{_outcome(reply)}{'' if reply.status != 200 or content is not None else ', not a JSON object'}"
    return Document(place, url, outcome, content, reply.seconds)


def _unreachable_reason(url: str, server_url: str) -> str:
    """Why a hosted client could not use a URL that the server named; empty if it could."""
    try:
        parts, server_parts = urlsplit(url), urlsplit(server_url)
        if (parts.scheme, parts.netloc) == (server_parts.scheme, server_parts.netloc):
            return ""
        if parts.scheme != "https" or not parts.hostname:
            return "the URL does not begin with https://"
        if parts.username is not None or parts.password is not None:
            return "the URL contains credentials"
        is_hidden = _is_inside(parts.hostname) and not _is_inside(server_parts.hostname or "")
    except ValueError:
        return "it is not a URL"
    return "the address is inside a private network" if is_hidden else ""


def _is_inside(host: str) -> bool:
    """Whether a host is this machine, or an address that the internet does not reach."""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:
        return False


def shown_url(url: str) -> str:
    """Returns a URL without the parts that may be secret: credentials, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()[:_TEXT]


def _request(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def _outcome(reply: HttpReply) -> str:
    kind = f", {reply.media_type[:_TEXT]}" if reply.media_type else ""
    return f"status {reply.status}{kind}"


def _error_code(message: dict[str, Any]) -> object:
    error = message.get("error")
    return error.get("code") if isinstance(error, dict) else None


def _error_text(message: dict[str, Any] | None) -> str:
    error = (message or {}).get("error")
    return f": {str(error.get('message', 'no text'))[:_TEXT]}" if isinstance(error, dict) else ""
