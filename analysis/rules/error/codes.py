"""Error codes: what each means, and where it must not be used."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Notification, Request, Response, Side, other_side
from analysis.conversation.session import CLIENT_CAPABILITIES, PROTOCOL_VERSION, Session
from analysis.facts import code_of, text_of_error
from analysis.protocol.declared_capabilities import has
from analysis.protocol.error_codes import (
    ERROR_CODES,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    JSONRPC_RANGE,
    LEGACY_RANGE,
    MCP_RANGE,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    MODERN_CODES,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    RETIRED_CODES,
    SERVER_RANGE,
    UNSUPPORTED_VERSION,
)
from analysis.protocol.extensions import KNOWN_METHODS, error_code_of, extension_of_method, is_foreign
from analysis.protocol.methods import METHODS
from analysis.protocol.revisions import FIRST_MODERN_RANK, FIRST_MODERN_REVISION, MODERN_ERA
from analysis.rules.base import ERROR, NOTE, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd import MessageOddity
from analysis.rules.support.message_text import is_not_json
from captures.record import Record

if TYPE_CHECKING:
    from analysis.shapes.shape import Problem


class AnError(Rule):
    """A response is an error.

    **Why it matters.** An error is not a defect in itself, but it is the first thing to look at if a call did not do
    what it should.

    **On the wire.** `< {"id":3,"error":{"code":-32601,"message":"Method not found"}}`

    **Instead.** The error itself is not wrong; its code says which side should change something.
    """

    id = "error/seen"
    level = NOTE
    source = "JSON-RPC 2.0 §5.1"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code = code_of(context.message)
        if code is not None:
            yield self.finding(
                context,
                f"an error: {code_text(code)}, {_code_meaning(code, context)}",
                pointer="/error",
                related=_request_seqs(context),
            )


class UnknownMethodCode(Rule):
    """A request for a method that the receiver cannot have is refused with a code other than -32601.

    **Why it matters.** -32601 tells the caller to do without the method; any other code looks like a failure that a
    retry may fix.

    **On the wire.** `> {"id":2,"method":"tools/lst"}` `< {"id":2,"error":{"code":-32600,…}}` is fine, as the server may
    have checked only the envelope; `"code":-32000` is not

    **Instead.** Answer unknown methods with -32601. A method outside MCP's own groups, such as `example/reload`, or of
    a capability that the server did not declare, may exist and fail with any code. The exception is the code 0, which
    servers send if they set no code.
    """

    id = "error/unknown-method-code"
    yields_to_extensions = True
    level = WARNING
    source = "JSON-RPC 2.0 §5.1; 2026-07-28 basic/transports/streamable-http"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code, request = code_of(context.message), context.request
        if code is None or request is None or code == METHOD_NOT_FOUND or _is_before_dispatch(context, request, code):
            return
        reason = _why_impossible(request, context.rank) or (_why_unserved(context, request) if code == 0 else None)
        if reason is None:
            return
        is_modern = context.rank is not None and context.rank >= FIRST_MODERN_RANK and request.sender == "client"
        is_grave = is_modern and context.session.server_is_modern and reason != _WRONG_SIDE
        text = (
            f"{_short_method(request.method)} {reason}, but is refused with {code_text(code)} instead of "
            f"{METHOD_NOT_FOUND}"
        )
        level = ERROR if is_grave else WARNING
        yield self.finding(context, text, pointer="/error/code", related=(request.seq,), level=level)


class ParseErrorForValidJson(Rule):
    """A parse error answers valid JSON.

    **Why it matters.** The code says that the bytes were not JSON, so developers look for the fault in the transport,
    although it is elsewhere.

    **On the wire.** `> {"id":4,"method":"tools/call","params":{…}}` `< {"id":4,"error":{"code":-32700,…}}`

    **Instead.** A receiver that can name the id has parsed the message: send -32600 if the envelope is wrong, and
    -32602 if the params are.
    """

    id = "error/parse-error-for-valid-json"
    oddities = MessageOddity.MALFORMED | MessageOddity.SPREAD
    level = WARNING
    source = "JSON-RPC 2.0 §5.1"

    def on_message(self, context: MessageContext) -> Iterator[Finding]:
        reading: _ParseErrors = self.state_for(context.session, _ParseErrors)
        yield from self._judge_errors(reading, context.message.sender, context.message.seq)
        if not any(reading.doubtful_errors.values()):
            self.set_watching(context.session, False)

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        if not _is_plain_json(context):
            self.state_for(context.session, _ParseErrors).broken_seqs.setdefault(
                context.message.sender, context.message.seq
            )
        return iter(())

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        return self.on_anomaly(context)

    def on_record(self, record: Record, session: Session) -> Iterator[Finding]:
        if record.rec == "gap":
            reading: _ParseErrors = self.state_for(session, _ParseErrors)
            reading.broken_seqs = {"client": -1, "server": -1}
        return iter(())

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        response = context.message
        if code_of(context.message) != PARSE_ERROR or not isinstance(response, Response):
            return
        if response.id is not None and response.id.is_answerable:
            request = context.request
            if request is not None and all(_is_readable(frame.verdict.problem) for frame in request.frames):
                text = "a parse error has the id of a request, so the request must have been parsed"
                yield self.finding(context, text, pointer="/error/code", related=(request.seq,))
        elif context.http is not None:
            # A body that is not JSON leaves no message in the capture, so `requests` is empty then.
            requests = context.http.client_messages if response.sender == "server" else ()
            if requests and all(_is_plain_json(sent_message) for sent_message in requests):
                yield self._groundless_finding(context)
        elif context.session.observed_start:
            # The other side may have begun a frame that is not JSON; its next message shows whether it has.
            reading: _ParseErrors = self.state_for(context.session, _ParseErrors)
            doubtful_errors = reading.doubtful_errors[other_side(response.sender)]
            if len(doubtful_errors) < _MAX_DOUBTFUL_ERRORS:
                doubtful_errors.append(context)
                self.set_watching(context.session, True)

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:  # noqa: ARG002 - it does not matter how the capture ended
        reading: _ParseErrors | None = session.memory.get(self.id)
        if reading is not None:
            yield from self._judge_errors(reading, "client", None)
            yield from self._judge_errors(reading, "server", None)

    def _judge_errors(self, reading: "_ParseErrors", side: Side, until: int | None) -> Iterator[Finding]:
        """Judge the doubtful errors that answer a side, all or those before message `until`; yields findings."""
        doubtful_errors, broken_seq = reading.doubtful_errors[side], reading.broken_seqs.get(side)
        due_errors = [error for error in doubtful_errors if until is None or error.message.seq < until]
        reading.doubtful_errors[side] = doubtful_errors[len(due_errors) :]
        for error in due_errors:
            if broken_seq is None or broken_seq > error.message.seq:
                yield self._groundless_finding(error)

    def _groundless_finding(self, context: MessageContext) -> Finding:
        return self.finding(
            context, "a parse error, although everything that the other side sent is JSON", pointer="/error/code"
        )


class _ParseErrors:
    """What is known so far about whether each side sends JSON that the other can parse."""

    def __init__(self) -> None:
        self.broken_seqs: dict[Side, int] = {}
        """The first message of each side that some parser may not accept as JSON."""
        self.doubtful_errors: dict[Side, list[MessageContext]] = {"client": [], "server": []}
        """For each side, parse errors without an id that answer its messages and are not judged yet."""


class ReservedCode(Rule):
    """An error has a code that JSON-RPC reserves.

    **Why it matters.** JSON-RPC may define codes from -32768 to -32100 at any time, and tools already show them as
    protocol failures.

    **On the wire.** `"error":{"code":-32500,"message":"Out of stock"}`

    **Instead.** Use a positive number, or one below -32768, for your own errors.
    """

    id = "error/reserved-code"
    yields_to_extensions = True
    level = WARNING
    source = "JSON-RPC 2.0 §5.1"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code = code_of(context.message)
        if code in JSONRPC_RANGE and code not in ERROR_CODES and error_code_of(code, context.method) is None:
            yield self.finding(
                context, f"the code {code} is reserved by JSON-RPC and not defined", pointer="/error/code"
            )


class UndefinedMcpCode(Rule):
    """An error has a code in MCP's own range that MCP does not define.

    **Why it matters.** -32020 to -32099 belong to the specification since 2026-07-28; a later revision may give the
    number another meaning.

    **On the wire.** `"error":{"code":-32050,"message":"Rate limited"}`

    **Instead.** Only -32020, -32021 and -32022 are defined; use a number outside the reserved ranges.
    """

    id = "error/undefined-mcp-code"
    yields_to_extensions = True
    versions = MODERN_ERA
    source = "2026-07-28 basic/index"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code = code_of(context.message)
        if code in MCP_RANGE and code not in MODERN_CODES and not is_probe(context):
            if error_code_of(code, context.method) is not None:
                return
            yield self.finding(context, f"the code {code} is in MCP's range but not defined", pointer="/error/code")


class RetiredCode(Rule):
    """A response in the modern era uses a code that only the handshake era had.

    **Why it matters.** -32002 and -32042 no longer mean anything; a client of the modern era does not handle them.

    **On the wire.** `> {"id":2,"method":"resources/read",…}` `< {"id":2,"error":{"code":-32002,…}}` under 2026-07-28

    **Instead.** Send -32602 for a resource that does not exist, and an `input_required` result if the user should visit
    a URL.
    """

    id = "error/retired-code"
    yields_to_extensions = True
    versions = MODERN_ERA
    replaces = ("error/undefined-mcp-code",)
    source = "2026-07-28 basic/index"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code = code_of(context.message)
        if code in RETIRED_CODES and not is_probe(context) and error_code_of(code, context.method) is None:
            yield self.finding(
                context, f"the code {code} was withdrawn in {FIRST_MODERN_REVISION}", pointer="/error/code"
            )


class LegacyRange(Rule):
    """A response in the modern era uses a code from -32000 to -32019.

    **Why it matters.** Each implementation gives these numbers its own meanings, which other implementations do not
    know.

    **On the wire.** `"error":{"code":-32001,"message":"Timed out"}`

    **Instead.** Use a number outside the reserved ranges for your own errors.
    """

    id = "error/legacy-range"
    level = NOTE
    versions = MODERN_ERA
    source = "2026-07-28 basic/index"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code = code_of(context.message)
        if code in LEGACY_RANGE and code not in RETIRED_CODES and not is_probe(context):
            if error_code_of(code, context.method) is not None:
                return
            yield self.finding(context, f"the code {code} has no well-known meaning", pointer="/error/code")


class MisusedMcpCode(Rule):
    """A code that MCP defines is used for something else.

    **Why it matters.** Clients act on these codes: they correct headers, add a capability or choose another revision,
    and send the request again. If that was not the problem, they retry without success, perhaps forever.

    **On the wire.** -32020 on stdio, which has no headers; -32021 for a capability that the client did declare; -32022
    in a session that agreed on a revision with `initialize`

    **Instead.** Send -32602, -32603, or a code of your own.
    """

    id = "error/misused-mcp-code"
    needs_session = True
    who = "server"
    source = "2026-07-28 basic/index"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        if context.message.sender != "server":
            return
        code, text = code_of(context.message), ""
        if code == HEADER_MISMATCH and not context.session.is_http:
            text = f"{HEADER_MISMATCH} is about headers, and this transport has none"
        elif code == MISSING_CAPABILITY and context.request is not None:
            data = data_of(context)
            required = data.get("requiredCapabilities") if isinstance(data, dict) else None
            if isinstance(required, dict) and required and _includes_all(_declared_capabilities(context), required):
                text = f"{MISSING_CAPABILITY} reports capabilities as missing that the client declared"
        elif code == UNSUPPORTED_VERSION and context.era == "handshake" and context.request is not None:
            late_text = f"{UNSUPPORTED_VERSION} answers a request whose revision was agreed on in a handshake"
            text = "" if context.request.method == "initialize" else late_text
        if text:
            yield self.finding(context, text, pointer="/error/code", related=_request_seqs(context))


class InvalidParamsCode(Rule):
    """Invalid params are refused with an internal error.

    **Why it matters.** The code blames the receiver, so people look for the fault there, and the caller sends the same
    params again.

    **On the wire.** `> {"id":2,"method":"logging/setLevel","params":{"level":"verbose"}}`
    `< {"id":2,"error":{"code":-32603,…}}`

    **Instead.** Answer with -32602, and say which member is wrong.
    """

    id = "error/invalid-params-code"
    level = WARNING
    replaces = ("error/internal",)
    source = "JSON-RPC 2.0 §5.1; 2024-11-05 server/utilities/logging"

    def on_problems(self, context: MessageContext, problems: "list[Problem]") -> Iterable[Finding]:
        if isinstance(context.message, Request) and any(problem.kind == "shape" for problem in problems):
            invalid_requests: dict[tuple[int, int | None], None] = self.state_for(context.session, dict)
            invalid_requests[context.message.seq, context.message.index] = None
            if len(invalid_requests) > _MAX_INVALID_REQUESTS:
                del invalid_requests[next(iter(invalid_requests))]
        return ()

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        invalid_requests, request = context.session.memory.get(self.id), context.request
        if (
            not invalid_requests
            or request is None
            or code_of(context.message) != INTERNAL_ERROR
            or (request.seq, request.index) not in invalid_requests
        ):
            return ()
        error_text = f"the error is {INTERNAL_ERROR} (internal error), not {INVALID_PARAMS}"
        text = f"the params of {_short_method(request.method)} are invalid, but {error_text}"
        return [self.finding(context, text, pointer="/error/code", related=(request.seq,))]


class Internal(Rule):
    """A response is an internal error.

    **Why it matters.** The receiver raised an exception that no handler caught. The model that called a tool does not
    see the error, so it cannot try another way.

    **On the wire.** `< {"id":5,"error":{"code":-32603,"message":"KeyError: 'city'"}}`

    **Instead.** Catch the exceptions that a tool can raise, return them as results with `isError: true`, and log the
    rest.
    """

    id = "error/internal"
    level = NOTE
    impact = Impact.MESSAGE
    source = "2024-11-05 schema CallToolResult"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        if code_of(context.message) != INTERNAL_ERROR:
            return
        text = "an internal error: an exception was not caught"
        if context.request is not None and context.request.method == "tools/call":
            text += "; a failure in a tool belongs in its result, with isError"
        yield self.finding(context, text, pointer="/error", related=_request_seqs(context))


# ---- shared by the rules about errors


def data_of(context: MessageContext) -> Any:
    """Returns the `data` of an error, or None if it has none."""
    error = context.body.get("error")
    return error.get("data") if isinstance(error, dict) else None


def text_of(context: MessageContext) -> str:
    """Returns the beginning of an error's `message`, in lower case."""
    return (text_of_error(context.message) or "")[:_MAX_SEARCHED_CHARS].casefold()


