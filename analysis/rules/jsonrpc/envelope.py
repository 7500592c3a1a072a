"""The envelope of messages: the version, the method, the params, and the id that asks for a response."""

from collections.abc import Iterator
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import MAX_BODY_MESSAGES, HttpExchange
from analysis.conversation.message import MISSING, InvalidMessage, Notification, Response
from analysis.conversation.session import Session
from analysis.protocol.extensions import CERTAIN_REQUESTS, senders_of
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd import MessageOddity
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.message_text import object_of, shortened_name

_MESSAGE_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_OUTCOME_MEMBERS: Final = frozenset({"result", "error"})


class EnvelopeRule(Rule):
    """A rule about the members of an object, whether or not it is a message."""

    oddities = MessageOddity.ENVELOPE

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        """Check a message."""
        return self._check(context)

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        """Check an object that is not a message."""
        return iter(()) if context.is_stray_body else self._check(context)

    def _check(self, context: MessageContext) -> Iterator[Finding]:
        body = object_of(context.message)
        return iter(()) if body is None else self.check_members(context, body)

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        """Yields findings about the members."""
        raise NotImplementedError


class MissingVersion(EnvelopeRule):
    """A message does not say that it is JSON-RPC 2.0.

    **Why it matters.** Without the member `jsonrpc`, typed parsers refuse the message, or treat it as another protocol.

    **On the wire.** `> {"id":1,"method":"ping"}`

    **Instead.** Put `"jsonrpc":"2.0"` into every message, including responses and notifications.
    """

    id = "jsonrpc/missing-version"
    source = "2024-11-05 basic/messages, schema JSONRPCRequest"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        if "jsonrpc" not in body:
            yield self.finding(context, "the member jsonrpc is missing")


class WrongVersion(EnvelopeRule):
    """The member `jsonrpc` is something other than the string 2.0.

    **Why it matters.** Receivers compare it with that string, and refuse the number 2.0 just like version 1.0.

    **On the wire.** `> {"jsonrpc":2.0,"id":1,"method":"ping"}`

    **Instead.** Write `"jsonrpc":"2.0"`, with the quotes.
    """

    id = "jsonrpc/wrong-version"
    source = "2024-11-05 basic/messages"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        version = body.get("jsonrpc", "2.0")
        if version != "2.0":
            kind = "another string" if isinstance(version, str) else type_text(version)
            yield self.finding(context, f'the member jsonrpc is {kind}, not the string "2.0"', pointer="/jsonrpc")


class Unclassifiable(Rule):
    """An object has neither `method` nor `result` nor `error`.

    **Why it matters.** It is neither a request, a notification nor a response, so its receiver cannot use it. Often it
    is a log entry in JSON that went to the wrong stream.

    **On the wire.** `< {"level":"info","message":"ready"}`

    **Instead.** Send only JSON-RPC messages; write logs to standard error.
    """

    id = "jsonrpc/unclassifiable"
    source = "2024-11-05 basic/messages"

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        body = object_of(context.message)
        if (
            body is not None
            and "method" not in body
            and _OUTCOME_MEMBERS.isdisjoint(body)
            and not context.is_stray_body
        ):
            yield self.finding(context, "an object without method, result or error is not a message")


class MethodNotString(Rule):
    """The method is not a string, or is empty.

    **Why it matters.** It does not name a method, and most receivers refuse the message.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"method":1}`

    **Instead.** Send a string, such as `tools/list`.
    """

    id = "jsonrpc/method-not-string"
    source = "2024-11-05 basic/messages"

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        body = object_of(context.message)
        method = body.get("method", MISSING) if body is not None else MISSING
        if method is not MISSING and not (isinstance(method, str) and method):
            kind = "an empty string" if method == "" else type_text(method)
            yield self.finding(context, f"the method is {kind}", pointer="/method")


class ReservedMethod(EnvelopeRule):
    """The name of a method begins with `rpc.`.

    **Why it matters.** JSON-RPC reserves these names for its own extensions: libraries may answer them themselves,
    without calling the server.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"method":"rpc.discover"}`

    **Instead.** Choose another prefix.
    """

    id = "jsonrpc/reserved-method"
    level = WARNING
    source = "JSON-RPC 2.0 §8"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        method = body.get("method")
        if isinstance(method, str) and method.startswith("rpc."):
            yield self.finding(
                context, f"the method {shortened_name(method)} has a name that JSON-RPC reserves", pointer="/method"
            )


class MethodWithResult(EnvelopeRule):
    """A message has a method and a result, or a method and an error.

    **Why it matters.** Some receivers treat the message as a request and answer it; others treat it as a response and
    do not.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"method":"tools/list","result":{"tools":[]}}`

    **Instead.** Send a response with the id of its request, and without a method.
    """

    id = "jsonrpc/method-with-result"
    source = "2024-11-05 basic/messages"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        if "method" in body and not _OUTCOME_MEMBERS.isdisjoint(body):
            outcome = "result" if "result" in body else "error"
            yield self.finding(context, f"a message with both method and {outcome} is neither a request nor a response")


