"""What tools say about Apps in `_meta`: their UI, and who may call them; and what they return to hosts without Apps."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.apps import CALL_TOOL, LIST_TOOLS
from analysis.conversation.call import MessageContext
from analysis.conversation.listed_ui import FLAT_MEMBER, is_for_apps_only, resource_uri_of
from analysis.protocol.json_pointer import encode_step
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.ext_apps.capability import SOURCE
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.listings import MAX_LISTED_ITEMS
from analysis.rules.support.tool_definitions import RESULT_METHODS, ToolLookupRule, result_of
from analysis.rules.unchanged_content import WordsScope

UI_SCHEME: Final = "ui://"
RESOURCE_MEMBERS: Final = ("csp", "permissions", "domain", "prefersBorder")
"""Members of `_meta.ui` of a resource."""
TOOL_MEMBERS: Final = ("resourceUri", "visibility")
"""Members of `_meta.ui` of a tool."""

_READERS: Final = ("model", "app")


class _ToolMetaRule(Rule):
    """The base class of the rules about `_meta` of a listed tool."""

    who = "server"
    sender = "server"
    methods = frozenset({LIST_TOOLS})
    required_word = b'"ui'
    source = SOURCE

    def decisive_words(self, _hook: str, _method: str, _like: MessageContext) -> WordsScope | None:
        return "result"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self.capped(self._findings(context))

    def _findings(self, context: MessageContext) -> Iterator[Finding]:
        tools = member(context.body["result"], "tools")
        for index, tool in enumerate(tools[:MAX_LISTED_ITEMS] if isinstance(tools, list) else ()):
            meta = member(tool, "_meta")
            if isinstance(meta, dict) and ("ui" in meta or FLAT_MEMBER in meta):
                yield from self.check_meta(context, meta, f"/result/tools/{index}/_meta")

    def check_meta(self, context: MessageContext, meta: dict[str, Any], pointer: str) -> Iterator[Finding]:
        """Yields findings about the `_meta` of a tool, which is at `pointer`."""
        raise NotImplementedError


class ToolMeta(_ToolMetaRule):
    """`_meta.ui` of a tool, or one of its members, has the wrong type.

    **Why it matters.** Hosts that check types ignore all of it, or refuse the tool: its results have no UI, and a tool
    that is only for apps is offered to the model.

    **On the wire.** `…"tools":[{"name":"chart",…,"_meta":{"ui":"ui://chart/view"}}]`

    **Instead.** `"_meta":{"ui":{"resourceUri":"ui://chart/view","visibility":["model","app"]}}`; both members are
    optional.
    """

    id = "ext-apps/tool-meta"

    def check_meta(self, context: MessageContext, meta: dict[str, Any], pointer: str) -> Iterator[Finding]:
        ui, flat_uri = meta.get("ui"), meta.get(FLAT_MEMBER)
        if "ui" in meta and not isinstance(ui, dict):
            yield self.finding(context, "_meta.ui of a tool is not an object", pointer=f"{pointer}/ui")
        if FLAT_MEMBER in meta and not isinstance(flat_uri, str):
            text = f"{FLAT_MEMBER} of a tool is not a string"
            yield self.finding(context, text, pointer=f"{pointer}/{encode_step(FLAT_MEMBER)}")
        if not isinstance(ui, dict):
            return
        if "resourceUri" in ui and not isinstance(ui["resourceUri"], str):
            yield self.finding(context, "resourceUri of a tool is not a string", pointer=f"{pointer}/ui/resourceUri")
        visibility = ui.get("visibility")
        if "visibility" in ui and not (
            isinstance(visibility, list) and all(isinstance(reader, str) for reader in visibility)
        ):
            text = "visibility of a tool is not an array of strings"
            yield self.finding(context, text, pointer=f"{pointer}/ui/visibility")


class ResourceUri(_ToolMetaRule):
    """The UI of a tool does not have a URI that begins with `ui://`.

    **Why it matters.** Hosts accept only this scheme, so that a tool cannot have any other resource or page shown as
    its UI. They show the results without one.

    **On the wire.** `…"_meta":{"ui":{"resourceUri":"https://example.com/chart.html"}}`

    **Instead.** Serve the page as a resource such as `ui://chart/view`, and name that.
    """

    id = "ext-apps/resource-uri"

    def check_meta(self, context: MessageContext, meta: dict[str, Any], pointer: str) -> Iterator[Finding]:
        ui, flat_uri = meta.get("ui"), meta.get(FLAT_MEMBER)
        uri = ui.get("resourceUri") if isinstance(ui, dict) else None
        if isinstance(uri, str):
            place = f"{pointer}/ui/resourceUri"
        else:
            uri, place = flat_uri, f"{pointer}/{encode_step(FLAT_MEMBER)}"
        if isinstance(uri, str) and not uri.startswith(UI_SCHEME):
            yield self.finding(context, f"the URI of a tool's UI does not begin with {UI_SCHEME}", pointer=place)


class Visibility(_ToolMetaRule):
    """The visibility of a tool is empty, or names something other than `model` and `app`.

    **Why it matters.** Hosts that do not know the value hide the tool from the model, from apps, or from both. If it
    names neither, nothing can call the tool.

    **On the wire.** `…"_meta":{"ui":{"visibility":["user"]}}`

    **Instead.** `["model","app"]`, which is the default, `["model"]` or `["app"]`.
    """

    id = "ext-apps/visibility"

    def check_meta(self, context: MessageContext, meta: dict[str, Any], pointer: str) -> Iterator[Finding]:
        visibility = member(meta.get("ui"), "visibility")
        if not isinstance(visibility, list):
            return
        if not visibility:
            text = "the visibility of a tool is empty, so nothing can call it"
            yield self.finding(context, text, pointer=f"{pointer}/ui/visibility", level=NOTE)
        for index, reader in enumerate(visibility[:MAX_LISTED_ITEMS]):
            if isinstance(reader, str) and reader not in _READERS:
                text = f"the visibility of a tool is {shortened(reader)!r}, neither model nor app"
                yield self.finding(context, text, pointer=f"{pointer}/ui/visibility/{index}")


class FlatResourceUri(_ToolMetaRule):
    """A tool names its UI only in the deprecated member `ui/resourceUri`, or another UI there.

    **Why it matters.** Hosts that know only `ui.resourceUri` show the results without a UI. If the two differ, it
    depends on the host which UI is shown.

    **On the wire.** `…"_meta":{"ui/resourceUri":"ui://chart/view"}`

    **Instead.** `"_meta":{"ui":{"resourceUri":"ui://chart/view"}}`. For old hosts, the SDK adds the deprecated member
    with the same value.
    """

    id = "ext-apps/flat-resource-uri"
    level = WARNING
    impact = Impact.HINT
    once = True

    def check_meta(self, context: MessageContext, meta: dict[str, Any], pointer: str) -> Iterator[Finding]:
        flat_uri, ui = meta.get(FLAT_MEMBER), meta.get("ui")
        uri = ui.get("resourceUri") if isinstance(ui, dict) else None
        if not isinstance(flat_uri, str) or uri == flat_uri or not (uri is None or isinstance(uri, str)):
            return
        text = (
            f"a tool names its UI only in {FLAT_MEMBER}, which is deprecated"
            if uri is None
            else f"{FLAT_MEMBER} and ui.resourceUri of a tool differ"
        )
        yield self.finding(context, text, pointer=f"{pointer}/{encode_step(FLAT_MEMBER)}")


class ToolMetaMisplaced(_ToolMetaRule):
    """`_meta.ui` of a tool has members that belong to its UI resource.

    **Why it matters.** Hosts read them from the resource. Without them there, the UI cannot reach the network or use
    the camera.

    **On the wire.** `…"tools":[{…,"_meta":{"ui":{"resourceUri":"ui://map","csp":{"connectDomains":["https://…"]}}}}]`

    **Instead.** Put `csp`, `permissions`, `domain` and `prefersBorder` into `_meta.ui` of the item of `contents` that
    `resources/read` returns.
    """

    id = "ext-apps/tool-meta-misplaced"
    level = NOTE
    once = True

    def check_meta(self, context: MessageContext, meta: dict[str, Any], pointer: str) -> Iterator[Finding]:
        ui = meta.get("ui")
        for name in RESOURCE_MEMBERS if isinstance(ui, dict) else ():
            if isinstance(ui, dict) and name in ui:
                text = f"{name} belongs to the UI resource, not to the tool"
                yield self.finding(context, text, pointer=f"{pointer}/ui/{name}")
                return


class EmptyContent(ToolLookupRule):
    """A tool with a UI returns a result without any content, or with an empty text alone.

    **Why it matters.** Models, and hosts that do not support Apps, get only `content`: for them, the call returned
    nothing.

    **On the wire.** A tool with `"_meta":{"ui":{"resourceUri":"ui://chart/view"}}` returns
    `< {"id":3,"result":{"content":[],"structuredContent":{"points":[1,4]}}}`

    **Instead.** Describe the result in `content` as well: `[{"type":"text","text":"2 points, from 1 to 4"}]`.
    """

    id = "ext-apps/empty-content"
    who = "server"
    about = RESULT_METHODS
    source = SOURCE

    def check_result(self, context: MessageContext) -> Iterable[Finding]:
        result = result_of(context)
        if result is None or result.call.method != CALL_TOOL or not _says_nothing(result.body.get("content")):
            return ()
        tool = self.entry(context, result.call)
        if tool is None or resource_uri_of(tool.item) is None or is_for_apps_only(tool.item):
            return ()
        fault = "no content but an empty text" if result.body["content"] else "no content"
        text, pointer = f"the result of a tool with a UI has {fault}", f"{result.pointer}/content"
        return [self.finding(context, text, pointer=pointer, related=(tool.seq, result.call.seq))]


# ---- shared by the rules


def _says_nothing(content: Any) -> bool:
    """Whether the content of a result is empty, or consists of an empty text."""
    if not isinstance(content, list) or len(content) > 1:
        return False
    text = member(content[0], "text") if content and member(content[0], "type") == "text" else None
    return not content or (isinstance(text, str) and not text.strip())
