"""Calls to tools and their results, compared with the definitions of the tools."""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from analysis.conversation.call import MessageContext, Outcome
from analysis.protocol import features
from analysis.protocol.revisions import FIRST_MODERN_RANK
from analysis.rules.base import NOTE, WARNING
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, outcome_of, shortened
from analysis.rules.support.listings import tools_of
from analysis.rules.support.tool_definitions import (
    RESULT_METHODS,
    STRUCTURED_MEMBERS,
    ToolLookupRule,
    ToolResultRule,
    result_of,
)

MAX_CHECKED_BLOCKS: Final = 1_000
"""The most blocks of one result that are checked."""

_STRUCTURED: Final = "structuredContent"
_TOOL_ERROR: Final = Outcome.TOOL_ERROR  # enum members are slow to look up


class Unlisted(ToolLookupRule):
    """The client calls a tool that the server has not listed.

    **Why it matters.** The model invented the name or remembers it from elsewhere, and the host did not check it.

    **On the wire.** `< …"tools":[{"name":"add",…}]` and `> {"id":3,"method":"tools/call","params":{"name":"sum"}}`

    **Instead.** Check names against the list, and tell the model which tools exist.
    """

    id = "tool/unlisted"
    needs_session = True
    who = "client"
    level = WARNING
    impact = Impact.COST
    source = "2024-11-05 server/tools"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        name = member(request.params, "name") if request is not None else None
        if request is None or not isinstance(name, str):
            return ()
        if not tools_of(context.session).lacks(name, request, context.session):
            return ()
        return [
            self.finding(context, f"the tool {shortened(name)!r} is called, but not listed", pointer="/params/name")
        ]


class ArgumentsInvalid(ToolLookupRule):
    """The arguments of a call do not fit the schema of the tool.

    **Why it matters.** The call can only fail or do something unintended, and the model finds out late.

    **On the wire.** `> {"id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":"1"}}}` for a tool that
    expects numbers

    **Instead.** Validate the model's arguments against `inputSchema` before you send them, and let the model try again.
    """

    id = "tool/arguments-invalid"
    who = "client"
    level = WARNING
    impact = Impact.WRONG
    source = "2024-11-05 server/tools"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        tool, request = self.entry(context), context.request
        schema = tool.schema("inputSchema", context.rank) if tool is not None else None
        if tool is None or schema is None or request is None:
            return ()
        arguments = request.params.get("arguments", {})
        mismatch = schema.mismatch(arguments) if isinstance(arguments, dict) else None
        if mismatch is None:
            return ()
        pointer = f"/params/arguments{mismatch.pointer}"
        tool_name = shortened(member(request.params, "name"))
        text = f"the arguments do not fit the inputSchema of {tool_name!r}: {shortened(mismatch.sentence)}"
        return [self.finding(context, text, pointer=pointer, related=(tool.seq,))]


class StructuredMissing(ToolLookupRule):
    """A tool with an `outputSchema` returns a result without structured content.

    **Why it matters.** Clients that rely on `outputSchema` cannot use the result, and may refuse it.

    **On the wire.** A listed tool has `outputSchema`, but returns
    `< {"id":3,"result":{"content":[{"type":"text","text":"4"}]}}`

    **Instead.** Send `structuredContent` with every result, unless it has `"isError":true`.
    """

    id = "tool/structured-missing"
    who = "server"
    versions = features.STRUCTURED_CONTENT
    about = RESULT_METHODS
    source = "2025-06-18 server/tools"

    def check_result(self, context: MessageContext) -> Iterable[Finding]:
        if member(context.body["result"], _STRUCTURED) is not None:
            return ()
        result = result_of(context)
        if result is None or _STRUCTURED in result.body or result.body.get("isError") is True:
            return ()
        tool = self.entry(context, result.call)
        if tool is None or not isinstance(tool.item.get("outputSchema"), dict | bool):
            return ()
        text = "structuredContent is missing, although the tool has an outputSchema"
        return [self.finding(context, text, pointer=result.pointer, related=(tool.seq, result.call.seq))]


