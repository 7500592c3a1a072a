"""Responses: results, errors and their ids."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.call import IdState, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Id, InvalidMessage, Notification, Request, Response, Side, id_of
from analysis.conversation.session import Session
from analysis.rules.base import NOTE, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact, with_guess
from analysis.rules.jsonrpc.envelope import EnvelopeRule, is_valid_request, type_text
from analysis.rules.odd import LARGE_FRAME_BYTES, MessageOddity
from analysis.rules.odd_exchange import ExchangeOddity
from captures.limits import ENVELOPE_MEMBERS

_MAX_CONCISE_CHARS: Final = 300
"""The most characters that a concise error message has."""
_MAX_UNEXPLAINED_ERRORS: Final = 64
_PROBLEM_GROUPS: Final = ("framing/", "jsonrpc/", "id/")


class ResponseRule(Rule):
    """A rule about an odd response."""

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        """Check a response."""
        return self.check_response(context, context.message) if isinstance(context.message, Response) else iter(())

    def check_response(self, context: MessageContext, answer: Response) -> Iterator[Finding]:
        """Yields findings about a response."""
        raise NotImplementedError


class ErrorRule(ResponseRule):
    """A rule about the error object of a response."""

    oddities = MessageOddity.ERROR

    def check_response(self, context: MessageContext, answer: Response) -> Iterator[Finding]:
        """Yields findings about the response's error object, if it has one."""
        error = answer.error
        return self.check_error(context, error) if answer.is_error and isinstance(error, dict) else iter(())

    def check_error(self, context: MessageContext, error: dict[str, Any]) -> Iterator[Finding]:
        """Yields findings about an error object."""
        raise NotImplementedError


class ResultAndError(EnvelopeRule):
    """A response has a result and an error.

    **Why it matters.** The two members contradict each other, so each client decides differently whether the request
    succeeded.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"result":{},"error":{"code":-32603,"message":"Internal error"}}`

    **Instead.** Send one of the two.
    """

    id = "jsonrpc/result-and-error"
    impact = Impact.WRONG
    source = "2024-11-05 basic/messages"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        if body.get("result") is not None and body.get("error") is not None:
            yield self.finding(context, "a response has both result and error", pointer="/error")


class NullSibling(EnvelopeRule):
    """A response has a result and `error: null`, or an error and `result: null`.

    **Why it matters.** JSON-RPC 1.0 wrote responses this way. In 2.0 the member that does not apply must be absent.
    Clients that check for its presence see an error that did not occur.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"result":{},"error":null}`

    **Instead.** Leave the other member out. Most serialisers have an option to omit null members.
    """

    id = "jsonrpc/null-sibling"
    level = WARNING
    replaces = ("jsonrpc/result-and-error",)
    source = "2024-11-05 basic/messages"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        if "result" in body and "error" in body and (body["result"] is None) != (body["error"] is None):
            name = "result" if body["result"] is None else "error"
            yield self.finding(
                context, f"{name} is null; leave it out, as the other member is present", pointer=f"/{name}"
            )


class ResultNotObject(ResponseRule):
    """A result is not an object.

    **Why it matters.** JSON-RPC allows any value, but MCP only an object: clients look for its members and fail.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"result":null}` or `"result":"ok"`

    **Instead.** Send `{}` if there is nothing to return.
    """

    id = "jsonrpc/result-not-object"
    oddities = MessageOddity.ENVELOPE
    source = "2024-11-05 basic/messages, schema Result"

    def check_response(self, context: MessageContext, answer: Response) -> Iterator[Finding]:
        if not answer.is_error and not isinstance(answer.result, dict):
            yield self.finding(context, f"the result is {type_text(answer.result)}, not an object", pointer="/result")


class ResultWithoutId(ResponseRule):
    """A result has no id, or its id is null.

    **Why it matters.** The caller cannot match it with its request, so the request stays unanswered.

    **On the wire.** `< {"jsonrpc":"2.0","result":{"tools":[]}}`

    **Instead.** Send back the id of the request unchanged.
    """

    id = "jsonrpc/result-without-id"
    oddities = MessageOddity.ENVELOPE
    source = "2024-11-05 basic/messages"

    def check_response(self, context: MessageContext, answer: Response) -> Iterator[Finding]:
        if not answer.is_error and _lacks_id(answer):
            yield self.finding(
                context,
                with_guess("a result without an id answers nothing", context.guessed_request),
                pointer="" if answer.id is None else "/id",
            )


class _ErrorsWithoutId(NamedTuple):
    """Messages that may explain errors without an id."""

    unreadable_counts: dict[Side, int]
    """For each side, the number of its messages that the peer may be unable to read and has not answered yet."""
    unexplained_errors: dict[Side, list[MessageContext]]
    """For each side, the errors without an id that nothing explains so far."""
    answered_probes: dict[int, int]
    """For each session, the number of the probe that an error without an id has answered."""


