"""Facts: what the page of a message says about its call. Each has a name; they are shown on lines or side by side."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from analysis.conversation.apps import CALL_TOOL
from analysis.conversation.call import MAX_REASON_CHARS, Call, MessageContext, Outcome
from analysis.conversation.declared_extensions import unknown_declarations
from analysis.conversation.message import InvalidMessage, Message, Notification, Request, Response
from analysis.conversation.request_meta import named_rank
from analysis.conversation.session import Session
from analysis.facts import target_name
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import rank_of
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.extensions import extension_text
from mcpproxy.wording.gists import cancellation_text
from mcpproxy.wording.lines import stray_line
from mcpproxy.wording.meaning import Meaning, meaning_of
from mcpproxy.wording.names import id_text, name_of
from mcpproxy.wording.statuses import Status, answer_status, fate_status, outcome_status, waiting_status
from mcpproxy.wording.units import duration

_CONTENT: Final = {"tools/call": "content", "resources/read": "contents", "prompts/get": "messages"}
"""The member of the result that a request asks for, by method."""
_READ_RESOURCE: Final = "resources/read"
_MAX_URI_CHARS: Final = 200
_MAX_UI_TOOLS: Final = 5
"""The most tools that are named as those whose results a UI shows."""


class Fact(NamedTuple):
    """A fact about a message."""

    name: str
    text: str
    is_bad: bool = False


def request_title(request: Request) -> str:
    """A request by its method, id and name: `tools/call #7 add`."""
    name = name_of(request)
    return f"{sanitise(request.method)}{id_text(request.id)}{f' {name}' if name else ''}"


def title(context: MessageContext) -> str:
    """What a message is: `tools/call #7 add`, `answer to tools/call #7 add`, `not a message`."""
    message = context.message
    if isinstance(message, Request):
        return request_title(message)
    if isinstance(message, Response):
        return "answer" + (
            f" to {request_title(context.answered.request)}" if context.answered is not None else id_text(message.id)
        )
    if isinstance(message, Notification):
        return sanitise(message.method)
    stray_parts = stray_line(message, is_stray_body=context.is_stray_body)
    return "not a message" if stray_parts is None else stray_parts[0].text


def status_of(call: Call, waited_ns: int | None = None) -> Status:
    """The status of a call: what its response means, or what became of it without one; not how it was cancelled.

    Args:
        call: the call.
        waited_ns: how long it has waited, if it may still be answered.
    """
    if call.response is not None:
        return answer_status(call.response, Meaning(call))
    return fate_status(call, says_how=False) if waited_ns is None else waiting_status(waited_ns)


def cancellation(call: Call) -> Fact | None:
    """How a call was cancelled or abandoned; also when and why, unless its status says so."""
    if call.cancelled_seq is None:
        return None
    means = f"by closing its HTTP exchange (record {call.cancelled_seq})"
    means = means if call.is_closed_by_client else f"by frame {call.cancelled_seq}"
    if call.response is None:
        return Fact("cancelled", means)
    reason = f": {sanitise(call.cancel_reason, MAX_REASON_CHARS)}" if call.cancel_reason else ""
    is_abandoned = call.abandoned_ns is not None
    word = outcome_status(Outcome.CANCELLED, is_abandoned=is_abandoned).word
    return Fact(word, f"after {duration(call.cancelled_after_ns or 0)} {means}{reason}", is_abandoned)


def outcome(call: Call, waited_ns: int | None = None) -> Fact | None:
    """Returns what became of a call, or None for a call that needs no response and was not cancelled.

    Args:
        call: the call.
        waited_ns: how long it has waited, if it may still be answered.
    """
    status, response = status_of(call, waited_ns), call.response
    if response is not None:
        missing_content = _missing_content(response, call.request.method) if call.outcome is Outcome.RESULT else ""
        return Fact("outcome", status._replace(verdict=f"{status.verdict}{missing_content}").word, status.is_bad)
    if call.request.method in ENDLESS_METHODS and call.cancelled_seq is None:
        return None
    return Fact("outcome", status.word + status.text, status.is_bad)


def audience(call: Call) -> Fact | None:
    """For whom the tool is that a call names, or None if the model may have called it."""
    return Fact("tool", "only for apps: the host hides it from its model") if call.is_app_call else None


def app_ui(call: Call) -> Fact | None:
    """The UI of an app that shows the result of a tool, or the tools whose UI a resource is; None if none is listed."""
    listed_ui = None if call.session is None else call.session.listed_ui
    name = target_name(call.request.params)
    if listed_ui is None or name is None:
        return None
    if call.request.method == CALL_TOOL and name in listed_ui.ui_tools:
        return Fact("its UI", sanitise(listed_ui.ui_tools[name], _MAX_URI_CHARS))
    if call.request.method == _READ_RESOURCE and name in listed_ui.uris:
        tools = sorted(tool for tool, uri in listed_ui.ui_tools.items() if uri == name)
        tool_names = ", ".join(sanitise(tool) for tool in tools[:_MAX_UI_TOOLS])
        more = f" and {len(tools) - _MAX_UI_TOOLS:,} more" if len(tools) > _MAX_UI_TOOLS else ""
        return Fact("UI of", f"{tool_names}{more}" or "tools")
    return None


def outcome_facts(call: Call, waited_ns: int | None = None) -> Iterator[Fact]:
    """What the page of a request says about its tool, and what became of it; the arguments are those of `outcome`."""
    fact, response = outcome(call, waited_ns), call.response
    if fact is not None and response is not None:
        fact = Fact("answered", f"by frame {response.seq} after {_latency_text(call)}: {fact.text}", fact.is_bad)
    yield from filter(None, (audience(call), app_ui(call), fact, cancellation(call)))


def related_facts(message: Message, meaning: Meaning, unread_request: Request | None = None) -> Iterator[Fact]:
    """What the page of a message that is not a request says about other messages.

    Args:
        message: the message.
        meaning: what it means.
        unread_request: for a response that its client cannot have read: the request that it would have answered.
    """
    if isinstance(message, Response):
        yield _answered_fact(message, meaning, unread_request)
    elif isinstance(message, InvalidMessage):
        yield Fact("problem", message.reason, is_bad=True)
    elif meaning.cancels is not None:
        request_text = f"{request_title(meaning.cancels)} (frame {meaning.cancels.seq})"
        yield Fact("cancels", ", ".join(filter(None, (request_text, cancellation_text(meaning)))), meaning.is_abandoned)


def facts(context: MessageContext, call: Call | None, waited_ns: int | None = None) -> Iterator[Fact]:
    """What the page of a message says about other messages.

    Args:
        context: the message.
        call: for a request: its call, if it is known.
        waited_ns: how long that call has waited, if it may still be answered.
    """
    message = context.message
    if message.frames[0].is_abridged:
        yield Fact("imported", "the log contains only part of this message")
    # The context of a request that is shown with its response may be without a revision.
    yield from extension_facts(message, context.rank if call is None else rank_of(call.revision), context.session)
    if isinstance(message, Request):
        yield from [] if call is None else outcome_facts(call, waited_ns)
    else:
        yield from related_facts(message, meaning_of(context), context.request)


def extension_facts(message: Message, rank: int | None, session: Session | None) -> Iterator[Fact]:
    """Yields which extension defines the method of a request or notification, or that none does; nothing for the core.

    Args:
        message: the message.
        rank: the rank of its revision; None for that which the message names.
        session: its session, in which an unknown extension may be declared; None if it is not known.
    """
    if isinstance(message, Request | Notification):
        request = message if isinstance(message, Request) else None
        declarations = {} if session is None else unknown_declarations(session, request)
        text = extension_text(message.method, named_rank(message) if rank is None else rank, declarations)
        yield from [Fact("extension", text)] if text else []


def _answered_fact(response: Response, meaning: Meaning, unread_request: Request | None) -> Fact:
    """What a response answers; if it answers nothing, why, and what it would mean."""
    call = meaning.call
    fact = None if call is None else outcome(call)
    if call is not None and fact is not None:
        return Fact("answers", f"frame {call.request.seq} after {_latency_text(call)}: {fact.text}", fact.is_bad)
    if unread_request is not None:
        reason = f"its client cannot have read it, so frame {unread_request.seq} has no answer"
        return Fact("answers", f"nothing: {reason}", is_bad=True)
    status = answer_status(response, meaning)
    return Fact("answers", f"nothing: {status.word}, {status.text}", is_bad=True)


def _latency_text(call: Call) -> str:
    latency = duration(call.latency_ns or 0)
    return latency if call.has_exact_times else f"about {latency}"


def _missing_content(response: Response, method: str) -> str:
    """Returns which expected content of a result is empty, as words after its verdict, or an empty string if none."""
    member, result = _CONTENT.get(method), response.result
    if (
        response.frames[0].is_abridged
        or member is None
        or not isinstance(result, dict)
        or result.get("structuredContent") is not None
    ):
        return ""
    if member not in result:
        return f" without {member}"
    return f" with empty {member}" if _is_empty(result[member]) else ""


def _is_empty(content: object) -> bool:
    """Whether content has no blocks, or only empty texts."""
    blocks = content if isinstance(content, list) else [content]
    return all(
        not block or (isinstance(block, dict) and block.get("type") == "text" and not block.get("text"))
        for block in blocks
    )
