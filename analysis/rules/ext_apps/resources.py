"""UI resources: their URIs, types, contents and `_meta`."""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import orjson

from analysis.conversation.call import MessageContext
from analysis.conversation.request_meta import missing_meta
from analysis.facts import code_of
from analysis.protocol.error_codes import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from analysis.protocol.json_pointer import encode_step
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.error.codes import code_text
from analysis.rules.ext_apps.capability import SOURCE, UI_MIME_TYPE
from analysis.rules.ext_apps.tool_meta import RESOURCE_MEMBERS, TOOL_MEMBERS, UI_SCHEME
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.listings import MAX_LISTED_ITEMS

LIST_RESOURCES: Final = "resources/list"
READ_RESOURCE: Final = "resources/read"
CSP_MEMBERS: Final = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
"""Members of `csp`, each an array of origins."""
PERMISSIONS: Final = ("camera", "microphone", "geolocation", "clipboardWrite")
"""Members of `permissions`."""
MAX_EXAMINED_CHARS: Final = 1 << 16
"""The most characters at the start of a page that are examined."""

_NOT_FOUND_CODES: Final = frozenset({RESOURCE_NOT_FOUND, INVALID_PARAMS, METHOD_NOT_FOUND})
_is_not_found: Final = re.compile(r"not[ _]?found|unknown resource|no such", re.IGNORECASE).search
_is_spelled_differently: Final = re.compile(r'\s*text/html\s*;\s*profile="?mcp-app"?\s*', re.IGNORECASE).fullmatch
_has_tag: Final = re.compile(r"<[A-Za-z!?/]").search
_begins_with_doctype: Final = re.compile(r"<!doctype\s+html", re.IGNORECASE).match
_MAX_REPORTED_MEMBERS: Final = 10


class UiItem(NamedTuple):
    """A UI resource in a list, or its contents."""

    item: dict[str, Any]
    pointer: str
    uri: str
    listed_seq: int | None
    """Number of the message with a tool that names the resource as its UI; None if no tool is known to do so."""

    @property
    def related(self) -> tuple[int, ...]:
        """The numbers of other messages that show that it is a UI resource."""
        return () if self.listed_seq is None else (self.listed_seq,)


class UiResourceRule(Rule):
    """The base class of the rules about UI resources, in lists and when they are read."""

    who = "server"
    sender = "server"
    methods = frozenset({LIST_RESOURCES, READ_RESOURCE})
    required_word = b'"ui:'
    source = SOURCE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self.capped(finding for ui_item in ui_items(context) for finding in self.check_item(context, ui_item))

    def check_item(self, context: MessageContext, ui_item: UiItem) -> Iterator[Finding]:
        """Yields findings about a UI resource."""
        raise NotImplementedError


class ResourceMissing(Rule):
    """A server does not find the UI that one of its tools names.

    **Why it matters.** The host shows the results of the tool without a UI, or an error in its place.

    **On the wire.** `< …"_meta":{"ui":{"resourceUri":"ui://chart/view"}}` …
    `> {"id":3,"method":"resources/read","params":{"uri":"ui://chart/view"}}`
    `< {"id":3,"error":{"code":-32002,"message":"Resource not found"}}`

    **Instead.** Register the resource under exactly the URI that the tool names. It need not be in `resources/list`.
    """

    id = "ext-apps/resource-missing"
    who = "server"
    sender = "server"
    methods = frozenset({READ_RESOURCE})
    source = SOURCE

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        request, listed_ui, code = context.request, context.session.listed_ui, code_of(context.message)
        uri = member(request.params, "uri") if request is not None else None
        if request is None or listed_ui is None or not isinstance(uri, str) or context.method != READ_RESOURCE:
            return ()
        listed_seq = listed_ui.uris.get(uri)
        if listed_seq is None or listed_seq > request.seq or not uri.startswith(UI_SCHEME):
            return ()
        if context.era == "modern" and missing_meta(request) is not None:
            return ()  # the error is about the envelope
        message = member(context.body.get("error"), "message")
        if code not in _NOT_FOUND_CODES and not (isinstance(message, str) and _is_not_found(message[:1000])):
            return ()
        reason = "" if code is None else f" ({code_text(code)})"
        text = f"the UI that a tool names cannot be read{reason}"
        return [self.finding(context, text, pointer="/error", related=(listed_seq, request.seq))]


