"""The group `resource`: lists of resources and templates, and the contents of resources."""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.protocol.revisions import HANDSHAKE_ERA, Span
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.eras import member
from analysis.rules.support.listings import resources_of, templates_of
from analysis.rules.unchanged_content import WordsScope

MAX_CHECKED_ITEMS: Final = 10_000
"""The most items of one result that are checked."""
MAX_REMEMBERED_SIZES: Final = 10_000
"""The most resources whose sizes are remembered."""

_LIST: Final = "resources/list"
_TEMPLATES: Final = "resources/templates/list"
_CHANGED: Final = "notifications/resources/list_changed"
_VARIABLE_PATTERN: Final = (
    r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9][0-9]{0,3}|\*)?"
)
_is_expression: Final = re.compile(rf"[+#./;?&]?{_VARIABLE_PATTERN}(?:,{_VARIABLE_PATTERN})*").fullmatch


class _ResourceResultRule(Rule):
    """The base class of the rules in this module."""

    who = "server"
    sender = "server"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result = context.body["result"]
        if not isinstance(result, dict):
            return ()
        return self.capped(self.check_result(context, result))

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterator[Finding]:
        """Check a result."""
        raise NotImplementedError


class DuplicateUri(_ResourceResultRule):
    """Two resources of one list have the same URI, or two templates have the same `uriTemplate`.

    **Why it matters.** The URI identifies a resource: clients show only one of the two, or show the same resource
    twice.

    **On the wire.** `< {"id":2,"result":{"resources":[{"uri":"file:///a","name":"a"},{"uri":"file:///a","name":"b"}]}}`

    **Instead.** List each resource once.
    """

    id = "resource/duplicate-uri"
    follows = ("page/loop",)
    level = WARNING
    methods = frozenset({_LIST, _TEMPLATES, _CHANGED})
    source = "2024-11-05 server/resources"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        resources_of(context.session).on_list_changed(context)
        templates_of(context.session).on_list_changed(context)
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        listing = resources_of(context.session) if context.method == _LIST else templates_of(context.session)
        repeats = listing.record_page(context).repeats
        return self.capped(self._findings(context, repeats)) if repeats else ()

    def _findings(self, context: MessageContext, repeats: list[tuple[int, int]]) -> Iterator[Finding]:
        list_name, uri_name = ("resources", "uri") if context.method == _LIST else ("resourceTemplates", "uriTemplate")
        for index, earlier_seq in repeats:
            related = () if earlier_seq == context.message.seq else (earlier_seq,)
            text = f"an earlier item of the list has the same {uri_name}"
            yield self.finding(context, text, pointer=f"/result/{list_name}/{index}/{uri_name}", related=related)


class Template(_ResourceResultRule):
    """A `uriTemplate` is not a valid template (RFC 6570).

    **Why it matters.** It cannot be expanded to a URI: libraries refuse it, or leave braces in the URI.

    **On the wire.** `< {"id":2,"result":{"resourceTemplates":[{"uriTemplate":"file:///{path","name":"file"}]}}`

    **Instead.** Write `file:///{path}`, with names in closed braces that are not nested.
    """

    id = "resource/template"
    level = WARNING
    impact = Impact.MESSAGE
    methods = frozenset({_TEMPLATES})
    source = "2024-11-05 server/resources"

    def decisive_words(self, _hook: str, _method: str, _like: MessageContext) -> WordsScope | None:
        return "result"

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterator[Finding]:
        for index, item in enumerate(_items(result.get("resourceTemplates"))):
            template = member(item, "uriTemplate")
            fault = _template_fault(template) if isinstance(template, str) else None
            if fault is not None:
                pointer = f"/result/resourceTemplates/{index}/uriTemplate"
                yield self.finding(context, f"a uriTemplate {fault}", pointer=pointer)