class StructuredInvalid(ToolLookupRule):
    """Structured content does not fit the `outputSchema` of the tool.

    **Why it matters.** Programs read structured content, and they rely on the schema.

    **On the wire.** `…"outputSchema":{"type":"object","required":["sum"]}`,
    `< {"id":3,"result":{"content":[…],"structuredContent":{"total":4}}}`

    **Instead.** Validate results against your own schema before you send them.
    """

    id = "tool/structured-invalid"
    who = "server"
    versions = features.STRUCTURED_CONTENT
    impact = Impact.WRONG
    about = RESULT_METHODS
    result_members = STRUCTURED_MEMBERS
    source = "2025-06-18 server/tools"

    def check_result(self, context: MessageContext) -> Iterable[Finding]:
        result = result_of(context)
        if result is None or _STRUCTURED not in result.body or result.body.get("isError") is True:
            return ()
        content, tool = result.body[_STRUCTURED], self.entry(context, result.call)
        if tool is None or (
            not isinstance(content, dict) and (context.rank is None or context.rank < FIRST_MODERN_RANK)
        ):
            return ()
        schema = tool.schema("outputSchema", context.rank)
        mismatch = schema.mismatch(content) if schema is not None else None
        if mismatch is None:
            return ()
        pointer = f"{result.pointer}/{_STRUCTURED}{mismatch.pointer}"
        text = f"structuredContent does not fit the tool's outputSchema: {shortened(mismatch.sentence)}"
        return [self.finding(context, text, pointer=pointer, related=(tool.seq, result.call.seq))]


class StructuredNotObject(ToolResultRule):
    """Structured content is not an object.

    **Why it matters.** Typed clients refuse the result.

    **On the wire.** `< {"id":3,"result":{"content":[…],"structuredContent":[1,2]}}`

    **Instead.** Wrap it: `{"items":[1,2]}`. Since 2026-07-28 any JSON value is allowed.
    """

    id = "tool/structured-not-object"
    versions = features.STRUCTURED_OBJECTS
    replaces = ("schema/*",)
    required_members = STRUCTURED_MEMBERS
    source = "2025-06-18 schema CallToolResult"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if isinstance(context.body["result"].get(_STRUCTURED), dict | None):
            return ()
        tool_result = result_of(context)
        if tool_result is None:
            return ()
        return [
            self.finding(context, "structuredContent is not an object", pointer=f"{tool_result.pointer}/{_STRUCTURED}")
        ]


class StructuredNotMirrored(ToolResultRule):
    """Structured content is not repeated in the result as text.

    **Why it matters.** Clients that do not support structured content show only the text, and most models get nothing
    else. Tools for Apps are exempt: there, structured content is what the UI shows, and the text is for the model.

    **On the wire.** `< {"id":3,"result":{"content":[{"type":"text","text":"done"}],"structuredContent":{"sum":4}}}`

    **Instead.** Add a block with the same content as JSON: `{"type":"text","text":"{\\"sum\\":4}"}`.
    """

    id = "tool/structured-not-mirrored"
    versions = features.STRUCTURED_CONTENT
    level = WARNING
    impact = Impact.WRONG
    once = True
    required_members = STRUCTURED_MEMBERS
    source = "2025-06-18 server/tools"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        tool_result = result_of(context)
        if (
            tool_result is None
            or tool_result.body.get(_STRUCTURED) is None
            or not isinstance(tool_result.body.get("content"), list)
        ):
            return ()
        listed_ui, tool_name = context.session.listed_ui, member(tool_result.call.params, "name")
        if listed_ui is not None and (tool_name in listed_ui.ui_tools or tool_name in listed_ui.app_tools):
            return ()
        if _is_mirrored(tool_result.body[_STRUCTURED], tool_result.body["content"]):
            return ()
        text = "no text block repeats structuredContent"
        return [self.finding(context, text, pointer=f"{tool_result.pointer}/content")]


class StructuredWithoutSchema(ToolLookupRule):
    """A result has structured content, but the tool has no `outputSchema`.

    **Why it matters.** This is legal, but clients do not know what to expect and cannot check it.

    **On the wire.** `< {"id":3,"result":{"content":[…],"structuredContent":{"sum":4}}}` from a tool without a schema

    **Instead.** Declare an `outputSchema`.
    """

    id = "tool/structured-without-schema"
    who = "server"
    versions = features.STRUCTURED_CONTENT
    level = NOTE
    once = True
    about = RESULT_METHODS
    result_members = STRUCTURED_MEMBERS
    source = "2025-06-18 server/tools"

    def check_result(self, context: MessageContext) -> Iterable[Finding]:
        result = result_of(context)
        if result is None or _STRUCTURED not in result.body:
            return ()
        tool = self.entry(context, result.call)
        if tool is None or "outputSchema" in tool.item:
            return ()
        text, pointer = (
            "the result has structuredContent, but the tool has no outputSchema",
            f"{result.pointer}/{_STRUCTURED}",
        )
        return [self.finding(context, text, pointer=pointer, related=(tool.seq,))]