class ResourceType(UiResourceRule):
    """The type of a UI resource is not `text/html;profile=mcp-app`.

    **Why it matters.** Hosts compare the type character by character, and do not show a resource of any other type.

    **On the wire.** `< {"id":3,"result":{"contents":[{"uri":"ui://chart/view","mimeType":"text/html","text":"…"}]}}`
    for the UI of a tool

    **Instead.** Send `"mimeType":"text/html;profile=mcp-app"`, in `resources/list` as well.
    """

    id = "ext-apps/resource-type"

    def check_item(self, context: MessageContext, ui_item: UiItem) -> Iterator[Finding]:
        mime_type = ui_item.item.get("mimeType")
        if mime_type == UI_MIME_TYPE or ui_item.listed_seq is None:
            return  # other kinds of UI had this scheme first
        is_read, pointer = context.method == READ_RESOURCE, f"{ui_item.pointer}/mimeType"
        if mime_type is None:
            if is_read:
                text = f"the UI of a tool has no mimeType; it must be {UI_MIME_TYPE}"
                yield self.finding(context, text, pointer=ui_item.pointer, related=ui_item.related)
        elif isinstance(mime_type, str):
            is_equal = _is_spelled_differently(mime_type[:1000]) is not None
            text = f"the mimeType of a tool's UI is {shortened(mime_type)!r}, not {UI_MIME_TYPE}"
            level = None if is_read and not is_equal else WARNING
            yield self.finding(context, text, pointer=pointer, related=ui_item.related, level=level)


class ResourceScheme(Rule):
    """A resource has the type of a UI, but a URI that does not begin with `ui://`.

    **Why it matters.** Hosts recognise UIs by their URIs, and do not show this one.

    **On the wire.** `< …"resources":[{"uri":"file:///chart.html","mimeType":"text/html;profile=mcp-app",…}]`

    **Instead.** Give it a URI such as `ui://chart/view`.
    """

    id = "ext-apps/resource-scheme"
    who = "server"
    sender = "server"
    methods = frozenset({LIST_RESOURCES, READ_RESOURCE})
    required_word = b"profile=mcp-app"
    source = SOURCE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self.capped(self._findings(context))

    def _findings(self, context: MessageContext) -> Iterator[Finding]:
        for item, pointer in _resource_items(context):
            uri = item.get("uri")
            if item.get("mimeType") == UI_MIME_TYPE and isinstance(uri, str) and not uri.startswith(UI_SCHEME):
                text = f"the URI of a resource that has the type of a UI does not begin with {UI_SCHEME}"
                yield self.finding(context, text, pointer=f"{pointer}/uri")


class NotHtml(UiResourceRule):
    """A UI resource contains no HTML.

    **Why it matters.** The host shows an empty frame, or the text as it is.

    **On the wire.** `< …"contents":[{"uri":"ui://chart/view","mimeType":"text/html;profile=mcp-app","text":"{}"}]`

    **Instead.** Send the whole page, which begins with `<!doctype html>`. The app gets its data from the result of the
    tool.
    """

    id = "ext-apps/not-html"
    methods = frozenset({READ_RESOURCE})

    def check_item(self, context: MessageContext, ui_item: UiItem) -> Iterator[Finding]:
        page = page_of(ui_item)
        if page is not None and not is_html(page):
            place, fault = f"{ui_item.pointer}/{_content_member(ui_item)}", "not HTML" if page.strip() else "empty"
            yield self.finding(context, f"the page of a UI is {fault}", pointer=place, related=ui_item.related)


