"""What a message says, in a few words: its subject, the gist of its payload, the meaning of a response.

All its output is sanitised.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from analysis.conversation.call import ERRORS, Call, IdState, Meant, Outcome, Seen, outcome_of
from analysis.conversation.failure import failed_by
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Id, Invalid, Message, Notification, Number, Request, Response
from analysis.conversation.session import Peer
from analysis.facts import text_of_error, texts_in
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.wording.text import Span, cells, count_text, fit
from mcpproxy.wording.units import duration

EXCERPT: Final = 300
"""Characters of a payload that a line can show; wider terminals than this are rare."""
ID_CELLS: Final = 16
_STATES: Final[dict[IdState | None, str]] = {
    IdState.ANSWERED: "answered before",
    IdState.FAILED: "failed before",
    IdState.OPEN: "not readable",
    IdState.CANCELLED: "not readable",
}
"""What the state of an id says of a message that names it and belongs to no call."""
_NO_SUCCESS: Final = 300
"""Statuses from here on are no success (RFC 9110 §15)."""
_YIELDS: Final = " ⇒ "

# Where a request says what it is about, by method.
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "tools/call": ("name",),
    "prompts/get": ("name",),
    "resources/read": ("uri",),
    "resources/subscribe": ("uri",),
    "resources/unsubscribe": ("uri",),
    "completion/complete": ("ref", "name"),
    "logging/setLevel": ("level",),
    "tasks/get": ("taskId",),
    "tasks/result": ("taskId",),
    "tasks/cancel": ("taskId",),
    "tasks/update": ("taskId",),
}
# What of the params is worth a line; other methods show all of them.
_GIST: Final[dict[str, tuple[str, ...]]] = {
    "initialize": ("protocolVersion",),
    "tools/call": ("arguments",),
    "prompts/get": ("arguments",),
    "completion/complete": ("argument",),
    "elicitation/create": ("message",),
    "notifications/resources/updated": ("uri",),
}
_LISTS: Final = {
    "tools": "tool",
    "resources": "resource",
    "resourceTemplates": "template",
    "prompts": "prompt",
    "roots": "root",
    "tasks": "task",
}


class Aside(NamedTuple):
    """A frame that is not a message, but breaks no rule by that."""

    word: str
    text: str = ""
    """An excerpt of what it holds."""


def aside_of(message: Message, *, is_beside: bool) -> Aside | None:
    """Describes an event that clients ignore, a frame that was not parsed, or an HTTP body where no message is due.

    Args:
        message: the message.
        is_beside: whether it is such a body; see `Seen.is_beside`.

    Returns:
        The description; None for everything else.
    """
    if not isinstance(message, Invalid):
        return None
    frame = message.frames[0]
    text = sanitise_bytes(frame.raw, EXCERPT)
    if frame.event is not None:
        return Aside(f"event {sanitise(frame.event, 40)}", text)
    if frame.is_ignored:
        return Aside("event without data")
    if message.reason == "unjudged":
        return Aside("unjudged" if frame.whole else "unjudged, unfinished", text)
    return Aside("body", text) if is_beside else None


def aside_spans(aside: Aside) -> list[Span]:
    """An event that clients ignore is dim; of a frame that was not parsed, its bytes are."""
    return [Span(f"{aside.word}  "), Span(aside.text, "dim")] if aside.text else [Span(aside.word, "dim")]


class Status(NamedTuple):
    """What a response means."""

    word: str
    """`ok`, `tool error`, `error -32602`, …"""
    text: str
    """More detail, if any: a count, an error's text."""
    is_bad: bool


def id_text(id_: Id | None) -> str:
    """` #7`, ` #"7"`, or nothing."""
    return "" if id_ is None else fit(f" #{sanitise(id_.text, 64)}", ID_CELLS)


def name_of(request: Request) -> str:
    """The tool, prompt or resource that a request concerns, if it names one."""
    return sanitise(_string(request.params, *_NAMES.get(request.method, ())), EXCERPT)


def peer_text(peer: Peer) -> str:
    """Name and version of one side."""
    return sanitise(peer.text.rstrip(), 60)


def gist(message: Request | Notification) -> str:
    """The payload of a request or notification, shortened to what matters."""
    params = message.params
    if not isinstance(params, dict):
        return excerpt(params) if params else ""
    if message.method in _GIST:
        value = _at(params, *_GIST[message.method])
        # The same call once more (2026-07-28), with what its interim result had asked for.
        again = "again " if "requestState" in params or "inputResponses" in params else ""
        return again + (excerpt(value) if value else "")
    named = _NAMES.get(message.method, ())[:1]
    rest = {name: value for name, value in params.items() if name != "_meta" and name not in named}
    return excerpt(rest) if rest else ""