class ContentsUri(_ResourceResultRule):
    """Reading a resource returns only contents with other URIs.

    **Why it matters.** This is legal, for example for aliases, but clients that look for the requested URI do not find
    it.

    **On the wire.** `> {"id":3,"method":"resources/read","params":{"uri":"file:///a"}}`
    `< {"id":3,"result":{"contents":[{"uri":"file:///b","text":"…"}]}}`

    **Instead.** Answer with the requested URI, or with URIs below it.
    """

    id = "resource/contents-uri"
    level = NOTE
    methods = frozenset({"resources/read"})
    source = "2024-11-05 server/resources"

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterator[Finding]:
        uri = member(context.request.params, "uri") if context.request is not None else None
        uris = [member(content, "uri") for content in _items(result.get("contents"))]
        if not isinstance(uri, str) or not uris or not all(isinstance(content_uri, str) for content_uri in uris):
            return
        if not any(content_uri.startswith(uri) for content_uri in uris):
            text = "no content has the requested URI or a URI below it"
            related = (context.request.seq,) if context.request is not None else ()
            yield self.finding(context, text, pointer="/result/contents", related=related)


class EmptyContents(_ResourceResultRule):
    """Reading a resource returns no contents at all.

    **Why it matters.** Clients cannot distinguish an empty resource from one that does not exist.

    **On the wire.** `< {"id":3,"result":{"contents":[]}}`

    **Instead.** Send one item with an empty `text` for an empty resource, and an error for one that does not exist.
    """

    id = "resource/empty-contents"
    level = WARNING
    levels: ClassVar[Mapping[Span, Level]] = {HANDSHAKE_ERA: NOTE}
    methods = frozenset({"resources/read"})
    source = "2026-07-28 server/resources"

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterator[Finding]:
        if result.get("contents") == []:
            yield self.finding(context, "the result of reading a resource has no contents", pointer="/result/contents")


class Size(_ResourceResultRule):
    """The size of a resource is negative, or differs from the size of its contents.

    **Why it matters.** Hosts use the size to estimate how much of a model's context a resource will take.

    **On the wire.** `< {"id":2,"result":{"resources":[{"uri":"file:///a","name":"a","size":-1}]}}`

    **Instead.** Count the bytes before any encoding; leave `size` out if it is not known.
    """

    id = "resource/size"
    level = WARNING
    methods = frozenset({_LIST, "resources/read"})
    source = "2025-03-26 server/resources, schema Resource"

    def required_word_for(self, _hook: str, method: str, _like: MessageContext) -> bytes:
        return b'"size"' if method == _LIST else b""  # few servers send sizes at all

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        may_have_sizes = context.method == _LIST or self.id in context.session.memory
        return super().on_result(context) if may_have_sizes else ()

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterator[Finding]:
        sizes: dict[str, tuple[int, int]] = self.state_for(context.session, dict)
        if context.method == _LIST:
            for index, item in enumerate(_items(result.get("resources"))):
                uri, size = member(item, "uri"), member(item, "size")
                if type(size) is not int:
                    continue
                if size < 0:
                    yield self.finding(context, "a size is negative", pointer=f"/result/resources/{index}/size")
                elif isinstance(uri, str) and (uri in sizes or len(sizes) < MAX_REMEMBERED_SIZES):
                    sizes[uri] = size, context.message.seq
            return
        contents = _items(result.get("contents"))
        listed_size = sizes.get(member(contents[0], "uri")) if sizes and len(contents) == 1 else None
        content_size = _content_size(contents[0]) if listed_size is not None else None
        if listed_size is not None and content_size is not None and content_size != listed_size[0]:
            text = f"a resource of {content_size} bytes was listed with the size {listed_size[0]}"
            yield self.finding(context, text, pointer="/result/contents/0", related=(listed_size[1],), level=NOTE)


# ---- shared by the rules


def _items(value: object) -> list[Any]:
    return value[:MAX_CHECKED_ITEMS] if isinstance(value, list) else []


def _template_fault(template: str) -> str | None:
    """Returns what is wrong with a template, or None if it is valid."""
    for index, piece in enumerate(template.split("{")):
        expression, brace, literal = piece.partition("}")
        if index == 0:
            if brace:
                return "closes a brace that was not opened"
            continue
        if not brace:
            return "has a brace within a brace, or one that is not closed"
        if "}" in literal:
            return "closes a brace that was not opened"
        if not _is_expression(expression):
            return "has an expression that RFC 6570 does not define"
    return None


def _content_size(content: object) -> int | None:
    """Returns the size of an item of `contents` in bytes, or None if it has no data or cannot be decoded."""
    text, blob = member(content, "text"), member(content, "blob")
    try:
        if isinstance(text, str):
            return len(text.encode())
        return len(b64decode(blob, validate=True)) if isinstance(blob, str) else None
    except ValueError:
        return None
