"""Line: what one line says about a message, in parts. The code that draws the line arranges, cuts and colours them."""

from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Invalid, Message, Notification, Request, Response, sender
from captures.frame import Frame
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.wording.gists import gist
from mcpproxy.wording.meaning import Meaning, meaning_of
from mcpproxy.wording.names import id_text, name_of
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.statuses import Status, answer
from mcpproxy.wording.values import EXCERPT

Kind: TypeAlias = Literal["request", "response", "notification", "batch", "aside", "invalid"]
"""`aside` is a frame that is allowed not to be a message; `invalid` is any other frame that is not a message."""
CONVERTED: Final = "id/type-changed"
"""The rule broken by a response whose id has a different JSON type from the id of its request. Most clients do not
match the two and keep waiting, although a line shows them as a pair."""

ABRIDGED: Final = "[partial]"
"""Comes before the text of a message if an imported log contains only part of that message."""

_TO_SERVER: Final = Span("→", "accent")
_TO_CLIENT: Final = Span("←", "accent")
_NOTHING: Final = Span("")


class Line(NamedTuple):
    """The parts of a line. All text is sanitised."""

    kind: Kind
    way: Span
    """`→` from the client, `←` from the server; with `!` if it breaks a rule, with `✗` if it is not a message."""
    subject: Span
    """The method; for a response, that of its request; for others, what the frame is."""
    id: str = ""
    """The id of the request, also for its response: `#7`."""
    name: str = ""
    """The tool, prompt or resource."""
    status: Status | None = None
    """What a response means, or what became of a request."""
    gist: Span = _NOTHING
    """The payload of a request or a notification; for others, an excerpt."""
    problem: str = ""
    """The rule that it breaks by itself."""

    @property
    def role(self) -> Role:
        """The role of its id and its name."""
        return "dim" if self.subject.role == "dim" else "plain"


def line(message: Message, meaning: Meaning) -> Line:
    """The line of a message."""
    message_line = _line(message, meaning)
    if message.frames[0].is_abridged:
        return _abridged(message_line)
    problem = message.frames[0].problem
    # In a batch, the frame breaks the rule, and the line of the batch says so.
    if problem is None or message_line.problem or message.index is not None or meaning.is_stray_body:
        return message_line
    return _broken(message_line, problem)


def _abridged(full_line: Line) -> Line:
    if full_line.kind == "response" and full_line.status is not None:
        return full_line._replace(status=full_line.status._replace(text=f"{ABRIDGED} {full_line.status.text}".rstrip()))
    return full_line._replace(gist=Span(f"{ABRIDGED} {full_line.gist.text}".rstrip(), "dim"))


def line_of(context: MessageContext) -> Line:
    """The line of a message of a reading."""
    return line(context.message, meaning_of(context))


def batch(frame: Frame, message_count: int) -> Line:
    """The line of the frame of a batch, which comes before those of the messages in it."""
    batch_line = Line("batch", _way(frame), Span(f"batch of {message_count:,}"))
    return _broken(batch_line, frame.verdict.problem) if frame.verdict.problem else batch_line


def ended(request: Request, status: Status) -> Line:
    """The second line of a request that ended without a response, which says what became of it."""
    return _of_request(request, "dim", status)


def _line(message: Message, meaning: Meaning) -> Line:
    if isinstance(message, Invalid):
        return _invalid(message, is_stray_body=meaning.is_stray_body)
    if isinstance(message, Response):
        return _response(message, meaning)
    if isinstance(message, Request) and not meaning.is_repeat:
        return _of_request(message, "accent")
    kind: Kind = "request" if isinstance(message, Request) else "notification"
    method = Span(_method(message), "dim" if meaning.is_repeat else "plain")
    return Line(kind, _way(message.frames[0]), method, gist=Span(gist(message, meaning), "dim"))


def _of_request(request: Request, role: Role, status: Status | None = None) -> Line:
    way, method, id_ = _way(request.frames[0]), Span(_method(request), role), id_text(request.id)[1:]
    return Line("request", way, method, id_, name_of(request), status, Span(gist(request), "dim"))


def _response(response: Response, meaning: Meaning) -> Line:
    way, status, call = _way(response.frames[0]), answer(response, meaning), meaning.call
    if call is None:
        return Line("response", way, Span("answer"), id_text(response.id)[1:], status=status)
    request = call.request
    response_line = Line(
        "response", way, Span(_method(request), "dim"), id_text(request.id)[1:], name_of(request), status
    )
    return _broken(response_line, CONVERTED) if meaning.is_converted else response_line


def _invalid(message: Invalid, *, is_stray_body: bool) -> Line:
    frame = message.frames[0]
    way, stray_parts = _way(frame), stray_line(message, is_stray_body=is_stray_body)
    if stray_parts is not None:
        return Line("aside", way, stray_parts[0], gist=stray_parts[1])
    excerpt = f'"{sanitise_bytes(frame.raw, EXCERPT)}"' if message.index is None else f"element {message.index + 1:,}"
    mark = Span(f"{way.text}✗", "bad")
    return Line("invalid", mark, Span("not a message", "bad"), gist=Span(excerpt), problem=message.reason)


def stray_line(message: Message, *, is_stray_body: bool) -> tuple[Span, Span] | None:
    """The line of an event that clients ignore, an unparsed frame, or an HTTP body where no message is due.

    Args:
        message: the message.
        is_stray_body: whether it is such a body; see `MessageContext.is_stray_body`.

    Returns:
        What the frame is, and an excerpt of it; None for everything else.
    """
    if not isinstance(message, Invalid):
        return None
    frame = message.frames[0]
    if frame.event is not None:
        word = f"event {sanitise(frame.event, 40)}"
    elif frame.is_ignored:
        return Span("event without data", "dim"), _NOTHING
    elif message.reason == "unjudged":
        word = "unjudged" if frame.whole else "unjudged, unfinished"
    elif is_stray_body:
        word = "body"
    else:
        return None
    text = sanitise_bytes(frame.raw, EXCERPT)
    return Span(word, "plain" if text else "dim"), Span(text, "dim")


def _method(message: Request | Notification) -> str:
    return sanitise(message.method, EXCERPT)


def _way(frame: Frame) -> Span:
    return _TO_SERVER if sender(frame) == "client" else _TO_CLIENT


def _broken(plain_line: Line, problem: str) -> Line:
    return plain_line._replace(way=Span(f"{plain_line.way.text}!", "bad"), problem=problem)
