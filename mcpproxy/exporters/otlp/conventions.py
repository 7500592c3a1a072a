"""Spans of calls, with names and attributes as the OpenTelemetry conventions for MCP define them.

The conventions are in development and have no release yet. This module follows the text of `model/mcp` in
open-telemetry/semantic-conventions-genai whose manifest names `SCHEMA_URL`, as of October 2026. Where that
text has changed over time, the later version applies: on the server's side, the codes of `NO_ERRORS` are not errors.

A recorder is between the two sides, so each call becomes two spans: one of kind CLIENT for the side that sent the
request, and as its child one of kind SERVER for the side that received it. Without a trace context in the request, each
call is a trace of its own, and the server's requests belong to the trace of the call that led to them.
Ids are hashes of the capture's id and the number of the frame: exporting twice gives the same ids.
"""

import json
import re
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import orjson

from analysis.conversation.call import ENDLESS, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request
from analysis.conversation.session import Peer, Session
from analysis.facts import code_of, text_of_error
from analysis.protocol.error_codes import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
)
from analysis.protocol.revisions import MODERN, rank_of
from mcpproxy.exporters.calls import EndedCall, Origin, names, origin_of

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
NO_ERRORS: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND})
"""Codes that blame the caller, so that the span of the server is not an error."""
LATEST: Final = (1 << 63) - 1
"""The largest time, in nanoseconds since 1970, and the largest of all other numbers, that readers of OTLP can hold."""
MAX_ATTRIBUTE_CHARS: Final = 4096
"""The most characters of an attribute."""
MAX_PAYLOAD_CHARS: Final = 65_536
"""The same for arguments and results, which are only exported on request."""

Value: TypeAlias = str | int | float
Attributes: TypeAlias = dict[str, Value]

# W3C Trace Context, 3.2: a later version may have more fields, version ff is invalid, and so are ids of zeros only.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_OF_URI: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


class Service(NamedTuple):
    """One side of a conversation, as a resource."""

    name: str
    version: str
    capture: str
    """The id of the capture; empty for sums over captures."""

    @property
    def attributes(self) -> Attributes:
        """The attributes of the resource."""
        version: Attributes = {"service.version": self.version} if self.version else {}
        capture: Attributes = {"mcpproxy.capture": self.capture} if self.capture else {}
        return {"service.name": self.name, **version, **capture}