def notification_gist(seen: Seen, notification: Notification) -> str:
    """The same for a notification: progress, log level and what a cancellation cancels."""
    params = notification.params
    if not isinstance(params, dict):
        return gist(notification)
    if notification.method == "notifications/progress":
        return _progress(params)
    if notification.method == "notifications/message":
        logger = f"{_string(params, 'logger')}: " if _string(params, "logger") else ""
        return sanitise(f"[{_string(params, 'level')}] {logger}{excerpt(params.get('data', ''))}", EXCERPT)
    if notification.method == "notifications/cancelled":
        return _cancellation(seen, params)
    return gist(notification)


def _progress(params: Mapping[str, Any]) -> str:
    total = f"/{excerpt(params['total'])}" if params.get("total") is not None else ""
    message = f" {_string(params, 'message')}" if _string(params, "message") else ""
    text = f"{excerpt(params.get('progress', '?'))}{total}{message} (token {excerpt(params.get('progressToken'))})"
    return sanitise(text, EXCERPT)


def _cancellation(seen: Seen, params: Mapping[str, Any]) -> str:
    request, reason = seen.cancels, _string(params, "reason")
    if request is None:
        named = f"#{excerpt(params.get('requestId'))}"
        named += f", {_STATES.get(seen.id_state, 'no request seen')}"
    else:
        waited_ns = None if seen.cancelled is None else seen.cancelled.abandoned_ns
        abandoned = "" if waited_ns is None else f" abandoned after {duration(waited_ns)}:"
        named = f"#{request.id.text}{abandoned} {' '.join(filter(None, (request.method, name_of(request))))}"
    return sanitise(f"{named}: {reason}" if reason else named, EXCERPT)


def status_of(response: Response, call: Call | None, id_state: IdState | None, meant: Meant | None = None) -> Status:
    """What a response means, by its call or, if it matches no request, by itself."""
    outcome = call.outcome if call is not None else outcome_of(response, None)
    status = _by_outcome(outcome, response, call)
    if call is None:
        which = _STATES.get(id_state, "fits no request")
        rest = " ".join(filter(None, (status.word, status.text)))
        return Status(which, rest if meant is None else f"{rest}; {sanitise(meant.text, EXCERPT)}", is_bad=True)
    if call.late_ns is not None:
        return status._replace(word=f"{status.word}, {duration(call.late_ns)} late")
    return status


def fate(call: Call) -> Status:
    """What became of a request without a response; the text is a clause that goes on from the word, or empty."""
    texts = []
    if call.outcome is Outcome.FAILED:
        texts.append(f": {failure(call.http, call.lasted_ns)}")
    waited_ns = call.abandoned_ns
    if waited_ns is not None:
        abandoned = f"after {duration(waited_ns)}"
        texts.append(f" {abandoned}" if call.outcome is Outcome.CANCELLED else f", abandoned {abandoned}")
        if call.cancel_reason:
            texts.append(f": {sanitise(call.cancel_reason, EXCERPT)}")
    if call.probable_answer is not None:
        texts.append(f", {sanitise(call.probable_answer.text, EXCERPT)}")
    is_abandoned = call.outcome is Outcome.CANCELLED and waited_ns is not None
    word = "abandoned" if is_abandoned else call.outcome.value.replace("_", " ")
    return Status(word, "".join(texts), is_bad=call.outcome is not Outcome.NOT_RECORDED)


def waiting(waited_ns: int) -> Status:
    """The same for a request that may still be answered."""
    return Status("waiting", f" for {duration(waited_ns)}", is_bad=False)


def failure(http: HttpExchange | None, lasted_ns: int | None = None) -> str:
    """How an HTTP exchange failed to bring a response, and what it says or why; sanitised.

    Args:
        http: the exchange; None if it is forgotten.
        lasted_ns: how long it lasted.
    """
    if http is None or (http.status is None and not http.error):
        return "the HTTP exchange ended before a response"
    if http.is_redirect:
        return f"redirected with status {http.status}, and not repeated"
    why = sanitise(http.said or http.error, EXCERPT)
    if http.status is None:
        return f"no HTTP response: {why}"
    told = f": {why}" if why else ""
    if http.status >= _NO_SUCCESS:
        by = failed_by(http)
        return f"HTTP status {http.status}{f' by a {by}' if by == 'gateway' else ''}{told}"
    after = "" if lasted_ns is None else f" after {duration(lasted_ns)}"
    return f"the HTTP response ended{after} without an answer{told}"