class ParamsByPosition(EnvelopeRule):
    """The params are an array.

    **Why it matters.** JSON-RPC allows arguments by position. MCP allows them only by name, and defines no order.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":["echo",{}]}`

    **Instead.** Send an object: `"params":{"name":"echo","arguments":{}}`.
    """

    id = "jsonrpc/params-by-position"
    source = "2024-11-05 basic/messages"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        if "method" in body and isinstance(body.get("params"), list):
            yield self.finding(context, "params are an array, but MCP passes arguments by name", pointer="/params")


class ParamsNotObject(EnvelopeRule):
    """The params are a string, a number or a boolean.

    **Why it matters.** Neither JSON-RPC nor MCP allows it. A typical cause is an object that was serialised twice.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":"{\\"name\\":\\"echo\\"}"}`

    **Instead.** Send an object, or no params at all.
    """

    id = "jsonrpc/params-not-object"
    source = "2024-11-05 basic/messages"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        params = body.get("params")
        if "method" in body and params is not None and not isinstance(params, dict | list):
            yield self.finding(context, f"params are {type_text(params)}, not an object", pointer="/params")


class ParamsNull(EnvelopeRule):
    """The params are null.

    **Why it matters.** No schema allows null. Most receivers treat null params as absent, but strict parsers refuse the
    message.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}`

    **Instead.** Leave `params` out if there are none.
    """

    id = "jsonrpc/params-null"
    level = WARNING
    source = "2024-11-05 schema JSONRPCRequest"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        if "method" in body and "params" in body and body["params"] is None:
            yield self.finding(context, "params are null; leave the member out", pointer="/params")


class UnknownMember(Rule):
    """A message has a member that JSON-RPC does not define.

    **Why it matters.** At best, receivers ignore the member. It belongs in `params._meta` or `result._meta`.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"method":"ping","timestamp":1767225600}`

    **Instead.** Use `_meta` for additional data about a message.
    """

    id = "jsonrpc/unknown-member"
    oddities = MessageOddity.MEMBER
    level = NOTE
    once = True
    source = "JSON-RPC 2.0 §4, §5"

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        name = next((name for name in context.body if name not in _MESSAGE_MEMBERS), None)
        if name is not None:
            yield self.finding(
                context, f"the message has a member {shortened_name(name)}, which JSON-RPC does not define"
            )


class NotificationWithId(EnvelopeRule):
    """A notification has an id.

    **Why it matters.** A message with an id is a request: the receiver has to answer, usually with an error about an
    unknown method, which the sender does not expect.

    **On the wire.** `> {"jsonrpc":"2.0","id":2,"method":"notifications/initialized"}`

    **Instead.** Leave `id` out; do not send null.
    """

    id = "jsonrpc/notification-with-id"
    source = "2024-11-05 basic/messages"

    def check_members(self, context: MessageContext, body: dict[str, Any]) -> Iterator[Finding]:
        method = body.get("method")
        if "id" in body and isinstance(method, str) and method.startswith("notifications/"):
            yield self.finding(context, f"{shortened_name(method)} is a notification, but has an id", pointer="/id")


class RequestWithoutId(Rule):
    """A request has no id.

    **Why it matters.** A message without an id is a notification: the receiver does not answer, and the sender waits.

    **On the wire.** `> {"jsonrpc":"2.0","method":"tools/list"}`

    **Instead.** Give each request its own id.
    """

    id = "jsonrpc/request-without-id"
    methods = CERTAIN_REQUESTS
    source = "2024-11-05 basic/messages"

    def on_notification(self, context: MessageContext) -> Iterator[Finding]:
        message = context.message
        if isinstance(message, Notification) and is_valid_request(message.method, context):
            yield self.finding(context, f"{message.method} is sent without an id, so it will not be answered")


class NotificationAnswered(Rule):
    """The response to a POST of notifications contains a JSON-RPC response.

    **Why it matters.** No caller waits for it. Clients that do not read the body leave it in the connection; others log
    a response that matches no request.

    **On the wire.** `> POST {"jsonrpc":"2.0","method":"notifications/initialized"}` and
    `< 200 {"jsonrpc":"2.0","id":null,"result":{}}`

    **Instead.** Answer 202 Accepted, without a body.
    """

    id = "jsonrpc/notification-answered"
    impact = Impact.COST
    needs_http = True
    exchanges = ExchangeOddity.SENT
    source = "2025-03-26 basic/index"

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterator[Finding]:  # noqa: ARG002 - each message has it
        is_success = http.status is not None and 200 <= http.status < 300
        if not is_success or not 0 < len(http.client_messages) < MAX_BODY_MESSAGES:
            return
        if not all(isinstance(context.message, Notification) for context in http.client_messages):
            return
        answer = next((context for context in http.server_messages if isinstance(context.message, Response)), None)
        if answer is not None:
            text = "a notification is answered, although no caller waits for a response"
            yield self.finding(answer, text, related=(http.client_messages[0].message.seq,))


# ---- shared by the rules


def is_valid_request(name: str, context: MessageContext) -> bool:
    """Whether a method belongs to a request that the sender of a message may send in its revision."""
    if name not in CERTAIN_REQUESTS or isinstance(context.message, InvalidMessage):
        return False
    return context.message.sender in senders_of(name, context.rank)


def type_text(value: object) -> str:
    """Returns the JSON type of a value, with an article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds = ((str, "a string"), (int | float, "a number"), (list, "an array"), (dict, "an object"))
    return next((name for type_, name in kinds if isinstance(value, type_)), "something else")