class CallSpan(NamedTuple):
    """One span."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    is_server: bool
    """Kind SERVER, else CLIENT."""
    service: Service
    start_ns: int
    """Nanoseconds since 1970, as far as the capture knows."""
    end_ns: int
    attributes: Attributes
    error: str | None
    """The description of the status, which is then ERROR; empty if there is none."""
    measured: Attributes | None
    """The attributes of its duration in the histograms; None if its end was not seen."""


class Conventions:
    """Makes the spans of one capture."""

    def __init__(self, fold: Fold, capture: str, *, payloads: bool = False) -> None:
        """Create the conventions for one capture.

        Args:
            fold: the state of the capture's conversation, from which the calls come.
            capture: the capture's id.
            payloads: whether arguments, results and the variables of prompts become attributes.
        """
        self._fold, self._capture, self._payloads = fold, capture, payloads
        self._endpoint: Attributes | None = None

    def at(self, t_ns: int) -> int:
        """The time of a stamp in nanoseconds since 1970; a capture may claim any."""
        return max(0, min((self._fold.wall_ns or 0) + t_ns, LATEST))

    def spans(self, ended: EndedCall) -> tuple[CallSpan, CallSpan]:
        """The span of the side that sent the request, and of the side that received it."""
        client, server = (self.service(peer) for peer in names(ended, self._fold))
        asking, serving = (client, server) if ended.sender == "client" else (server, client)
        trace_id, parent_id = self._context(ended)
        origin = origin_of(ended.call.request)
        common, own = self._measured(ended), self._own(ended)
        ids = self._id(origin, "client"), self._id(origin, "server")
        spans = []
        for is_server in (False, True):
            attributes, error = self._status(ended, is_server=is_server)
            measured = {**common, **attributes, **({} if is_server else self._server_address(ended))}
            address = self._client_address(ended) if is_server else {}
            spans.append(
                CallSpan(
                    trace_id,
                    ids[is_server],
                    ids[0] if is_server else parent_id,
                    _name(ended.call.request),
                    is_server,
                    serving if is_server else asking,
                    self.at(ended.handed_ns if is_server else ended.begun_ns),
                    self.at(ended.ended_ns),
                    {**measured, **own, **address},
                    error,
                    measured if ended.has_ended else None,
                )
            )
        return spans[0], spans[1]

    def service(self, peer: Peer) -> Service:
        """The resource that stands for one side."""
        return Service(text(peer.name, 256) or "unknown", text(peer.version, 256), self._capture)

    def session(self, session: Session, *, is_server: bool) -> Attributes:
        """The attributes of a session's duration."""
        attributes = _revision(session.revision)
        if session.is_http:
            attributes["network.protocol.name"] = "http"
        return attributes if is_server else {**attributes, **self._upstream()}

    # ---- ids

    def _context(self, ended: EndedCall) -> tuple[bytes, bytes | None]:
        """The trace of a call, and the span that caused it."""
        given = parsed_traceparent(origin_of(ended.call.request).traceparent)
        if given is not None:
            return given
        outer = ended.outer
        if outer is None:
            return self._id(origin_of(ended.call.request), "trace"), None
        # The span of the side that received the outer request, which sends this one.
        of_outer = parsed_traceparent(outer.traceparent)
        return self._id(outer, "trace") if of_outer is None else of_outer[0], self._id(outer, "server")

    def _id(self, origin: Origin, what: str) -> bytes:
        named = f"{self._capture}/{origin.seq}/{origin.item}/{what}".encode()
        return blake2b(named, digest_size=16 if what == "trace" else 8).digest()

    # ---- attributes

    def _measured(self, ended: EndedCall) -> Attributes:
        """The attributes that spans and histograms share, except for the outcome and addresses."""
        request = ended.call.request
        attributes: Attributes = {"mcp.method.name": text(request.method, 256), **_revision(ended.call.revision)}
        name = _string(request.params, "name")
        if request.method == "tools/call":
            attributes["gen_ai.operation.name"] = "execute_tool"
            if name:
                attributes["gen_ai.tool.name"] = name
        elif request.method == "prompts/get" and name:
            attributes["gen_ai.prompt.name"] = name
        attributes["network.transport"] = "tcp" if ended.session.is_http else "pipe"
        if ended.session.is_http:
            attributes["network.protocol.name"] = "http"
        # Recommended where it is not 2.0.
        version = request.body.get("jsonrpc")
        if isinstance(version, str) and version != "2.0":
            attributes["jsonrpc.protocol.version"] = text(version, 256)
        return attributes

    def _own(self, ended: EndedCall) -> Attributes:
        """The attributes that only spans have, because they would split a histogram into one for each call."""
        request, response = ended.call.request, ended.call.response
        attributes: Attributes = {}
        if request.id.pairs:
            attributes["jsonrpc.request.id"] = text(request.id.value, 256)
        if request.method in _OF_URI and (uri := _string(request.params, "uri")):
            attributes["mcp.resource.uri"] = uri
        # From 2026-07-28 on there are no sessions, and the attribute must not be set.
        rank = rank_of(ended.call.revision)
        if ended.call.http is not None and ended.call.http.session_id and (rank is None or rank < MODERN):
            attributes["mcp.session.id"] = text(ended.call.http.session_id, 256)
        attributes["mcpproxy.session"] = ended.session.number
        attributes["mcpproxy.frame"] = min(request.seq, LATEST)
        if response is not None:
            attributes["mcpproxy.response.frame"] = min(response.seq, LATEST)
        if ended.call.late_ns is not None:
            attributes["mcpproxy.response.late_ms"] = ended.call.late_ns / 1e6
        if self._payloads:
            attributes |= _payloads(ended)
        return attributes

    def _status(self, ended: EndedCall, *, is_server: bool) -> tuple[Attributes, str | None]:
        """The attributes of the outcome, and the description of an error, if it is one.

        To the sender of a cancelled call, its outcome is the cancellation, regardless of the late response.
        """
        is_cancelled = ended.call.cancelled_ns is not None and ended.call.response is not None
        if is_cancelled and ended.call.request.method not in ENDLESS:
            return {"error.type": "cancelled" if ended.call.abandoned_ns is None else "timeout"}, ""
        if ended.call.outcome is Outcome.ERROR and ended.call.response is not None:
            code, message = code_of(ended.call.response), text(text_of_error(ended.call.response) or "")
            if code is None:
                return {"error.type": "_OTHER"}, message
            attributes: Attributes = {"rpc.response.status_code": str(code)}
            if is_server and code in NO_ERRORS:
                return attributes, None
            return {**attributes, "error.type": str(code)}, message
        kind = _ERRORS.get(ended.call.outcome)
        if kind is None or (ended.call.outcome is not Outcome.TOOL_ERROR and ended.call.request.method in ENDLESS):
            return {}, None
        http = ended.call.http
        if ended.call.abandoned_ns is not None and ended.call.outcome is not Outcome.FAILED:
            kind = "timeout"
        elif ended.call.outcome is Outcome.FAILED and http is not None and http.status is not None:
            kind = str(http.status) if http.status >= 300 else kind
        return {"error.type": kind}, ""

    def _server_address(self, ended: EndedCall) -> Attributes:
        return self._upstream() if ended.sender == "client" and ended.session.is_http else {}

    def _upstream(self) -> Attributes:
        """Address and port of the server itself, not of the recorder in front of it."""
        if self._endpoint is None:
            self._endpoint = _address("server", self._fold.exchanges.upstream)
        return self._endpoint

    def _client_address(self, ended: EndedCall) -> Attributes:
        peer = ended.call.http.peer if ended.call.http is not None and ended.sender == "client" else ""
        return _address("client", f"http://{peer}") if peer else {}


