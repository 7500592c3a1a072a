"""The group `schema`: the shapes of params and results, for each method.

`analysis.shapes.bodies` checks each message once; most rules here select their problems from its result.
"""

from collections.abc import Iterable, Iterator

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Number, Response
from analysis.protocol import features
from analysis.protocol.revisions import HANDSHAKE_ERA
from analysis.rules.base import ERROR, NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.tokens import TOKEN_WORD
from analysis.shapes.bodies import method_of, part_of
from analysis.shapes.body_table import Part
from analysis.shapes.shape import Problem
from analysis.shapes.since import Kind

_MAX_COMPLETION_VALUES = 100
_MIN_WHOLE_FLOAT = 2**53


class _ShapeRule(Rule):
    """The base class of the rules that select from the problems of a body."""

    kinds: frozenset[Kind] = frozenset({"shape"})
    parts: frozenset[Part] = frozenset({"params", "result", "notification"})

    def level_of(self, context: MessageContext, problem: Problem) -> Level | None:
        """Returns the level of a problem, or None for the level of the rule."""

    def on_problems(self, context: MessageContext, problems: list[Problem]) -> Iterable[Finding]:
        if part_of(context) not in self.parts:
            return ()
        return self.capped(
            self.finding(
                context,
                f"{_subject(context)}: {problem.text}",
                pointer=problem.pointer,
                level=self.level_of(context, problem),
            )
            for problem in problems
            if problem.kind in self.kinds
        )


class InvalidParams(_ShapeRule):
    """The params of a request do not fit the schema of its method.

    **Why it matters.** Servers with typed parsers answer -32602 or drop the message; others guess, each in its own way.

    **On the wire.** `> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"arguments":{}}}`: there is no `name`

    **Instead.** Send the members that the schema of the revision in force requires. Additional members are always
    allowed.
    """

    id = "schema/invalid-params"
    source = "schema of the revision in force"
    parts = frozenset({"params"})


class InvalidResult(_ShapeRule):
    """A result does not fit the schema of the method that it answers.

    **Why it matters.** Typed clients raise an error, so the call fails although the server did the work; in a list, one
    bad item often makes all items unusable.

    **On the wire.** `< {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"echo","inputSchema":{}}]}}`

    **Instead.** Answer in the form that the revision in force defines. Send newer kinds of content only to peers that
    support their revision.
    """

    id = "schema/invalid-result"
    source = "schema of the revision in force"
    parts = frozenset({"result"})


class InvalidNotification(_ShapeRule):
    """The params of a notification do not fit the schema of its method.

    **Why it matters.** Notifications are not answered, so the sender does not learn that the receiver dropped it.

    **On the wire.** `< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warn","data":"…"}}`

    **Instead.** Send the members that the schema requires. Log levels have the names of syslog, in lower case, such as
    `warning`.
    """

    id = "schema/invalid-notification"
    source = "schema of the revision in force"
    parts = frozenset({"notification"})


class NullOptional(_ShapeRule):
    """An optional member is null.

    **Why it matters.** No schema allows null there. Some receivers treat it as absent, but strict parsers refuse the
    message.

    **On the wire.** `< {"jsonrpc":"2.0","id":2,"result":{"tools":[],"nextCursor":null}}`

    **Instead.** Leave the member out: configure the serialiser to omit empty fields.
    """

    id = "schema/null-optional"
    level = WARNING
    kinds = frozenset({"null"})
    source = "schema of the revision in force"


class LaxScalar(_ShapeRule):
    """A number or boolean is written as another JSON type.

    **Why it matters.** Lenient parsers convert it and hide the mistake, and in JavaScript `"false"` is true; strict
    parsers refuse the message.

    **On the wire.** `< {"jsonrpc":"2.0","id":5,"result":{"content":[],"isError":"false"}}`

    **Instead.** Write numbers and booleans without quotes. `5.0` is an integer.
    """

    id = "schema/lax-scalar"
    impact = Impact.WRONG
    kinds = frozenset({"scalar"})
    replaces = ("schema/invalid-*",)
    source = "schema of the revision in force"


class Uri(_ShapeRule):
    """A member that must be a URI is not a valid URI.

    **Why it matters.** Clients resolve, compare and store URIs. A bare path means something different on each machine,
    and a path with spaces may be cut off at the first space.

    **On the wire.** `< {"jsonrpc":"2.0","id":2,"result":{"resources":[{"uri":"notes/today.md","name":"today"}]}}`

    **Instead.** Begin with a scheme and a colon, and percent-encode all characters that RFC 3986 does not allow:
    `file:///notes/a%20b.md`.
    """

    id = "schema/uri"
    level = WARNING
    impact = Impact.WRONG
    kinds = frozenset({"uri", "resource-uri"})
    source = "2025-06-18 server/resources; schema of the revision in force"

    def level_of(self, context: MessageContext, problem: Problem) -> Level | None:
        is_required = problem.kind == "resource-uri" and features.URI_FORMAT.includes(context.rank)
        return ERROR if is_required else None


