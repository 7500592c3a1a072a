"""The gist of a payload: what a request asks for, what a notification says, what a result is about, in a few words."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from analysis.conversation.call import IdState
from analysis.conversation.message import Notification, Request
from analysis.facts import texts_in
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.extensions import with_mark
from mcpproxy.wording.meaning import UNKNOWN_MEANING, Meaning
from mcpproxy.wording.names import NAME_PATHS, name_of
from mcpproxy.wording.units import duration
from mcpproxy.wording.values import MAX_EXCERPT_CHARS, excerpt, one_line, string, value_at

ID_STATES: Final[dict[IdState | None, str]] = {
    IdState.ANSWERED: "answered before",
    IdState.FAILED: "failed before",
    IdState.OPEN: "not readable",
    IdState.CANCELLED: "not readable",
}
"""What the state of an id says about a message that names it and belongs to no call."""
GIST_SEPARATOR: Final = " ⇒ "
"""The separator between the gist of a request and that of its response."""

_GIST_MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "initialize": ("protocolVersion",),
    "tools/call": ("arguments",),
    "prompts/get": ("arguments",),
    "completion/complete": ("argument",),
    "elicitation/create": ("message",),
    "notifications/resources/updated": ("uri",),
}
"""The members of the params that are worth a line; other methods show all of them."""
_METHODS_WITH_ARGUMENTS: Final = ("tools/call", "prompts/get")
_LIST_NOUNS: Final = {
    "tools": "tool",
    "resources": "resource",
    "resourceTemplates": "template",
    "prompts": "prompt",
    "roots": "root",
    "tasks": "task",
    "skills": "skill",
    "events": "event",
}


def gist(message: Request | Notification, meaning: Meaning = UNKNOWN_MEANING) -> str:
    """The payload of a request or notification, shortened to what matters; for a cancellation, what it cancels."""
    if meaning.is_repeat:
        return "again, after the redirect"
    return with_mark(_payload_gist(message, meaning), message.method)


def _payload_gist(message: Request | Notification, meaning: Meaning) -> str:
    params, method = message.params, message.method
    if not isinstance(params, dict):
        return excerpt(params) if params else ""
    if not isinstance(message, Request) and method in _NOTIFICATION_TEXTS:
        return _NOTIFICATION_TEXTS[method](params, meaning)
    if method in _GIST_MEMBERS:
        value = value_at(params, *_GIST_MEMBERS[method])
        return _again(params) + (excerpt(value) if value else "")
    name_members = NAME_PATHS.get(method, ())[:1]
    other_params = {name: value for name, value in params.items() if name != "_meta" and name not in name_members}
    return excerpt(other_params) if other_params else ""


def _again(params: object) -> str:
    """That a request is a retry of the same call (2026-07-28), with the input that its interim result asked for."""
    is_retry = isinstance(params, dict) and ("requestState" in params or "inputResponses" in params)
    return "again " if is_retry else ""


def brief_gist(request: Request, meaning: Meaning = UNKNOWN_MEANING) -> str:
    """The gist of a request for a line that it shares: `notes/2.md` if it has one argument, else `path=a, limit=5`."""
    arguments = value_at(request.params, "arguments") if request.method in _METHODS_WITH_ARGUMENTS else None
    if meaning.is_repeat or not isinstance(arguments, dict) or not arguments:
        return gist(request, meaning)
    parts: list[str] = []
    for name, value in arguments.items():
        text = excerpt(value) if value != "" else '""'
        is_alone = len(arguments) == 1 and text == excerpt(value) and not isinstance(value, dict | list)
        parts.append(text if is_alone else f"{excerpt(name)}={text}")
        if sum(map(len, parts)) > MAX_EXCERPT_CHARS:
            break
    return sanitise(_again(request.params) + ", ".join(parts), MAX_EXCERPT_CHARS)


def log_source(params: Mapping[str, Any]) -> str:
    """The level and the logger of a log message: `[error] db`."""
    logger = f" {string(params, 'logger')}" if string(params, "logger") else ""
    return sanitise(f"[{string(params, 'level')}]{logger}", MAX_EXCERPT_CHARS)


def progress_text(params: Mapping[str, Any]) -> str:
    """The progress that a notification reports: `3/10`."""
    total = f"/{excerpt(params['total'])}" if params.get("total") is not None else ""
    return f"{excerpt(params.get('progress', '?'))}{total}"


def _log_gist(params: Mapping[str, Any], _: Meaning) -> str:
    colon = ":" if string(params, "logger") else ""
    return sanitise(f"{log_source(params)}{colon} {excerpt(params.get('data', ''))}", MAX_EXCERPT_CHARS)


def _progress_gist(params: Mapping[str, Any], _: Meaning) -> str:
    message = f" {string(params, 'message')}" if string(params, "message") else ""
    return sanitise(
        f"{progress_text(params)}{message} (token {excerpt(params.get('progressToken'))})", MAX_EXCERPT_CHARS
    )


def cancellation_text(meaning: Meaning) -> str:
    """What a cancellation did to the request that it names: `abandoned after 7.0 s`; empty if nothing."""
    waited_ns = meaning.cancelled_after_ns
    return (
        ""
        if waited_ns is None
        else f"{'abandoned' if meaning.is_abandoned else 'cancelled'} after {duration(waited_ns)}"
    )


def _cancellation_gist(params: Mapping[str, Any], meaning: Meaning) -> str:
    request, reason = meaning.cancels, string(params, "reason")
    if request is None:
        request_text = f"#{excerpt(params.get('requestId'))}, {ID_STATES.get(meaning.id_state, 'no request seen')}"
    else:
        outcome = cancellation_text(meaning)
        request_text = f"#{request.id.text}{f' {outcome}:' if outcome else ''}"
        request_text = " ".join(filter(None, (request_text, request.method, name_of(request))))
    return sanitise(f"{request_text}: {reason}" if reason else request_text, MAX_EXCERPT_CHARS)


_NOTIFICATION_TEXTS: Final[dict[str, Callable[[Mapping[str, Any], Meaning], str]]] = {
    "notifications/progress": _progress_gist,
    "notifications/message": _log_gist,
    "notifications/cancelled": _cancellation_gist,
}
"""Notifications that are described in words."""


def error_text(result: Mapping[str, Any]) -> str:
    """The text of a tool's error."""
    for text in map(one_line, texts_in(result)):
        if text:
            return text
    content = result.get("content")
    return excerpt(content) if content else ""