class Failed(ToolResultRule):
    """A tool has failed.

    **Why it matters.** The protocol worked: the tool itself failed, and the model sees the error.

    **On the wire.** `< {"id":3,"result":{"content":[{"type":"text","text":"no such file"}],"isError":true}}`

    **Instead.** The response itself is not wrong; its text says what went wrong in the call.
    """

    id = "tool/failed"
    level = NOTE
    required_members = frozenset({"isError", "result"})
    source = "2024-11-05 server/tools"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        may_have_failed = method == "tasks/get" or outcome_of(like) is _TOOL_ERROR
        return may_have_failed and super().concerns(hook, method, like)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        tool_result = result_of(context)
        if tool_result is None or tool_result.body.get("isError") is not True:
            return ()
        name = member(tool_result.call.params, "name")
        text = f"the tool {shortened(name)!r} has failed" if isinstance(name, str) else "the tool has failed"
        return [self.finding(context, text, pointer=f"{tool_result.pointer}/isError", related=(tool_result.call.seq,))]


class ResourceWithoutCapability(ToolResultRule):
    """A result embeds a resource, but the server has not declared `resources`.

    **Why it matters.** The client cannot read the resource again, subscribe to it, or show its origin.

    **On the wire.** `< {"id":3,"result":{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"…"}}]}}`

    **Instead.** Declare `"resources":{}` and serve the resources that you embed, or send the text as a text block.
    """

    id = "tool/resource-without-capability"
    versions = features.STRUCTURED_CONTENT
    level = WARNING
    impact = Impact.HINT
    once = True
    required_word = b'"resource"'
    source = "2025-06-18 server/tools"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        capabilities = context.session.server_capabilities
        if capabilities is None or "resources" in capabilities:
            return ()
        tool_result = result_of(context)
        blocks = tool_result.body.get("content") if tool_result is not None else None
        for index, block in enumerate(blocks[:MAX_CHECKED_BLOCKS] if isinstance(blocks, list) else ()):
            if tool_result is not None and isinstance(block, dict) and block.get("type") == "resource":
                text = "a resource is embedded, although resources are not declared"
                return [self.finding(context, text, pointer=f"{tool_result.pointer}/content/{index}")]
        return ()


# ---- shared by the rules


def _is_mirrored(content: Any, blocks: list[Any]) -> bool:
    if len(blocks) > MAX_CHECKED_BLOCKS:
        return True  # too many blocks to check
    texts = [text for text in (member(block, "text") for block in blocks) if isinstance(text, str)]
    candidates = [content]
    if isinstance(content, dict) and content.keys() == {"result"}:
        # SDKs wrap a return value that is not an object, but write it unwrapped into the text.
        candidates.append(content["result"])
    if any(_is_text_of(text, value) for text in texts for value in candidates):
        return True
    items = candidates[-1]
    if not isinstance(items, list):
        return False
    # A list may have one block for each item; the items may be blocks themselves.
    if len(items) == len(texts) and all(map(_is_text_of, texts, items)):
        return True
    return len(items) == len(blocks) and all(map(_is_alike, items, blocks))


def _is_alike(item: Any, block: Any) -> bool:
    return isinstance(item, dict) and isinstance(block, dict) and item.get("type") == block.get("type")


_FIRST_CHARACTERS: Final[dict[type, str]] = {dict: "{", list: "[", str: '"', bool: "tf", type(None): "n"}


def _is_text_of(text: str, value: Any) -> bool:
    if text == value:
        return True
    # Having the parser refuse text that is not JSON would cost more than everything else here.
    first_character = text[:1] if text[:1] > " " else text.lstrip()[:1]
    if first_character not in _FIRST_CHARACTERS.get(type(value), "-0123456789") or not first_character:
        return False
    try:
        return bool(orjson.loads(text) == value)
    except ValueError:
        return False
    except RecursionError:
        return True  # too deep to compare