class WithoutDoctype(UiResourceRule):
    """The page of a UI does not begin with `<!doctype html>`.

    **Why it matters.** Apps requires a valid HTML5 document. Without the doctype, browsers lay out the page in quirks
    mode.

    **On the wire.** `< …"mimeType":"text/html;profile=mcp-app","text":"<div id=chart></div><script>…"`

    **Instead.** `<!doctype html><html><head>…`
    """

    id = "ext-apps/without-doctype"
    level = NOTE
    once = True
    methods = frozenset({READ_RESOURCE})

    def check_item(self, context: MessageContext, ui_item: UiItem) -> Iterator[Finding]:
        page = page_of(ui_item)
        if page is not None and is_html(page) and not has_doctype(page):
            place = f"{ui_item.pointer}/{_content_member(ui_item)}"
            text = "the page of a UI does not begin with <!doctype html>"
            yield self.finding(context, text, pointer=place, related=ui_item.related)


class ResourceMeta(UiResourceRule):
    """`_meta.ui` of a UI resource, or one of its members, has the wrong type.

    **Why it matters.** Hosts that check types ignore all of it: the UI cannot reach its server or use the camera.
    Others fail.

    **On the wire.** `…"_meta":{"ui":{"csp":{"connectDomains":"https://api.example.com"},"permissions":["camera"]}}`

    **Instead.** `{"csp":{"connectDomains":["https://api.example.com"]},"permissions":{"camera":{}}}`; `domain` is a
    string, and `prefersBorder` a boolean.
    """

    id = "ext-apps/resource-meta"

    def check_item(self, context: MessageContext, ui_item: UiItem) -> Iterator[Finding]:
        meta = member(ui_item.item, "_meta")
        if isinstance(meta, dict) and "ui" in meta:
            for place, name, fault in _meta_faults(meta["ui"]):
                yield self.finding(
                    context, f"{name} of a UI resource {fault}", pointer=f"{ui_item.pointer}/_meta/ui{place}"
                )


class UnknownMember(UiResourceRule):
    """`_meta.ui` of a UI resource has a member that Apps does not define there.

    **Why it matters.** It may be meant for one host. If it is a mistake, all hosts ignore it, and the UI lacks what it
    asks for.

    **On the wire.** `…"_meta":{"ui":{"csp":{"connect_domains":["https://api.example.com"]}}}`

    **Instead.** `csp` has `connectDomains`, `resourceDomains`, `frameDomains` and `baseUriDomains`; `permissions` has
    `camera`, `microphone`, `geolocation` and `clipboardWrite`. `resourceUri` and `visibility` belong to the tool.
    """

    id = "ext-apps/unknown-member"
    level = NOTE
    once = True
    once_each = True

    def check_item(self, context: MessageContext, ui_item: UiItem) -> Iterator[Finding]:
        ui = ui_meta_of(ui_item.item)
        for place, value, names in (
            ("", ui, RESOURCE_MEMBERS),
            ("/csp", member(ui, "csp"), CSP_MEMBERS),
            ("/permissions", member(ui, "permissions"), PERMISSIONS),
        ):
            unknown_names = [name for name in value if name not in names] if isinstance(value, dict) else []
            for name in unknown_names[:_MAX_REPORTED_MEMBERS]:
                owner = place.removeprefix("/") or "_meta.ui"
                reason = "belongs to the tool" if name in TOOL_MEMBERS and not place else "is not defined by Apps"
                text = f"the member {shortened(name)!r} of {owner} of a UI resource {reason}"
                pointer = f"{ui_item.pointer}/_meta/ui{place}/{encode_step(shortened(name))}"
                yield self.finding(context, text, pointer=pointer)


# ---- shared by the rules


