"""The contents of tool schemas: external references, and arguments that are sent as headers."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.call import MessageContext
from analysis.json_schema.validator import Schema
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import WARNING
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.listings import ListPage
from analysis.rules.support.tool_definitions import ToolLookupRule
from analysis.rules.tool.lists import PageRule, schemas_in

MAX_SCHEMA_PARTS: Final = 10_000
"""The most schemas inside a schema that are checked."""
HEADER_KEYWORD: Final = "x-mcp-header"

_SCHEMA_KEYWORDS: Final = frozenset(
    {
        *("additionalProperties", "additionalItems", "unevaluatedItems", "unevaluatedProperties", "propertyNames"),
        *("contains", "not", "if", "then", "else", "contentSchema", "items"),
    }
)
_SCHEMA_LIST_KEYWORDS: Final = frozenset({"prefixItems", "allOf", "anyOf", "oneOf", "items"})
_SCHEMA_MAP_KEYWORDS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_HEADER_NAME_CHARACTERS: Final = frozenset(
    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
_SCALARS: Final = ("string", "integer", "boolean")
_NETWORK_SCHEMES: Final = ("http:", "https:", "ftp:", "ftps:", "sftp:", "ws:", "wss:")
_SECRET_NAME_ENDINGS: Final = (
    *("password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential", "ssn"),
    "api-key",
)


class SchemaPart(NamedTuple):
    """A schema inside a schema."""

    schema: dict[str, Any]
    pointer: str
    name: str | None
    """The name of the member that it describes if it is reached only through `properties`; None otherwise, and at the
    root."""


class Annotation(NamedTuple):
    """An `x-mcp-header` in a schema."""

    pointer: str
    name: str
    """The name of the annotated member; empty if the annotation does not belong to one."""
    fault: str | None
    """What is wrong with the annotation; None if it is valid."""


def parts_of(schema: object) -> Iterator[SchemaPart]:
    """Yields all schemas in a schema, beginning with the schema itself; skips data such as `default` and `enum`."""
    stack: list[tuple[Any, str, str | None, bool]] = [(schema, "", None, True)]
    for _ in range(MAX_SCHEMA_PARTS):
        if not stack:
            return
        current, pointer, name, is_chain = stack.pop()
        if not isinstance(current, dict):
            continue
        yield SchemaPart(current, pointer, name)
        children: list[tuple[Any, str, str | None, bool]] = []
        for key, value in current.items():
            child_pointer = f"{pointer}/{encode_step(key, 200)}"
            if key in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
                is_properties = is_chain and key == "properties"
                for member, part in value.items():
                    children.append(
                        (
                            part,
                            f"{child_pointer}/{encode_step(member, 200)}",
                            member if is_properties else None,
                            is_properties,
                        )
                    )
            elif key in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
                children += [(part, f"{child_pointer}/{index}", None, False) for index, part in enumerate(value)]
            elif key in _SCHEMA_KEYWORDS:
                children.append((value, child_pointer, None, False))
        stack += reversed(children)


def annotations_of(schema: Schema, value: object) -> list[Annotation]:
    """Returns the `x-mcp-header` annotations of a tool's arguments, which are collected once for each schema."""
    annotations: list[Annotation] | None = schema.memory.get(HEADER_KEYWORD)
    if annotations is None:
        annotations = schema.memory[HEADER_KEYWORD] = list(_annotations(value))
    return annotations


def _annotations(value: object) -> Iterator[Annotation]:
    seen: set[str] = set()
    for part in parts_of(value):
        if HEADER_KEYWORD not in part.schema:
            continue
        header, fault = part.schema[HEADER_KEYWORD], None
        if not isinstance(header, str):
            fault = "is not a string"
        elif not header or not _HEADER_NAME_CHARACTERS.issuperset(header):
            fault = "is empty" if not header else "is not a valid header name"
        elif header.lower() in seen:
            fault = "is also used by another member"
        elif part.name is None:
            fault = "is not reached only through properties"
        elif part.schema.get("type") not in _SCALARS:
            fault = "is on a member that is not a string, integer or boolean"
        if isinstance(header, str):
            seen.add(header.lower())
        yield Annotation(f"{part.pointer}/{HEADER_KEYWORD}", part.name or "", fault)


