"""Creates the spans of calls, with the names and attributes that the OpenTelemetry conventions for MCP define.

The names are those of version 1.41.1 of the semantic conventions, the last one with MCP. The conventions have moved to
open-telemetry/semantic-conventions-genai; this module follows its `model/mcp`, whose manifest named `SCHEMA_URL`, as of
October 2026. Where versions differ, the later one applies: for example, the codes of `CALLER_ERRORS` are not errors on
the server's side. The page docs/exports/otlp.md lists the differences.

A recorder is between the two sides, so each call becomes two spans: a span of kind CLIENT for the side that sent the
request and, as its child, a span of kind SERVER for the side that received it. Without a trace context in the request,
each call is a trace of its own, and the server's requests belong to the trace of the call that led to them.
Ids are hashes of the capture's id and the number of the frame, so exporting twice gives the same ids.
"""

import json
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import orjson

from analysis.conversation.call import Outcome
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
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import FIRST_MODERN_RANK, rank_of
from mcpproxy.exporters.calls import EndedCall, RequestOrigin, origin_of, peers_of
from mcpproxy.exporters.otlp.trace_context import trace_context_of

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
CALLER_ERRORS: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND})
"""Error codes that blame the caller; the span of the server is then not an error."""
MAX_INTEGER: Final = (1 << 63) - 1
"""The largest integer that readers of OTLP can represent, and hence the latest time, in nanoseconds since 1970."""
MAX_ATTRIBUTE_CHARS: Final = 4096
"""The maximum length of an attribute, in characters."""
MAX_PAYLOAD_CHARS: Final = 65_536
"""The maximum length of arguments and results, which are exported only on request."""

AttributeValue: TypeAlias = str | int | float
Attributes: TypeAlias = dict[str, AttributeValue]

_URI_METHODS: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


class Service(NamedTuple):
    """One side of a conversation, as a resource."""

    name: str
    version: str
    capture: str
    """The id of the capture; empty for totals over all captures."""

    @property
    def attributes(self) -> Attributes:
        """The attributes of the resource."""
        version: Attributes = {"service.version": self.version} if self.version else {}
        capture: Attributes = {"mcpproxy.capture": self.capture} if self.capture else {}
        return {"service.name": self.name, **version, **capture}


class CallSpan(NamedTuple):
    """A call as one side saw it."""

    trace_id: bytes
    trace_state: str
    """The `tracestate` of the trace; empty if there is none."""
    span_id: bytes
    parent_id: bytes | None
    name: str
    is_server: bool
    """Whether the kind of the span is SERVER; otherwise, it is CLIENT."""
    service: Service
    start_ns: int
    """In nanoseconds since 1970, or since the capture opened if its wall time is unknown."""
    end_ns: int
    attributes: Attributes
    error: str | None
    """The description of the status ERROR, which may be empty; None if the status is not ERROR."""
    histogram_attributes: Attributes | None
    """The attributes of its duration in the histograms; None if its end was not observed."""


