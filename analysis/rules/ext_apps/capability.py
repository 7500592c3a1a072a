"""Declarations of Apps: clients declare which types of UI they show, in `initialize` or in each request."""

from collections.abc import Iterable
from typing import Any, Final

from analysis.conversation.apps import LIST_TOOLS, client_declares_apps, client_ui_types
from analysis.conversation.call import MessageContext
from analysis.conversation.listed_ui import is_for_apps_only, resource_uri_of
from analysis.conversation.session import CLIENT_CAPABILITIES
from analysis.protocol.extensions import APPS
from analysis.protocol.json_pointer import encode_step
from analysis.rules.base import NOTE, Rule
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member
from analysis.rules.support.listings import MAX_LISTED_ITEMS
from analysis.rules.unchanged_content import WordsScope

SOURCE: Final = APPS.source
UI_MIME_TYPE: Final = "text/html;profile=mcp-app"
"""The type of all UIs."""

_POINTER: Final = f"/extensions/{encode_step(APPS.identifier)}"


class MimeTypes(Rule):
    """A client declares Apps, but not the types of UI that it shows, or not the type that Apps defines.

    **Why it matters.** Servers look for `text/html;profile=mcp-app` in the list, as text. If they do not find it, they
    offer tools without a UI. It is only a note if the list has other types, because a client may show only those.

    **On the wire.** `> …"capabilities":{"extensions":{"io.modelcontextprotocol/ui":{}}}`

    **Instead.** `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}`
    """

    id = "ext-apps/mime-types"
    who = "client"
    once = True
    once_each = True
    sender = "client"
    source = SOURCE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return method == "initialize" or like.era == "modern"

    def decisive_words(self, _hook: str, method: str, _like: MessageContext) -> WordsScope | None:
        return None if method == "initialize" else "envelope"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None:
            return ()
        if request.method == "initialize":
            capabilities, pointer = member(request.params, "capabilities"), "/params/capabilities"
        else:
            capabilities, pointer = (
                request.meta.get(CLIENT_CAPABILITIES),
                f"/params/_meta/{encode_step(CLIENT_CAPABILITIES)}",
            )
        extensions = member(capabilities, "extensions")
        if not isinstance(extensions, dict) or APPS.identifier not in extensions:
            return ()
        return self._check_settings(context, extensions[APPS.identifier], f"{pointer}{_POINTER}")

    def _check_settings(self, context: MessageContext, settings: Any, pointer: str) -> list[Finding]:
        if not isinstance(settings, dict):
            if context.era == "modern":
                return []  # `modern/extension-id` reports it
            return [self.finding(context, "the declaration of Apps is not an object", pointer=pointer)]
        types = settings.get("mimeTypes")
        if not isinstance(types, list) or not all(isinstance(type_, str) for type_ in types):
            fault = "is not an array of strings" if "mimeTypes" in settings else "is missing"
            return [self.finding(context, f"mimeTypes of Apps {fault}", pointer=f"{pointer}/mimeTypes")]
        if UI_MIME_TYPE in types:
            return []
        text = f"mimeTypes of Apps lacks {UI_MIME_TYPE}, the only type that Apps defines"
        return [self.finding(context, text, pointer=f"{pointer}/mimeTypes", level=NOTE)]


class UndeclaredClient(Rule):
    """A server lists tools with a UI, or tools only for apps, for a client that has not declared Apps or their type.

    **Why it matters.** The client shows the results as text, which is intended. But it does not know which tools are
    only for apps, so it offers them to its model. It is only a note, because many servers always register these tools.

    **On the wire.** `> …"method":"initialize","params":{…,"capabilities":{}}` …
    `< …"tools":[{"name":"poll","_meta":{"ui":{"visibility":["app"]}},…}]`

    **Instead.** Register these tools only if the client has declared `io.modelcontextprotocol/ui`, and its `mimeTypes`
    contain `text/html;profile=mcp-app`.
    """

    id = "ext-apps/undeclared-client"
    who = "server"
    level = NOTE
    once = True
    needs_session = True
    methods = frozenset({LIST_TOOLS})
    sender = "server"
    required_word = b'"ui'
    source = SOURCE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, tools = context.request, member(context.body["result"], "tools")
        missing = _certainly_undeclared(context)
        if request is None or not isinstance(tools, list) or missing is None:
            return ()
        tools = tools[:MAX_LISTED_ITEMS]
        app_tools = [index for index, tool in enumerate(tools) if is_for_apps_only(tool)]
        ui_tools = [index for index, tool in enumerate(tools) if resource_uri_of(tool) is not None]
        if not app_tools and not ui_tools:
            return ()
        counts = [
            f"{len(indexes)} {'tool' if len(indexes) == 1 else 'tools'} {kind}"
            for indexes, kind in ((app_tools, "only for apps"), (ui_tools, "with a UI"))
            if indexes
        ]
        verb = "is" if len(app_tools) + len(ui_tools) == 1 else "are"
        text = f"{' and '.join(counts)} {verb} listed for a client that has not declared {missing}"
        pointer = f"/result/tools/{(app_tools or ui_tools)[0]}/_meta"
        return [self.finding(context, text, pointer=pointer, related=(request.seq,))]


# ---- shared by the rules


def _certainly_undeclared(context: MessageContext) -> str | None:
    """Returns what a client lacks that shows no UIs, or None if it may show them."""
    request = context.request
    if request is None or request.seq <= context.session.lost_seq:
        return None
    if client_declares_apps(request, context.session, context.era) is False:
        return "Apps"
    types = client_ui_types(request, context.session, context.era)
    return None if types is None or UI_MIME_TYPE in types else f"the type {UI_MIME_TYPE}"