class SchemaExternalRef(PageRule):
    """A schema of a tool refers to another schema on the network.

    **Why it matters.** Clients must not fetch it automatically, so they cannot use the schema. A client that does fetch
    it lets the server send requests from inside the client's network.

    **On the wire.** `…"inputSchema":{"type":"object","properties":{"at":{"$ref":"https://example.com/geo.json"}}}`

    **Instead.** Put the definitions into the schema, under `$defs`, and refer to `#/$defs/geo`.
    """

    id = "tool/schema-external-ref"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.SECURITY
    source = "2026-07-28 basic/index"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, value, name in schemas_in(page):
            schema = page.schema(index, name, context.rank)
            if schema is None:
                continue
            pointers: list[str] | None = schema.memory.get(self.id)
            if pointers is None:
                pointers = schema.memory[self.id] = _external_references(value)
            for pointer in pointers:
                text = f"{name} refers to a schema on the network"
                yield self.finding(context, text, pointer=f"/result/tools/{index}/{name}{pointer}")


class HeaderAnnotation(PageRule):
    """An `x-mcp-header` does not name a valid header.

    **Why it matters.** Clients have to drop tools with such an annotation, so they cannot be called over HTTP.

    **On the wire.** `…"properties":{"region":{"type":"string","x-mcp-header":"my region"}}`

    **Instead.** Use a name of letters, digits and hyphens that no other argument of the tool uses, such as
    `"x-mcp-header":"Region"`. Put it on a string, integer or boolean that is reached only through `properties`.
    """

    id = "tool/header-annotation"
    versions = MODERN_ERA
    source = "2026-07-28 basic/transports/streamable-http, server/tools"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, value, name in schemas_in(page):
            schema = page.schema(index, name, context.rank)
            if schema is None or name != "inputSchema":
                continue
            for annotation in annotations_of(schema, value):
                if annotation.fault is not None:
                    pointer = f"/result/tools/{index}/{name}{annotation.pointer}"
                    yield self.finding(context, f"an {HEADER_KEYWORD} {annotation.fault}", pointer=pointer)


class HeaderAnnotationSensitive(PageRule):
    """An argument of a tool is sent as a header although its name suggests a secret.

    **Why it matters.** Proxies and load balancers along the way log headers, but not bodies.

    **On the wire.** `…"properties":{"api_key":{"type":"string","x-mcp-header":"Key"}}`

    **Instead.** Leave secrets in the body; better still, keep them away from the model.
    """

    id = "tool/header-annotation-sensitive"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.SECURITY
    source = "2026-07-28 server/tools"

    def check_page(self, context: MessageContext, page: ListPage) -> Iterator[Finding]:
        for index, value, name in schemas_in(page):
            schema = page.schema(index, name, context.rank)
            if schema is None or name != "inputSchema":
                continue
            for annotation in annotations_of(schema, value):
                if annotation.name.lower().endswith(_SECRET_NAME_ENDINGS):
                    pointer = f"/result/tools/{index}/{name}{annotation.pointer}"
                    yield self.finding(
                        context, "an argument that looks like a secret is sent as a header", pointer=pointer
                    )


class HeaderAnnotationCalled(ToolLookupRule):
    """The client calls a tool whose `x-mcp-header` is invalid.

    **Why it matters.** The client should have dropped the tool: it cannot send the header that the server uses for
    routing and checks.

    **On the wire.** `< …"x-mcp-header":"my region"` in a list, and `> {"id":3,"method":"tools/call",…}` for that tool

    **Instead.** Do not offer tools with invalid annotations to the model, and tell the server's developers.
    """

    id = "tool/header-annotation-called"
    who = "client"
    versions = MODERN_ERA
    needs_http = True
    source = "2026-07-28 server/tools"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        tool, request = self.entry(context), context.request
        schema = tool.schema("inputSchema", context.rank) if tool is not None else None
        if tool is None or schema is None or request is None or context.session.is_legacy:
            return ()
        if all(annotation.fault is None for annotation in annotations_of(schema, tool.item["inputSchema"])):
            return ()
        text = f"a tool with an invalid {HEADER_KEYWORD} is called"
        return [self.finding(context, text, pointer="/params/name", related=(tool.seq,))]


# ---- shared by the rules


def _external_references(value: object) -> list[str]:
    references, own_ids = list[tuple[str, str]](), set[str]()
    for part in parts_of(value):
        target, schema_id = part.schema.get("$ref"), part.schema.get("$id")
        if isinstance(schema_id, str):
            own_ids.add(schema_id.partition("#")[0])
        if isinstance(target, str) and target.lower().startswith(_NETWORK_SCHEMES):
            references.append((f"{part.pointer}/$ref", target.partition("#")[0]))
    return [pointer for pointer, target in references if target not in own_ids]
