"""Lists of tools: names, order, and kinds of schemas."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.json_schema.dialects import DEFAULT_DIALECT, dialect_of
from analysis.protocol import features
from analysis.protocol.revisions import MODERN_ERA, Span, before
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.listings import ListPage, tools_of
from analysis.rules.unchanged_content import WordsScope

_NAME_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_MAX_TOOL_NAME_CHARS: Final = 128
_SCHEMA_MEMBERS: Final = ("inputSchema", "outputSchema")


class ToolListRule(Rule):
    """The base class of the rules about a page of tools."""

    who = "server"
    sender = "server"
    methods = frozenset({"tools/list"})

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        page = tools_of(context.session).record_page(context)
        return self.capped(self.check_page(context, page)) if page.items else ()

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        """Check a page of tools."""
        raise NotImplementedError


class PageRule(ToolListRule):
    """The base class of the rules that depend only on the page."""

    def decisive_words(self, _hook: str, _method: str, _like: MessageContext) -> WordsScope | None:
        return "result"


class DuplicateName(ToolListRule):
    """Two tools of one list have the same name.

    **Why it matters.** Calls identify a tool only by its name: one of the two can never be called, and clients differ
    in which one that is.

    **On the wire.** `< {"id":2,"result":{"tools":[{"name":"search",…},{"name":"search",…}]}}`

    **Instead.** Give each tool a unique name, for example with a prefix for its origin.
    """

    id = "tool/duplicate-name"
    follows = ("page/loop",)
    level = WARNING
    source = "2024-11-05 server/tools; 2025-11-25 server/tools"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, earlier_seq in page.repeats:
            related = () if earlier_seq == context.message.seq else (earlier_seq,)
            text = "an earlier tool of the list has the same name"
            yield self.finding(context, text, pointer=f"/result/tools/{index}/name", related=related)


class Name(PageRule):
    """The name of a tool is empty, longer than 128 characters, or has characters other than letters, digits and `_-.`.

    **Why it matters.** Hosts pass names to model providers, which refuse invalid names, and often the whole request.

    **On the wire.** `< {"id":2,"result":{"tools":[{"name":"search files",…}]}}`

    **Instead.** Use a name such as `search_files`, and put the text for people into `title`.
    """

    id = "tool/name"
    level = WARNING
    levels: ClassVar[Mapping[Span, Level]] = {before(features.TOOL_NAME_FORMAT): NOTE}
    source = "2025-11-25 server/tools"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, item in enumerate(page.items):
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str) or (
                0 < len(name) <= _MAX_TOOL_NAME_CHARS and _NAME_CHARACTERS.issuperset(name)
            ):
                continue
            fault = (
                f"has {len(name)} characters"
                if not 0 < len(name) <= _MAX_TOOL_NAME_CHARS
                else "has characters that are not allowed"
            )
            yield self.finding(context, f"the name of a tool {fault}", pointer=f"/result/tools/{index}/name")


class InputSchemaNotObject(PageRule):
    """The `inputSchema` of a tool is missing, or does not describe an object.

    **Why it matters.** Arguments are always an object. Typed clients refuse the whole list because of one such tool.

    **On the wire.** `< {"id":2,"result":{"tools":[{"name":"now","inputSchema":{}}]}}`

    **Instead.** Send `{"type":"object","properties":{…}}`, or `{"type":"object"}` for a tool without arguments.
    """

    id = "tool/input-schema-not-object"
    replaces = ("schema/*",)
    source = "2024-11-05 schema Tool; 2025-11-25 server/tools"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, item in enumerate(page.items):
            schema = item.get("inputSchema") if isinstance(item, dict) else {"type": "object"}
            if not isinstance(schema, dict):
                fault = "is missing" if "inputSchema" not in item else "is not an object"
                yield self.finding(context, f"inputSchema {fault}", pointer=f"/result/tools/{index}/inputSchema")
            elif schema.get("type") != "object":
                text = 'inputSchema lacks "type": "object"'
                yield self.finding(context, text, pointer=f"/result/tools/{index}/inputSchema/type")


class OutputSchemaNotObject(PageRule):
    """The `outputSchema` of a tool does not describe an object.

    **Why it matters.** Until 2026-07-28 structured content was always an object: clients refuse a tool that declares
    anything else, or the whole list.

    **On the wire.** `< {"id":2,"result":{"tools":[{"name":"ids",…,"outputSchema":{"type":"array"}}]}}`

    **Instead.** Wrap it: `{"type":"object","properties":{"ids":{"type":"array"}}}`. Since 2026-07-28 all types are
    allowed.
    """

    id = "tool/output-schema-not-object"
    versions = features.STRUCTURED_OBJECTS
    replaces = ("schema/*",)
    source = "2025-06-18 schema Tool"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, item in enumerate(page.items):
            schema = item.get("outputSchema") if isinstance(item, dict) else None
            if schema is None or (isinstance(schema, dict) and schema.get("type") == "object"):
                continue
            pointer = f"/result/tools/{index}/outputSchema{'/type' if isinstance(schema, dict) else ''}"
            yield self.finding(context, 'outputSchema lacks "type": "object"', pointer=pointer)


class SchemaInvalid(PageRule):
    """A schema of a tool is not a valid JSON Schema.

    **Why it matters.** Models cannot make sense of it, and validators refuse all arguments, or none.

    **On the wire.** `…"inputSchema":{"type":"object","properties":{"a":{"type":"strin"}}}`

    **Instead.** Validate your schemas against the metaschema of their dialect, which is 2020-12 unless `$schema` names
    another.
    """

    id = "tool/schema-invalid"
    levels: ClassVar[Mapping[Span, Level]] = {before(features.SCHEMA_DIALECT): WARNING}
    impact = Impact.WRONG
    replaces = ("schema/*",)
    source = "2025-11-25 basic/index"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, _, name in schemas_in(page):
            schema = page.schema(index, name, context.rank)
            fault = schema.fault if schema is not None else None
            if fault is not None:
                text = f"{name} is not a valid schema: {fault.text}"
                yield self.finding(context, text, pointer=f"/result/tools/{index}/{name}{fault.pointer}")


class SchemaDialect(PageRule):
    """A schema of a tool is written in a dialect other than 2020-12.

    **Why it matters.** This is legal, but clients must support only 2020-12: they may misread other dialects as
    2020-12, or ignore the schema.

    **On the wire.** `…"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",…}`

    **Instead.** Write 2020-12 and leave `$schema` out.
    """

    id = "tool/schema-dialect"
    versions = features.SCHEMA_DIALECT
    level = NOTE
    source = "2025-11-25 basic/index"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, schema, name in schemas_in(page):
            if not isinstance(schema, dict) or "$schema" not in schema or dialect_of(schema) == DEFAULT_DIALECT:
                continue
            dialect_name = dialect_of(schema)
            draft = f"draft {dialect_name}" if dialect_name is not None else "an unknown draft, so it was not checked"
            text = f"the dialect of {name} is {draft}"
            yield self.finding(context, text, pointer=f"/result/tools/{index}/{name}/$schema")


class ListOrder(ToolListRule):
    """A server lists the same tools in a different order.

    **Why it matters.** Tool definitions are at the beginning of a prompt. In a different order they miss the provider's
    prompt cache, so each turn costs the full price.

    **On the wire.** `< …"tools":[{"name":"a",…},{"name":"b",…}]` and later `< …"tools":[{"name":"b",…},{"name":"a",…}]`

    **Instead.** List tools in a fixed order, by name or in order of registration, never in hash order.
    """

    id = "tool/list-order"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.COST
    once = True
    source = "2026-07-28 server/tools"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        if page.reordered is not None:
            text = "the same tools were listed in a different order before"
            yield self.finding(context, text, pointer="/result/tools", related=(page.reordered,))


def schemas_in(page: ListPage) -> Iterator[tuple[int, Any, str]]:
    """Yields the schemas of a page: the position of the tool, the schema (a value of any type), and its member."""
    for index, item in enumerate(page.items):
        if isinstance(item, dict):
            for name in _SCHEMA_MEMBERS:
                if name in item:
                    yield index, item[name], name