class Base64(_ShapeRule):
    """Binary content is not base64.

    **Why it matters.** Decoders stop at the first invalid character, or skip it and return wrong bytes.

    **On the wire.** `< {"jsonrpc":"2.0","id":4,"result":{"contents":[{"uri":"file:///a","blob":"_-8="}]}}`

    **Instead.** Use the standard alphabet with `+` and `/`, pad with `=`, and add no line breaks.
    """

    id = "schema/base64"
    impact = Impact.WRONG
    kinds = frozenset({"base64"})
    source = "2024-11-05 server/resources, server/prompts, schema"


class TextAndBlob(_ShapeRule):
    """The content of a resource has both `text` and `blob`.

    **Why it matters.** The two are alternatives, and each client uses the one that it checks first.

    **On the wire.** `< {"jsonrpc":"2.0","id":4,"result":{"contents":[{"uri":"file:///a","text":"a","blob":"YQ=="}]}}`

    **Instead.** Send `text` for text, and `blob` for everything else.
    """

    id = "schema/text-and-blob"
    who = "server"
    level = WARNING
    impact = Impact.WRONG
    kinds = frozenset({"both"})
    source = "2024-11-05 server/resources"


class MetaProgressToken(Rule):
    """The progress token of a request is neither a string nor an integer.

    **Why it matters.** The caller gets no progress, or progress with a token that it does not recognise.

    **On the wire.** `> {"id":3,"method":"tools/call","params":{"name":"dig","_meta":{"progressToken":null}}}`

    **Instead.** Send a string or an integer that no other open request uses; leave it out if you do not want progress.
    """

    id = "schema/meta-progress-token"
    required_word = TOKEN_WORD
    source = "2024-11-05 basic/utilities/progress"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        meta = context.request.meta if context.request is not None else {}
        if "progressToken" not in meta or _is_token(meta["progressToken"]):
            return ()
        text = f"the progress token is {_type_phrase(meta['progressToken'])}, not a string or an integer"
        return [self.finding(context, text, pointer="/params/_meta/progressToken")]


class NonEmptyResult(Rule):
    """A result that should be empty has members.

    **Why it matters.** It does no harm: the result only confirms the request, and callers ignore its members.

    **On the wire.** `< {"jsonrpc":"2.0","id":6,"result":{"success":true}}` in answer to `logging/setLevel`

    **Instead.** Answer `{}`.
    """

    id = "schema/non-empty-result"
    versions = HANDSHAKE_ERA
    level = NOTE
    once = True
    methods = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
    source = "2024-11-05 schema EmptyResult"

    def on_result(self, context: MessageContext) -> Iterator[Finding]:
        if _has_members(context):
            yield self.finding(context, f"{_subject(context)} should be empty, but has members", pointer="/result")


class PingResultNotEmpty(Rule):
    """The response to a ping is not empty.

    **Why it matters.** The sender of a ping expects an empty result, and ignores anything in it.

    **On the wire.** `< {"jsonrpc":"2.0","id":9,"result":{"status":"ok"}}`

    **Instead.** Answer `{}`. Report health in a tool or a log message.
    """

    id = "schema/ping-result-not-empty"
    versions = HANDSHAKE_ERA
    impact = Impact.HINT
    methods = frozenset({"ping"})
    source = "2024-11-05 basic/utilities/ping"

    def on_result(self, context: MessageContext) -> Iterator[Finding]:
        if _has_members(context):
            yield self.finding(context, "the response to a ping should be empty, but has members", pointer="/result")


class CompletionValues(Rule):
    """A completion has more than 100 values.

    **Why it matters.** Clients may show only the first hundred, or refuse the result.

    **On the wire.** `< {"id":7,"result":{"completion":{"values":["a","aa",…]}}}` with 101 values

    **Instead.** Send the best hundred values, with `hasMore` true and the number of all values as `total`.
    """

    id = "schema/completion-values"
    who = "server"
    impact = Impact.WRONG
    methods = frozenset({"completion/complete"})
    source = "2024-11-05 server/utilities/completion"

    def on_result(self, context: MessageContext) -> Iterator[Finding]:
        result = context.body.get("result")
        completion = result.get("completion") if isinstance(result, dict) else None
        values = completion.get("values") if isinstance(completion, dict) else None
        if isinstance(values, list) and len(values) > _MAX_COMPLETION_VALUES:
            text = f"a completion has {len(values)} values; at most {_MAX_COMPLETION_VALUES} are allowed"
            yield self.finding(context, text, pointer="/result/completion/values")


# ---- shared by the rules


def _subject(context: MessageContext) -> str:
    method = method_of(context)
    return f"the result of {method}" if isinstance(context.message, Response) else method


def _has_members(context: MessageContext) -> bool:
    result = context.body.get("result")
    return isinstance(result, dict) and any(name != "_meta" for name in result)


def _is_token(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, Number):
        return value.token.lstrip("-").isdecimal() or value.is_integer()
    if isinstance(value, float):
        return value.is_integer() or abs(value) >= _MIN_WHOLE_FLOAT
    return isinstance(value, str | int)


def _type_phrase(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, float):
        return "a fraction"
    return "an array" if isinstance(value, list) else "an object"