def ui_items(context: MessageContext) -> Iterator[UiItem]:
    """Yields the UI resources in a result of `resources/list` or `resources/read`.

    Only `ui://` does not make a resource one: other kinds of UI had the scheme first. It is one if a tool names it as
    its UI, if it has the type of UIs, or if its `_meta` has a member `ui`.
    """
    listed_ui = context.session.listed_ui
    for item, pointer in _resource_items(context):
        uri = item.get("uri")
        if not isinstance(uri, str) or not uri.startswith(UI_SCHEME):
            continue
        listed_seq = listed_ui.uris.get(uri) if listed_ui is not None else None
        meta = item.get("_meta")
        if listed_seq is not None or item.get("mimeType") == UI_MIME_TYPE or (isinstance(meta, dict) and "ui" in meta):
            yield UiItem(item, pointer, uri, listed_seq)


def ui_meta_of(item: dict[str, Any]) -> Any:
    """Returns `_meta.ui` of a resource, or None if it has none."""
    return member(item.get("_meta"), "ui")


def _resource_items(context: MessageContext) -> Iterator[tuple[dict[str, Any], str]]:
    name = "resources" if context.method == LIST_RESOURCES else "contents"
    items = member(context.body["result"], name)
    for index, item in enumerate(items[:MAX_LISTED_ITEMS] if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield item, f"/result/{name}/{index}"


def _content_member(ui_item: UiItem) -> str:
    return "text" if isinstance(ui_item.item.get("text"), str) else "blob"


def page_of(ui_item: UiItem) -> str | None:
    """Returns the start of the page of a UI, or None if it is not the page of a UI, or cannot be decoded.

    A page of another type, which another rule reports, need not be HTML.
    """
    mime_type, text, blob = ui_item.item.get("mimeType"), ui_item.item.get("text"), ui_item.item.get("blob")
    if not isinstance(mime_type, str) or _is_spelled_differently(mime_type[:1000]) is None:
        return None
    if isinstance(text, str):
        return text[:MAX_EXAMINED_CHARS]
    if not isinstance(blob, str):
        return None
    try:
        return b64decode(blob[:MAX_EXAMINED_CHARS], validate=True).decode(errors="replace")
    except ValueError:
        return None


def is_html(page: str) -> bool:
    """Whether a page may be HTML: it has a tag, and is not JSON."""
    if _has_tag(page) is None:
        return len(page) >= MAX_EXAMINED_CHARS // 4 * 3  # the rest of a long page may have one
    if page.lstrip()[:1] not in ("{", "["):
        return True
    try:
        orjson.loads(page)
    except (ValueError, RecursionError):
        return True
    return False


def has_doctype(page: str) -> bool:
    """Whether a page begins with `<!doctype html>`, after any spaces and comments."""
    page = page.removeprefix("\ufeff")
    position = len(page) - len(page.lstrip())
    while page.startswith("<!--", position):
        end = page.find("-->", position)
        if end < 0:
            return True  # the comment is longer than what is examined
        position = end + len("-->")
        while page[position : position + 1].isspace():
            position += 1
    return _begins_with_doctype(page, position) is not None


def _meta_faults(ui: object) -> Iterator[tuple[str, str, str]]:
    """Yields the members of `_meta.ui` of a resource with a wrong type: place in that object, name, and fault."""
    if not isinstance(ui, dict):
        yield "", "_meta.ui", "is not an object"
        return
    csp, permissions = ui.get("csp"), ui.get("permissions")
    if isinstance(csp, dict):
        for name in CSP_MEMBERS:
            if name in csp and not _is_array_of_strings(csp[name]):
                yield f"/csp/{name}", name, "is not an array of strings"
    elif "csp" in ui:
        yield "/csp", "csp", "is not an object"
    if isinstance(permissions, dict):
        for name in PERMISSIONS:
            if name in permissions and not isinstance(permissions[name], dict):
                yield f"/permissions/{name}", f"the permission {name}", "is not an object"
    elif "permissions" in ui:
        yield "/permissions", "permissions", "is not an object"
    if "domain" in ui and not isinstance(ui["domain"], str):
        yield "/domain", "domain", "is not a string"
    if "prefersBorder" in ui and not isinstance(ui["prefersBorder"], bool):
        yield "/prefersBorder", "prefersBorder", "is not a boolean"


def _is_array_of_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