class ErrorWithoutId(Rule):
    """An error has no id, although every message of the other side was readable.

    **Why it matters.** The error does not say which request has failed, so its caller keeps waiting. Typical causes are
    a response to a notification, and a handler that loses the id when it fails.

    **On the wire.** `> {"jsonrpc":"2.0","id":4,"method":"tools/call",…}` and
    `< {"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Internal error"}}`

    **Instead.** Answer with the id of the request, and do not answer notifications. Null is only for messages that
    cannot be read.
    """

    id = "jsonrpc/error-without-id"
    # These are all oddities that `is_hard_to_read` checks for.
    oddities = (
        MessageOddity.ENVELOPE
        | MessageOddity.MEMBER
        | MessageOddity.LARGE
        | MessageOddity.LINE_END
        | MessageOddity.UNPAIRED
        | MessageOddity.REUSED
        | MessageOddity.WITHOUT_ID
    )
    level = WARNING
    exchanges = ExchangeOddity.RECEIVED
    source = "2025-11-25 basic/index (error responses); JSON-RPC 2.0 §5"

    # A line that may begin a multi-line message is held back, and the response to it may arrive before it is judged.
    # The next message of the other side releases all such lines, so errors are judged only then.

    def on_message(self, context: MessageContext) -> Iterable[Finding]:
        doubts, side = self._errors_of(context.session), context.message.sender
        errors = doubts.unexplained_errors["server" if side == "client" else "client"]
        findings: list[Finding] = []
        if not is_hard_to_read(context):
            findings += [self._finding(error) for error in errors if error.message.seq < context.message.seq]
            if findings:
                errors.clear()
        else:
            explained_error = next((error for error in errors if error.message.seq > context.message.seq), None)
            if explained_error is not None:
                errors.remove(explained_error)
                doubts.unreadable_counts[side] -= 1  # `on_anomaly` is about to count this message
        if not any(doubts.unexplained_errors.values()):
            self.set_watching(context.session, False)
        return findings

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        if is_hard_to_read(context):
            excuses, side = self._errors_of(context.session).unreadable_counts, context.message.sender
            excuses[side] = min(excuses[side] + 1, _MAX_UNEXPLAINED_ERRORS)
        return ()

    def on_invalid(self, context: MessageContext) -> Iterable[Finding]:
        return self.on_anomaly(context)

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        answer = context.message
        if not isinstance(answer, Response) or not _lacks_id(answer):
            return
        is_body = answer.frames[0].unit == "http_body"
        if answer.sender == "server" and context.http is not None and (is_body or context.http.method != "GET"):
            return  # `on_messages_exchanged` decides when the status is known
        doubts = self._errors_of(context.session)
        peer: Side = "server" if answer.sender == "client" else "client"
        if doubts.unreadable_counts[peer]:
            doubts.unreadable_counts[peer] -= 1
            return
        probe = _open_probe_seq(self.fold) if answer.sender == "server" and context.state == "new" else None
        if probe is not None and probe != doubts.answered_probes.get(context.session.number):
            doubts.answered_probes[context.session.number] = probe
            return  # a server of the handshake era may answer a probe with any error
        errors = doubts.unexplained_errors[answer.sender]
        errors.append(context)
        self.set_watching(context.session, True)
        if len(errors) > _MAX_UNEXPLAINED_ERRORS:
            yield self._finding(errors.pop(0))

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterator[Finding]:  # noqa: ARG002 - each message has it
        if (
            http.status is None
            or http.status >= 400
            or any(map(is_hard_to_read, http.client_messages))
            or http.unrecorded_sides
        ):
            return
        if http.method == "GET":
            return
        for context in http.server_messages:
            answer = context.message
            if isinstance(answer, Response) and answer.is_error and _lacks_id(answer):
                yield self._finding(context)

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:  # noqa: ARG002 - it does not matter how the capture ended
        doubts: _ErrorsWithoutId | None = session.memory.get(self.id)
        if doubts is not None:
            for errors in doubts.unexplained_errors.values():
                yield from map(self._finding, errors)

    def _finding(self, context: MessageContext) -> Finding:
        text = "an error without an id, although all earlier messages were readable"
        return self.finding(context, with_guess(text, context.guessed_request))

    def _errors_of(self, session: Session) -> _ErrorsWithoutId:
        # If the capture began in the middle of a session, earlier messages may explain one error of each side. Lost
        # records may explain any number of errors.
        initial_count = 0 if session.observed_start else 1 if session.lost_seq < 0 else _MAX_UNEXPLAINED_ERRORS
        doubts = self.state_for(
            session,
            lambda: _ErrorsWithoutId(
                {"client": initial_count, "server": initial_count}, {"client": [], "server": []}, {}
            ),
        )
        assert isinstance(doubts, _ErrorsWithoutId)
        return doubts


class NullErrorId(ResponseRule):
    """The id of an error is null.

    **Why it matters.** JSON-RPC requires null if the id could not be read, but the schemas of MCP do not allow it: up
    to 2025-06-18 the id is required, and since 2025-11-25 it may be left out. Typed parsers may refuse null, although
    SDKs send it.

    **On the wire.** `< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`

    **Instead.** Since 2025-11-25, leave `id` out if it is not known.
    """

    id = "jsonrpc/null-error-id"
    oddities = MessageOddity.ERROR
    level = NOTE
    once = True
    source = "2025-11-25 schema JSONRPCErrorResponse"

    def check_response(self, context: MessageContext, answer: Response) -> Iterator[Finding]:
        if answer.is_error and answer.id is not None and answer.id.type == "null":
            yield self.finding(context, "an error with the id null, which no MCP schema allows", pointer="/id")


