"""The group `sampling`: requests from a server to the client's model, and the responses."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.facts import code_of
from analysis.protocol import features
from analysis.protocol.error_codes import USER_REJECTED
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.inputs import INTERIM_METHODS
from analysis.rules.support.questions import ClientReplyRule, ServerQuestionRule

MAX_CHECKED_ITEMS: Final = 10_000
"""The most messages of one request, and blocks of one message, that are checked."""

_CREATE: Final = "sampling/createMessage"
_TOOL_REVISIONS: Final = features.SAMPLING_TOOLS
_PAGE: Final = "2025-11-25 client/sampling"


class _SamplingRequestRule(ServerQuestionRule):
    """The base class of the rules about sampling requests."""

    about = _CREATE
    methods = frozenset({_CREATE, *INTERIM_METHODS})

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        messages = params.get("messages")
        if isinstance(messages, list):
            faults = self.faults(messages[:MAX_CHECKED_ITEMS])
            yield from self.capped(
                self.finding(context, text, pointer=f"{pointer}/messages/{index}") for index, text in faults
            )

    def faults(self, _messages: list[Any]) -> Iterator[tuple[int, str]]:
        """Yields the position of each faulty message, and what is wrong with it."""
        return iter(())


class _SamplingResultRule(ClientReplyRule):
    """The base class of the rules about sampling results."""

    about = _CREATE
    methods = frozenset({_CREATE, "tasks/result", *INTERIM_METHODS})


class ToolResultMixed(_SamplingRequestRule):
    """A message mixes tool results with other content.

    **Why it matters.** Model providers accept tool results only in separate messages, and refuse mixed ones.

    **On the wire.** `{"role":"user","content":[{"type":"tool_result",…},{"type":"text","text":"Go on"}]}`

    **Instead.** Send only results in such a message, and other content in the next message.
    """

    id = "sampling/tool-result-mixed"
    versions = _TOOL_REVISIONS
    source = _PAGE

    def faults(self, messages: list[Any]) -> Iterator[tuple[int, str]]:
        for index, message in enumerate(messages):
            if _is_mixed(message):
                yield index, "a message mixes tool results with other blocks"


class ToolUseUnanswered(_SamplingRequestRule):
    """The result of a tool use does not follow it.

    **Why it matters.** Models cannot continue without the result, and providers refuse such a conversation.

    **On the wire.** `…{"role":"assistant","content":{"type":"tool_use","id":"t1",…}}]` and nothing after it

    **Instead.** Send a user message next, with one `tool_result` for each `tool_use`, and nothing else.
    """

    id = "sampling/tool-use-unanswered"
    versions = _TOOL_REVISIONS
    source = _PAGE

    def faults(self, messages: list[Any]) -> Iterator[tuple[int, str]]:
        for index, message in enumerate(messages):
            use_ids = _block_ids(message, "tool_use", "id")
            if not use_ids or member(message, "role") != "assistant":
                continue
            next_message = messages[index + 1] if index + 1 < len(messages) else None
            if _is_mixed(next_message):
                continue
            result_ids = _block_ids(next_message, "tool_result", "toolUseId")
            has_only_results = member(next_message, "role") == "user" and len(result_ids) == len(
                _all_blocks(next_message)
            )
            if not has_only_results or sorted(result_ids) != sorted(use_ids):
                yield index, "the next message does not consist of exactly the results of these tool uses"


class ToolResultUnmatched(_SamplingRequestRule):
    """A tool result matches no tool use.

    **Why it matters.** The model cannot tell which call the result belongs to, and providers refuse such a
    conversation.

    **On the wire.** `{"type":"tool_result","toolUseId":"t9",…}` and no `tool_use` with the id `t9` before it

    **Instead.** Send the tool uses as well as their results, with the ids that the model chose.
    """

    id = "sampling/tool-result-unmatched"
    versions = _TOOL_REVISIONS
    source = "2025-11-25 schema ToolResultContent"

    def faults(self, messages: list[Any]) -> Iterator[tuple[int, str]]:
        known_ids: set[str] = set()
        for index, message in enumerate(messages):
            result_ids = [block.get("toolUseId") for block in _blocks(message, "tool_result")]
            if any(isinstance(result_id, str) and result_id not in known_ids for result_id in result_ids):
                yield index, "the id of a tool result matches no earlier tool use"
            use_ids = (block.get("id") for block in _blocks(message, "tool_use"))
            known_ids.update(use_id for use_id in use_ids if isinstance(use_id, str))


class ToolBlockRole(_SamplingRequestRule):
    """A user message contains a tool use, or an assistant message contains a tool result.

    **Why it matters.** Only the model uses tools and only the user returns results: providers refuse the opposite.

    **On the wire.** `…"messages":[{"role":"user","content":{"type":"tool_use","id":"t1",…}}]`

    **Instead.** Send `tool_use` with the role `assistant`, and `tool_result` with the role `user`.
    """

    id = "sampling/tool-block-role"
    who = "either"
    versions = _TOOL_REVISIONS
    level = WARNING
    source = _PAGE

    def faults(self, messages: list[Any]) -> Iterator[tuple[int, str]]:
        for index, message in enumerate(messages):
            text = _role_fault(message)
            if text is not None:
                yield index, text


class UnrequestedToolUse(_SamplingResultRule):
    """The model uses a tool that was not offered, or uses no tool although the request requires it.

    **Why it matters.** The server cannot run a tool that it does not have, and has to work with an incomplete answer.

    **On the wire.** A request without `tools` is answered with
    `> {"id":1,"result":{"content":{"type":"tool_use",…},…}}`

    **Instead.** Pass `tools` and `toolChoice` to the model unchanged, and add no tools of your own.
    """

    id = "sampling/unrequested-tool-use"
    versions = _TOOL_REVISIONS
    level = WARNING
    source = _PAGE

    def check_reply(
        self, context: MessageContext, question: dict[str, Any], reply: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        tools, mode = question.get("tools"), member(question.get("toolChoice"), "mode")
        offered_names = {name for tool in _checked_items(tools) if isinstance(name := member(tool, "name"), str)}
        tool_uses = _blocks(reply, "tool_use")
        text = None
        if tool_uses and not offered_names:
            text = "a tool is used, although none was offered"
        elif tool_uses and mode == "none":
            text = "a tool is used, although toolChoice forbids it"
        elif any(isinstance(name := block.get("name"), str) and name not in offered_names for block in tool_uses):
            text = "a tool is used that was not offered"
        elif not tool_uses and mode == "required" and offered_names:
            text = "no tool is used, although toolChoice requires one"
        if text is not None:
            yield self.finding(context, text, pointer=f"{pointer}/content")


class ToolChoiceWithoutTools(_SamplingRequestRule):
    """A request has `toolChoice`, but offers no tools.

    **Why it matters.** The model has no tool to choose, so with `required` the request is impossible.

    **On the wire.** `< …"method":"sampling/createMessage","params":{"toolChoice":{"mode":"auto"},…}` without `tools`

    **Instead.** Leave `toolChoice` out, or send `tools`.
    """

    id = "sampling/tool-choice-without-tools"
    versions = _TOOL_REVISIONS
    level = WARNING
    source = _PAGE

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        if params.get("toolChoice") is not None and not params.get("tools"):
            yield self.finding(context, "the request has toolChoice, but no tools", pointer=f"{pointer}/toolChoice")


class ResultRole(_SamplingResultRule):
    """The answer of the model has the role of the user.

    **Why it matters.** If the server adds it to the conversation, the model replies to its own answer.

    **On the wire.** `> {"id":1,"result":{"role":"user","content":{…},"model":"m"}}`

    **Instead.** `"role":"assistant"`
    """

    id = "sampling/result-role"
    level = WARNING
    impact = Impact.WRONG
    source = "2024-11-05 client/sampling"

    def check_reply(
        self, context: MessageContext, _question: dict[str, Any], reply: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        if reply.get("role") == "user":
            yield self.finding(context, "the role of the model's answer is user", pointer=f"{pointer}/role")


class MaxTokens(_SamplingRequestRule):
    """A request does not allow the model any tokens.

    **Why it matters.** Providers refuse it, so the client has needlessly asked the user for approval.

    **On the wire.** `< …"method":"sampling/createMessage","params":{"maxTokens":0,…}`

    **Instead.** Send a positive `maxTokens`.
    """

    id = "sampling/max-tokens"
    level = WARNING
    source = "2024-11-05 schema"

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        max_tokens = params.get("maxTokens")
        if isinstance(max_tokens, int | float) and not isinstance(max_tokens, bool) and max_tokens <= 0:
            yield self.finding(context, "maxTokens is not positive", pointer=f"{pointer}/maxTokens")


class NoMessages(_SamplingRequestRule):
    """A request has no messages.

    **Why it matters.** Most providers refuse a conversation that does not begin with a user's message.

    **On the wire.** `< …"method":"sampling/createMessage","params":{"messages":[],"maxTokens":100}`

    **Instead.** Send at least one message from the user.
    """

    id = "sampling/no-messages"
    level = NOTE
    source = "2024-11-05 client/sampling"

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        if params.get("messages") == []:
            yield self.finding(context, "the request has no messages", pointer=f"{pointer}/messages")


class Rejected(Rule):
    """The user has refused a sampling request.

    **Why it matters.** It is not a defect: users may refuse.

    **On the wire.** `> {"id":1,"error":{"code":-1,"message":"User rejected sampling request"}}`

    **Instead.** Continue without the model, and do not ask again at once.
    """

    id = "sampling/rejected"
    who = "client"
    level = NOTE
    methods = frozenset({_CREATE})
    sender = "client"
    source = "2024-11-05 client/sampling"

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        if code_of(context.message) != USER_REJECTED or context.request is None:
            return ()
        return [
            self.finding(context, "the user has declined the request", pointer="/error", related=(context.request.seq,))
        ]


# ---- shared by the rules


def _checked_items(value: object) -> list[Any]:
    return value[:MAX_CHECKED_ITEMS] if isinstance(value, list) else []


def _all_blocks(message: object) -> list[Any]:
    """Returns the blocks of a message, whose content is one block or a list of blocks."""
    content = member(message, "content")
    return [content] if isinstance(content, dict) else _checked_items(content)


def _blocks(message: object, type_: str) -> list[dict[str, Any]]:
    return [block for block in _all_blocks(message) if isinstance(block, dict) and block.get("type") == type_]


def _block_ids(message: object, type_: str, name: str) -> list[str]:
    """Returns the ids in all blocks of a type; `name` is the member with the id."""
    return [value for block in _blocks(message, type_) if isinstance(value := block.get(name), str)]


def _is_mixed(message: object) -> bool:
    result_count = len(_blocks(message, "tool_result"))
    return 0 < result_count < len(_all_blocks(message))


def _role_fault(message: object) -> str | None:
    role = member(message, "role")
    if role == "user" and _blocks(message, "tool_use"):
        return "a user message contains a tool use"
    if role == "assistant" and _blocks(message, "tool_result"):
        return "an assistant message contains a tool result"
    return None