class CallSpanBuilder:
    """Creates the spans of one capture."""

    def __init__(self, fold: Fold, capture: str, *, payloads: bool = False) -> None:
        """Create the conventions for one capture.

        Args:
            fold: the state of the conversation to which the calls belong.
            capture: the id of the capture.
            payloads: whether arguments, results and the variables of prompts become attributes.
        """
        self._fold, self._capture, self._payloads = fold, capture, payloads
        self._endpoint: Attributes | None = None

    def unix_ns(self, t_ns: int) -> int:
        """Convert a stamp to nanoseconds since 1970; limit the result, because a capture may claim any time."""
        return max(0, min((self._fold.wall_ns or 0) + t_ns, MAX_INTEGER))

    def spans(self, ended_call: EndedCall) -> tuple[CallSpan, CallSpan]:
        """Return the span of the side that sent the request, and the span of the side that received it."""
        client, server = (self.service(peer) for peer in peers_of(ended_call, self._fold))
        sender_service, receiver_service = (client, server) if ended_call.sender == "client" else (server, client)
        trace_id, parent_id, trace_state = self._trace_context(ended_call)
        origin = origin_of(ended_call.call.request)
        shared_attributes, span_attributes = self._shared_attributes(ended_call), self._span_attributes(ended_call)
        span_ids = self._id(origin, "client"), self._id(origin, "server")
        spans = []
        for is_server in (False, True):
            attributes, error = self._status(ended_call, is_server=is_server)
            measured_attributes = {
                **shared_attributes,
                **attributes,
                **({} if is_server else self._server_address(ended_call)),
            }
            address = self._client_address(ended_call) if is_server else {}
            spans.append(
                CallSpan(
                    trace_id,
                    trace_state,
                    span_ids[is_server],
                    span_ids[0] if is_server else parent_id,
                    _span_name(ended_call.call.request),
                    is_server,
                    receiver_service if is_server else sender_service,
                    self.unix_ns(ended_call.accepted_ns if is_server else ended_call.start_ns),
                    self.unix_ns(ended_call.end_ns),
                    {**measured_attributes, **span_attributes, **address},
                    error,
                    measured_attributes if ended_call.has_ended else None,
                )
            )
        return spans[0], spans[1]

    def service(self, peer: Peer) -> Service:
        """Return the resource that represents one side."""
        return Service(attribute_text(peer.name, 256) or "unknown", attribute_text(peer.version, 256), self._capture)

    def session_attributes(self, session: Session, *, is_server: bool) -> Attributes:
        """Return the attributes of a session's duration."""
        attributes = _revision_attributes(session.revision)
        if session.is_http:
            attributes["network.protocol.name"] = "http"
        return attributes if is_server else {**attributes, **self._upstream_address()}

    # ---- ids

    def _trace_context(self, ended_call: EndedCall) -> tuple[bytes, bytes | None, str]:
        """Return the id of a call's trace, the id of the span that caused it, if any, and the state of the trace."""
        context = trace_context_of(ended_call.call)
        if context is not None:
            return context
        outer = ended_call.call.outer
        if outer is None:
            return self._id(origin_of(ended_call.call.request), "trace"), None, ""
        # The parent is the server's span of the outer request, because the server sends this request.
        outer_origin, outer_context = origin_of(outer.request), trace_context_of(outer)
        parent_id = self._id(outer_origin, "server")
        if outer_context is None:
            return self._id(outer_origin, "trace"), parent_id, ""
        return outer_context.trace_id, parent_id, outer_context.state

    def _id(self, origin: RequestOrigin, purpose: str) -> bytes:
        hashed_name = f"{self._capture}/{origin.seq}/{origin.item}/{purpose}".encode()
        return blake2b(hashed_name, digest_size=16 if purpose == "trace" else 8).digest()

    # ---- attributes

    def _shared_attributes(self, ended_call: EndedCall) -> Attributes:
        """Return the attributes that spans and histograms share, except for the outcome and the addresses."""
        request = ended_call.call.request
        attributes: Attributes = {
            "mcp.method.name": attribute_text(request.method, 256),
            **_revision_attributes(ended_call.call.revision),
        }
        name = _string(request.params, "name")
        if request.method == "tools/call":
            attributes["gen_ai.operation.name"] = "execute_tool"
            if name:
                attributes["gen_ai.tool.name"] = name
        elif request.method == "prompts/get" and name:
            attributes["gen_ai.prompt.name"] = name
        attributes["network.transport"] = "tcp" if ended_call.session.is_http else "pipe"
        if ended_call.session.is_http:
            attributes["network.protocol.name"] = "http"
        # This attribute is recommended if the version is not 2.0.
        version = request.body.get("jsonrpc")
        if isinstance(version, str) and version != "2.0":
            attributes["jsonrpc.protocol.version"] = attribute_text(version, 256)
        return attributes

    def _span_attributes(self, ended_call: EndedCall) -> Attributes:
        """Return the attributes that only spans have: in a histogram, they would make a series of each call."""
        request, response = ended_call.call.request, ended_call.call.response
        attributes: Attributes = {}
        if request.id.is_answerable:
            attributes["jsonrpc.request.id"] = attribute_text(request.id.value, 256)
        if request.method in _URI_METHODS and (uri := _string(request.params, "uri")):
            attributes["mcp.resource.uri"] = uri
        # From 2026-07-28 on there are no sessions, and the attribute must not be set.
        rank = rank_of(ended_call.call.revision)
        if (
            ended_call.call.http is not None
            and ended_call.call.http.session_id
            and (rank is None or rank < FIRST_MODERN_RANK)
        ):
            attributes["mcp.session.id"] = attribute_text(ended_call.call.http.session_id, 256)
        ids = ended_call.call.client_ids
        if ids.session is not None:
            attributes["gen_ai.conversation.id"] = attribute_text(ids.session, 256)
        if ids.turn is not None:
            attributes["mcpproxy.turn.id"] = attribute_text(ids.turn, 256)
        attributes["mcpproxy.session"] = ended_call.session.number
        attributes["mcpproxy.frame"] = min(request.seq, MAX_INTEGER)
        if response is not None:
            attributes["mcpproxy.response.frame"] = min(response.seq, MAX_INTEGER)
        if ended_call.call.late_ns is not None:
            attributes["mcpproxy.response.late_ms"] = ended_call.call.late_ns / 1e6
        if self._payloads:
            attributes |= _payload_attributes(ended_call)
        return attributes

    def _status(self, ended_call: EndedCall, *, is_server: bool) -> tuple[Attributes, str | None]:
        """Return the attributes of the outcome, and the description of the error, or None if it is not an error.

        For the sender of a cancelled call, the outcome is the cancellation, even if there is a late response.
        """
        is_cancelled = ended_call.call.cancelled_ns is not None and ended_call.call.response is not None
        if is_cancelled and ended_call.call.request.method not in ENDLESS_METHODS:
            return {"error.type": "cancelled" if ended_call.call.abandoned_ns is None else "timeout"}, ""
        if ended_call.call.outcome is Outcome.ERROR and ended_call.call.response is not None:
            code, message = (
                code_of(ended_call.call.response),
                attribute_text(text_of_error(ended_call.call.response) or ""),
            )
            if code is None:
                return {"error.type": "_OTHER"}, message
            attributes: Attributes = {"rpc.response.status_code": str(code)}
            if is_server and code in CALLER_ERRORS:
                return attributes, None
            return {**attributes, "error.type": str(code)}, message
        error_type = _ERROR_TYPES.get(ended_call.call.outcome)
        if error_type is None or (
            ended_call.call.outcome is not Outcome.TOOL_ERROR and ended_call.call.request.method in ENDLESS_METHODS
        ):
            return {}, None
        http = ended_call.call.http
        if ended_call.call.abandoned_ns is not None and ended_call.call.outcome is not Outcome.FAILED:
            error_type = "timeout"
        elif ended_call.call.outcome is Outcome.FAILED and http is not None and http.status is not None:
            error_type = str(http.status) if http.status >= 300 else error_type
        return {"error.type": error_type}, ""

    def _server_address(self, ended_call: EndedCall) -> Attributes:
        return self._upstream_address() if ended_call.sender == "client" and ended_call.session.is_http else {}

    def _upstream_address(self) -> Attributes:
        """Return the address and port of the server itself, not those of the recorder."""
        if self._endpoint is None:
            self._endpoint = _address_attributes("server", self._fold.exchanges.upstream)
        return self._endpoint

    def _client_address(self, ended_call: EndedCall) -> Attributes:
        peer = ended_call.call.http.peer if ended_call.call.http is not None and ended_call.sender == "client" else ""
        return _address_attributes("client", f"http://{peer}") if peer else {}