class ErrorNotObject(ResponseRule):
    """The error of a response is not an object.

    **Why it matters.** Without code and message the caller cannot tell what went wrong, and may itself fail.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"error":"not found"}`

    **Instead.** Send `{"code":-32602,"message":"…"}`, and details in `data`.
    """

    id = "jsonrpc/error-not-object"
    oddities = MessageOddity.ERROR
    source = "2024-11-05 basic/messages"

    def check_response(self, context: MessageContext, answer: Response) -> Iterator[Finding]:
        if answer.is_error and not isinstance(answer.error, dict):
            yield self.finding(context, f"the error is {type_text(answer.error)}, not an object", pointer="/error")


class ErrorCodeNotInteger(ErrorRule):
    """The code of an error is missing, or is not an integer.

    **Why it matters.** Callers decide by the code, and the string `"-32601"` does not equal the number that they
    compare it with.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"error":{"code":"-32601","message":"Method not found"}}`

    **Instead.** Send a number without quotes.
    """

    id = "jsonrpc/error-code-not-integer"
    impact = Impact.WRONG
    source = "2024-11-05 basic/messages"

    def check_error(self, context: MessageContext, error: dict[str, Any]) -> Iterator[Finding]:
        if "code" not in error:
            yield self.finding(context, "the error has no code", pointer="/error")
        elif not _is_integer(id_of(error["code"])):
            is_fraction = isinstance(error["code"], float)
            kind = "a number with a fraction" if is_fraction else type_text(error["code"])
            yield self.finding(context, f"the code of the error is {kind}, not an integer", pointer="/error/code")


class ErrorMessageMissing(ErrorRule):
    """The message of an error is missing, or is not a string.

    **Why it matters.** This message is all that users see of the failure.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"error":{"code":-32603}}`

    **Instead.** Say in one sentence what happened.
    """

    id = "jsonrpc/error-message-missing"
    impact = Impact.WRONG
    source = "2025-03-26 basic/index"

    def check_error(self, context: MessageContext, error: dict[str, Any]) -> Iterator[Finding]:
        if "message" not in error:
            yield self.finding(context, "the error has no message", pointer="/error")
        elif not isinstance(error["message"], str):
            kind = type_text(error["message"])
            yield self.finding(context, f"the message of the error is {kind}, not a string", pointer="/error/message")


class ErrorMessageVerbose(ErrorRule):
    """The message of an error has several lines, or more than 300 characters.

    **Why it matters.** The message should be one concise sentence. A longer text is often a stack trace, and reveals
    paths, versions and secrets of the server.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Traceback (most recent…\\n…"}}`

    **Instead.** Put details into `data`, and stack traces into a log.
    """

    id = "jsonrpc/error-message-verbose"
    level = NOTE
    source = "2024-11-05 schema (error message)"

    def check_error(self, context: MessageContext, error: dict[str, Any]) -> Iterator[Finding]:
        message = error.get("message")
        if isinstance(message, str) and (len(message) > _MAX_CONCISE_CHARS or "\n" in message or "\r" in message):
            yield self.finding(context, "the message of the error is more than one sentence", pointer="/error/message")


# ---- shared by the rules


def is_hard_to_read(context: MessageContext) -> bool:
    """Whether a peer may have been unable to read a message, because of a problem with its framing, envelope or id.

    Arrays count as well: a peer that does not support them cannot read the ids in them.
    """
    message = context.message
    if isinstance(message, InvalidMessage) or message.index is not None or len(message.frames) > 1:
        return True
    frame = message.frames[0]
    if (
        (frame.verdict.problem or "").startswith(_PROBLEM_GROUPS)
        or frame.delim == b"\r\n"
        or len(frame.raw) > LARGE_FRAME_BYTES
    ):
        return True
    if not ENVELOPE_MEMBERS.issuperset(message.body):
        return True
    if isinstance(message, Request):
        return context.earlier is not None or isinstance(message.body.get("id"), float)
    if isinstance(message, Notification):
        return is_valid_request(message.method, context)
    return context.answered is None and message.id is not None and context.id_state is not IdState.CANCELLED


def _open_probe_seq(fold: Fold) -> int | None:
    """Returns the number of the open probe for the modern era, or None if none is open or too many requests are."""
    table = fold.tables["client"]
    open_calls = table.waiting_calls() if len(table) <= _MAX_UNEXPLAINED_ERRORS else []
    return next((call.request.seq for call in open_calls if call.request.method == "server/discover"), None)


def _lacks_id(answer: Response) -> bool:
    return answer.id is None or answer.id.type == "null"


def _is_integer(value: Id) -> bool:
    """Whether a value is exactly an integer, regardless of how it is written."""
    return value.type == "number" and "." not in value.value and "e-" not in value.value