_ERRORS: Final = {
    Outcome.TOOL_ERROR: "tool_error",
    Outcome.CANCELLED: "cancelled",
    Outcome.FAILED: "http_failed",
    Outcome.UNANSWERED: "no_response",
}


def parsed_traceparent(value: str | None) -> tuple[bytes, bytes] | None:
    """The ids of a trace and of the span that caused a request, or None if the value is not valid."""
    match = _TRACEPARENT.fullmatch(value) if value is not None else None
    if match is None or (value is not None and value.startswith("00-") and match[4]):
        return None
    return bytes.fromhex(match[1]), bytes.fromhex(match[2])


def text(value: str, longest: int = MAX_ATTRIBUTE_CHARS) -> str:
    """Text of a peer as an attribute: valid Unicode, and not too long."""
    cut = value if len(value) <= longest else value[: longest - 1] + "…"
    return cut.encode("utf-8", "replace").decode()


def _name(request: Request) -> str:
    """Method and target; not the URI of a resource, because too many spans would have names of their own."""
    has_target = request.method in ("tools/call", "prompts/get")
    target = _string(request.params, "name") if has_target else ""
    return f"{text(request.method, 256)} {text(target, 256)}".rstrip()


def _revision(revision: str | None) -> Attributes:
    return {} if revision is None else {"mcp.protocol.version": text(revision, 64)}


def _address(side: str, url: str) -> Attributes:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return {}
    port = port or {"http": 80, "https": 443}.get(parts.scheme)
    if not host:
        return {}
    return {f"{side}.address": text(host, 256), **({} if port is None else {f"{side}.port": port})}


def _payloads(ended: EndedCall) -> Attributes:
    """Arguments and results as JSON, and the variables of a prompt."""
    params, response = ended.call.request.params, ended.call.response
    given = params.get("arguments") if isinstance(params, dict) else None
    attributes: Attributes = {}
    if ended.call.request.method == "tools/call":
        if given is not None:
            attributes["gen_ai.tool.call.arguments"] = _json(given)
        if response is not None and not response.is_error:
            attributes["gen_ai.tool.call.result"] = _json(response.result)
    elif ended.call.request.method == "prompts/get" and isinstance(given, dict):
        for name, value in list(given.items())[:64]:
            shown = value if isinstance(value, str) else _json(value)
            attributes[f"gen_ai.prompt.variable.{text(name, 256)}"] = text(shown, MAX_PAYLOAD_CHARS)
    return attributes


def _json(value: Any) -> str:
    try:
        written = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # a lone surrogate, or an integer above 64 bits
        written = json.dumps(value)
    return text(written, MAX_PAYLOAD_CHARS)


def _string(value: object, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return text(found) if isinstance(found, str) else ""