_ERROR_TYPES: Final = {
    Outcome.TOOL_ERROR: "tool_error",
    Outcome.CANCELLED: "cancelled",
    Outcome.FAILED: "http_failed",
    Outcome.UNANSWERED: "no_response",
}


def attribute_text(value: str, max_chars: int = MAX_ATTRIBUTE_CHARS) -> str:
    """Return untrusted text as an attribute: valid Unicode, and shortened to `max_chars`."""
    shortened = value if len(value) <= max_chars else value[: max_chars - 1] + "…"
    return shortened.encode("utf-8", "replace").decode()


def _span_name(request: Request) -> str:
    """Return the name of a span: the method and the target, but not a resource's URI, which would vary too much."""
    has_target = request.method in ("tools/call", "prompts/get")
    target = _string(request.params, "name") if has_target else ""
    return f"{attribute_text(request.method, 256)} {attribute_text(target, 256)}".rstrip()


def _revision_attributes(revision: str | None) -> Attributes:
    return {} if revision is None else {"mcp.protocol.version": attribute_text(revision, 64)}


def _address_attributes(side: str, url: str) -> Attributes:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return {}
    port = port or {"http": 80, "https": 443}.get(parts.scheme)
    if not host:
        return {}
    return {f"{side}.address": attribute_text(host, 256), **({} if port is None else {f"{side}.port": port})}


def _payload_attributes(ended_call: EndedCall) -> Attributes:
    """Return attributes with the arguments and the result as JSON, or with the variables of a prompt."""
    params, response = ended_call.call.request.params, ended_call.call.response
    arguments = params.get("arguments") if isinstance(params, dict) else None
    attributes: Attributes = {}
    if ended_call.call.request.method == "tools/call":
        if arguments is not None:
            attributes["gen_ai.tool.call.arguments"] = _json(arguments)
        if response is not None and not response.is_error:
            attributes["gen_ai.tool.call.result"] = _json(response.result)
    elif ended_call.call.request.method == "prompts/get" and isinstance(arguments, dict):
        for name, value in list(arguments.items())[:64]:
            variable = value if isinstance(value, str) else _json(value)
            attributes[f"gen_ai.prompt.variable.{attribute_text(name, 256)}"] = attribute_text(
                variable, MAX_PAYLOAD_CHARS
            )
    return attributes


def _json(value: Any) -> str:
    try:
        json_text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # a lone surrogate, or an integer above 64 bits
        json_text = json.dumps(value)
    return attribute_text(json_text, MAX_PAYLOAD_CHARS)


def _string(value: object, name: str) -> str:
    member = value.get(name) if isinstance(value, dict) else None
    return attribute_text(member) if isinstance(member, str) else ""