def is_probe(context: MessageContext) -> bool:
    """Whether an error answers a request that an older server does not know and may refuse with any error."""
    request = context.request
    return request is not None and request.method == "server/discover" and not context.session.server_is_modern


def params_of(request: Request | Notification | None) -> dict[str, Any]:
    """Returns the params of a request, or an empty dict if they are not an object."""
    params = request.params if request is not None else None
    return params if isinstance(params, dict) else {}


def has_envelope(request: Request) -> bool:
    """Whether a request has the `_meta` members that every request must have in the modern era."""
    meta = request.meta
    return isinstance(meta.get(PROTOCOL_VERSION), str) and isinstance(meta.get(CLIENT_CAPABILITIES), dict)


def code_text(code: int) -> str:
    """Returns a code as text for a finding; a peer may send hundreds of digits."""
    return str(code) if abs(code) < 10**15 else "a huge code"


_MAX_SEARCHED_CHARS: Final = 4096
"""The most characters of a message that are searched."""
_MAX_DOUBTFUL_ERRORS: Final = 16
_MAX_INVALID_REQUESTS: Final = 1_000
"""The most requests with invalid params that are remembered."""
_WRONG_SIDE: Final = "is not a method that this side serves"
# With these problems a line is still JSON that a strict parser accepts; with other framing problems it may not be.
_READABLE_PROBLEMS: Final = frozenset({"framing/not-a-message", "framing/duplicate-key"})