def summary(result: Mapping[str, Any], method: str) -> str:
    """The one thing that an ordinary result is about: how many items, which revision, or which decision."""
    for member, noun in _LIST_NOUNS.items():
        value = result.get(member)
        if isinstance(value, list):
            return count_text(len(value), noun) + (", more" if result.get("nextCursor") else "")
    if method in ("initialize", "elicitation/create"):
        return sanitise(string(result, "protocolVersion") or string(result, "action"), 40)
    versions = result.get("supportedVersions")
    if isinstance(versions, list):
        return sanitise(", ".join(version for version in versions if isinstance(version, str)), 60)
    return _preview(result)


_UNINFORMATIVE_MEMBERS: Final = ("_meta", "resultType", "taskId", "isError", "ttlMs", "cacheScope", "nextCursor")
"""The members of a result that say nothing about the requested content."""
_CONTENT_MEMBERS: Final = ("content", "contents", "messages")
"""The members that contain the requested content: in results of tools and sampling, of resources, and of prompts."""


def _preview(result: Mapping[str, Any]) -> str:
    """Returns the first text of a result, or its substitute, or an empty string if it says nothing."""
    for member in _CONTENT_MEMBERS:
        blocks = result.get(member)
        for block in blocks if isinstance(blocks, list) else [blocks]:
            if text := one_line(string(block, "text") or string(block, "content", "text")):
                return text
            if kind := string(block, "mimeType") or string(block, "type"):
                return f"[{sanitise(kind, 60)}]"
    for member in ("structuredContent", "completion"):
        if result.get(member):
            return excerpt(value_at(result, "completion", "values") or result[member])
    other_members = {name: value for name, value in result.items() if name not in _UNINFORMATIVE_MEMBERS}
    return excerpt(other_members) if any(value not in ({}, []) for value in other_members.values()) else ""


def call_gist(request_gist: str, response_gist: str) -> str:
    """The gist of a request and the gist of its response: `{"a":1} ⇒ The sum is 3`.

    Args:
        request_gist: the gist of the request.
        response_gist: the gist of the response; empty if there is none.
    """
    return f"{request_gist}{GIST_SEPARATOR}{response_gist}".strip() if response_gist else request_gist
