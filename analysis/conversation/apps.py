"""MCP Apps (SEP-1865) in a conversation: what a server's tools say about them, and which calls only apps can start.

Nothing in a message says that an app started a call: hosts forward the calls of apps like those of the model. Only the
tool may tell: a host that supports Apps hides tools that are only for apps from its model, so a call to such a tool
comes from an app, or from a user in a tool for debugging such as the Inspector.
"""

from typing import Any, Final

from analysis.conversation.listed_ui import ListedUi
from analysis.conversation.message import Notification, Request, Response
from analysis.conversation.session import CLIENT_CAPABILITIES, Session
from analysis.protocol.extensions import APPS, declares
from analysis.protocol.revisions import Era

LIST_TOOLS: Final = "tools/list"
CALL_TOOL: Final = "tools/call"
REQUESTS: Final = frozenset({LIST_TOOLS})
"""Methods of requests whose responses say something about Apps."""
NOTIFICATIONS: Final = frozenset({"notifications/tools/list_changed"})
"""Methods of notifications after which that is no longer known."""


def on_response(request: Request, response: Response, session: Session) -> None:
    """Record what a page of a server's tools says about Apps."""
    result = response.result
    tools = result.get("tools") if isinstance(result, dict) else None
    if request.method != LIST_TOOLS or not isinstance(tools, list):
        return
    is_first_page = not isinstance(request.params, dict) or request.params.get("cursor") is None
    listed_ui = ListedUi() if is_first_page or session.listed_ui is None else session.listed_ui
    listed_ui.add_tools(tools, response.seq)
    session.listed_ui = None if listed_ui.is_empty else listed_ui


def on_notification(notification: Notification, session: Session) -> None:
    """Record that the tools of a server have changed."""
    if notification.sender == "server":
        session.listed_ui = None


def is_app_call(request: Request, session: Session, era: Era | None) -> bool:
    """Whether a request calls a tool that is only for apps, and that its host therefore hides from its model."""
    listed_ui, params = session.listed_ui, request.params
    if listed_ui is None or request.method != CALL_TOOL or request.sender != "client" or not isinstance(params, dict):
        return False
    name = params.get("name")
    if not isinstance(name, str) or name not in listed_ui.app_tools:
        return False
    return client_declares_apps(request, session, era) is True


def client_declares_apps(request: Request, session: Session, era: Era | None) -> bool | None:
    """Returns whether the client of a request has declared that it supports Apps, or None if that is uncertain."""
    return None if era is None else declares(_client_capabilities(request, session, era), APPS)


def client_ui_types(request: Request, session: Session, era: Era | None) -> list[str] | None:
    """Returns the types of UI that the client of a request declares to show, or None if that is not a list of texts."""
    if era is None or client_declares_apps(request, session, era) is not True:
        return None
    capabilities: Any = _client_capabilities(request, session, era)
    settings = capabilities["extensions"][APPS.identifier]
    types = settings.get("mimeTypes") if isinstance(settings, dict) else None
    return types if isinstance(types, list) and all(isinstance(type_, str) for type_ in types) else None


def _client_capabilities(request: Request, session: Session, era: Era) -> object:
    return request.meta.get(CLIENT_CAPABILITIES) if era == "modern" else session.client_capabilities