def _by_outcome(outcome: Outcome, response: Response, call: Call | None) -> Status:
    if outcome is Outcome.ERROR:
        return _error(response)
    result = response.result if isinstance(response.result, dict) else {}
    if outcome is Outcome.TOOL_ERROR:
        return Status("tool error", _content_text(result), is_bad=True)
    if outcome is Outcome.INPUT_REQUIRED:
        wanted = result.get("inputRequests")
        methods = [_string(request, "method") for request in wanted.values()] if isinstance(wanted, dict) else []
        return Status("input required", sanitise(", ".join(filter(None, methods)), EXCERPT), is_bad=False)
    if outcome is Outcome.TASK:
        task = _string(result, "task", "taskId") or _string(result, "taskId")
        return Status("task", sanitise(task, EXCERPT), is_bad=False)
    return Status("ok", _summary(result, call), is_bad=False)


_OUTCOME_WORDS: Final = {
    Outcome.RESULT: "ok",
    Outcome.ERROR: "error",
    Outcome.TOOL_ERROR: "tool error",
    Outcome.INPUT_REQUIRED: "input required",
    Outcome.TASK: "task",
}


def outcome_word(outcome: Outcome | None) -> tuple[str, bool]:
    """The word for the outcome of a response whose content is not read, and whether it is bad."""
    return _OUTCOME_WORDS.get(outcome, "") if outcome is not None else "", outcome in ERRORS


def _error(response: Response) -> Status:
    error = response.error
    if not isinstance(error, dict):
        return Status("error", excerpt(error), is_bad=True)
    code = fit(excerpt(error.get("code")), 12) if "code" in error else "without code"
    message = text_of_error(response)
    text = sanitise(message, EXCERPT) if message is not None else excerpt(error.get("data", ""))
    return Status(f"error {code}", text, is_bad=True)


def _content_text(result: Mapping[str, Any]) -> str:
    """The text of a tool's error."""
    for text in map(one_line, texts_in(result)):
        if text:
            return text
    content = result.get("content")
    return excerpt(content) if content else ""


def one_line(text: str) -> str:
    """The beginning of a text, with each run of white space as a space."""
    return sanitise(" ".join(text[: 4 * EXCERPT].split()), EXCERPT)


def _summary(result: Mapping[str, Any], call: Call | None) -> str:
    """How many of what, which revision, which decision: the one thing that an ordinary result is about."""
    for member, noun in _LISTS.items():
        value = result.get(member)
        if isinstance(value, list):
            return count_text(len(value), noun) + (", more" if result.get("nextCursor") else "")
    if call is not None and call.request.method in ("initialize", "elicitation/create"):
        return sanitise(_string(result, "protocolVersion") or _string(result, "action"), 40)
    versions = result.get("supportedVersions")
    if isinstance(versions, list):
        return sanitise(", ".join(version for version in versions if isinstance(version, str)), 60)
    return _preview(result)


_NOT_SAID: Final = ("_meta", "resultType", "taskId", "isError", "ttlMs", "cacheScope", "nextCursor")
"""The members of a result that say nothing about what was asked for."""
_CONTENT: Final = ("content", "contents", "messages")
"""The members of a result that hold what was asked for: those of tools and of sampling, of resources, of prompts."""


def _preview(result: Mapping[str, Any]) -> str:
    """The first text of a result, or its substitute; empty if it says nothing."""
    for member in _CONTENT:
        blocks = result.get(member)
        for block in blocks if isinstance(blocks, list) else [blocks]:
            if text := one_line(_string(block, "text") or _string(block, "content", "text")):
                return text
            if kind := _string(block, "mimeType") or _string(block, "type"):
                return f"[{sanitise(kind, 60)}]"
    for member in ("structuredContent", "completion"):
        if result.get(member):
            return excerpt(_at(result, "completion", "values") or result[member])
    rest = {name: value for name, value in result.items() if name not in _NOT_SAID}
    return excerpt(rest) if any(value not in ({}, []) for value in rest.values()) else ""


def asked_and_answered(asked: str, answered: str, room: int = EXCERPT) -> str:
    """The gist of a request and the gist of its response: `{"a":1} ⇒ The sum is 3`.

    Args:
        asked: the gist of the request.
        answered: the gist of the response; empty if there is none.
        room: the cells for both: neither of them is cut before it takes more than half.
    """
    if not asked or not answered:
        return asked or (f"⇒ {answered}" if answered else "")
    half = max(1, (room - len(_YIELDS)) // 2)
    return f"{fit(asked, max(half, room - len(_YIELDS) - cells(answered)))}{_YIELDS}{answered}"


def excerpt(value: object) -> str:
    """A JSON value as compact JSON, clipped; a string by itself without quotes.

    Encoded piece by piece up to the limit, so that the cost is not that of a large payload.
    """
    if isinstance(value, str | Number):
        return sanitise(value if isinstance(value, str) else value.token, EXCERPT)
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).iterencode(value):
        text += piece[: EXCERPT + 1]
        if len(text) > EXCERPT:
            break
    return sanitise(text, EXCERPT)


def _at(value: object, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _string(value: object, *path: str) -> str:
    text = _at(value, *path) if path else None
    return text if isinstance(text, str) else ""