def _is_readable(problem: str | None) -> bool:
    return problem is None or not problem.startswith("framing/") or problem in _READABLE_PROBLEMS


def _is_plain_json(context: MessageContext) -> bool:
    """Whether every parser accepts the frame of a message as JSON."""
    frames = context.message.frames
    if len(frames) != 1 or is_not_json(context):
        return False
    return _is_readable(frames[0].verdict.problem) and frames[0].verdict.kind != "unjudged"


def _code_meaning(code: int, context: MessageContext) -> str:
    extension_code = error_code_of(code, context.method)
    if extension_code is not None:
        return extension_code.meaning
    definition = ERROR_CODES.get(code)
    # Many servers of the handshake era use this code for their own errors, too.
    is_other = code == RESOURCE_NOT_FOUND and context.era != "modern" and not context.method.startswith("resources/")
    if definition is not None and not is_other:
        return definition.meaning_with_revisions
    if code in SERVER_RANGE:
        return "defined by the server"
    return "reserved and not defined" if code in JSONRPC_RANGE else "defined by the application"


def _request_seqs(context: MessageContext) -> tuple[int, ...]:
    return () if context.request is None else (context.request.seq,)


def _short_method(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


def _why_impossible(request: Request, rank: int | None) -> str | None:
    """Returns why the receiver cannot have the method of a request, or None if it may have it."""
    if request.method.startswith("notifications/"):
        return None
    method = METHODS.get(request.method)
    if extension_of_method(request.method, rank) is not None or (method is None and request.method in KNOWN_METHODS):
        return None
    if method is None:
        # A method outside MCP's groups may belong to an extension, and fail with a code of its own.
        return None if is_foreign(request.method) else "is not a method of any revision"
    if request.sender not in method.senders(rank):
        return _WRONG_SIDE
    if (
        rank is not None
        and not method.is_defined(rank)
        and any(method.is_defined(older_rank) for older_rank in range(rank))
    ):
        return "was removed from the protocol"
    return None


def _why_unserved(context: MessageContext, request: Request) -> str | None:
    """Returns why the receiver probably does not have the method of a request, or None if nothing suggests that."""
    method = METHODS.get(request.method)
    if method is None:
        is_defined = request.method.startswith("notifications/") or extension_of_method(request.method, context.rank)
        return None if is_defined else "is not a method of any revision"
    declaration = context.session.declared.get(context.era)
    if (
        request.sender != "client"
        or declaration is None
        or not method.required_capability
        or has(declaration.capabilities, method.required_capability)
    ):
        return None
    return "belongs to a capability that the server did not declare"


def _is_before_dispatch(context: MessageContext, request: Request, code: int) -> bool:
    """Whether an error may have been raised before the receiver looked at the method."""
    message = context.message
    has_id = isinstance(message, Response) and message.id is not None and message.id.is_answerable
    if (
        not has_id
        or code in (PARSE_ERROR, INVALID_REQUEST, HEADER_MISMATCH, UNSUPPORTED_VERSION)
        or request.method == "server/discover"
    ):
        return True
    may_need_envelope = context.era == "modern" or context.session.server_is_modern
    return code == INVALID_PARAMS and may_need_envelope and not has_envelope(request)


def _declared_capabilities(context: MessageContext) -> dict[str, Any]:
    """Returns the client's capabilities that applied to the refused request."""
    request = context.request
    capabilities = request.meta.get(CLIENT_CAPABILITIES) if request is not None else None
    if context.era != "modern" and not isinstance(capabilities, dict):
        capabilities = context.session.client_capabilities
    return capabilities if isinstance(capabilities, dict) else {}


def _includes_all(capabilities: dict[str, Any], required: dict[str, Any], depth: int = 0) -> bool:
    """Whether declared capabilities include all required ones, down to the fourth level of members."""
    for name, value in required.items():
        capability = capabilities.get(name)
        if capability is None or capability is False:
            return False
        members = value if isinstance(value, dict) and depth < 3 else {}
        if members and not _includes_all(capability if isinstance(capability, dict) else {}, members, depth + 1):
            return False
    return True
