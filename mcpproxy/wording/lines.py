"""Line: what one line says about a message, in parts. The code that draws the line arranges, cuts and colours them."""

from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.call import MessageContext
from analysis.conversation.message import InvalidMessage, Message, Notification, Request, Response, sender_of
from captures.frame import Frame
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.wording.gists import gist
from mcpproxy.wording.meaning import Meaning, meaning_of
from mcpproxy.wording.names import id_text, name_of
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.statuses import Status, answer_status
from mcpproxy.wording.values import MAX_EXCERPT_CHARS

Kind: TypeAlias = Literal["request", "response", "notification", "batch", "aside", "invalid"]
"""`aside` is a frame that is allowed not to be a message; `invalid` is any other frame that is not a message."""
CONVERTED_ID_RULE: Final = "id/type-changed"
"""The rule broken by a response whose id has a different JSON type from the id of its request. Most clients do not
match the two and keep waiting, although a line shows them as a pair."""

ABRIDGED_PREFIX: Final = "[partial]"
"""Comes before the text of a message if an imported log contains only part of that message."""

TO_SERVER: Final = Span("→", "accent")
TO_CLIENT: Final = Span("←", "server")
_NO_TEXT: Final = Span("")


class Line(NamedTuple):
    """The parts of a line. All text is sanitised."""

    kind: Kind
    direction: Span
    """`→` from the client, `←` from the server; with `!` if it breaks a rule, with `✗` if it is not a message."""
    subject: Span
    """The method; for a response, that of its request; for others, what the frame is."""
    id: str = ""
    """The id of the request, also for its response: `#7`."""
    name: str = ""
    """The tool, prompt or resource."""
    status: Status | None = None
    """What a response means, or what became of a request."""
    gist: Span = _NO_TEXT
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
        return _with_abridged_prefix(message_line)
    problem = message.frames[0].problem
    # In a batch, the frame breaks the rule, and the line of the batch says so.
    if problem is None or message_line.problem or message.index is not None or meaning.is_stray_body:
        return message_line
    return _with_problem(message_line, problem)


def _with_abridged_prefix(full_line: Line) -> Line:
    if full_line.kind == "response" and full_line.status is not None:
        return full_line._replace(
            status=full_line.status._replace(text=f"{ABRIDGED_PREFIX} {full_line.status.text}".rstrip())
        )
    return full_line._replace(gist=Span(f"{ABRIDGED_PREFIX} {full_line.gist.text}".rstrip(), "dim"))


def line_of(context: MessageContext) -> Line:
    """The line of a message of a reading."""
    return line(context.message, meaning_of(context))


def line_of_batch(frame: Frame, message_count: int) -> Line:
    """The line of the frame of a batch, which comes before those of the messages in it."""
    batch_line = Line("batch", _direction(frame), Span(f"batch of {message_count:,}"))
    return _with_problem(batch_line, frame.verdict.problem) if frame.verdict.problem else batch_line


def line_of_ended_request(request: Request, status: Status) -> Line:
    """The second line of a request that ended without a response, which says what became of it."""
    return _request_line(request, "dim", status)


def _line(message: Message, meaning: Meaning) -> Line:
    if isinstance(message, InvalidMessage):
        return _invalid_line(message, is_stray_body=meaning.is_stray_body)
    if isinstance(message, Response):
        return _response_line(message, meaning)
    if isinstance(message, Request) and not meaning.is_repeat:
        return _request_line(message, "accent")
    kind: Kind = "request" if isinstance(message, Request) else "notification"
    method = Span(_method(message), "dim" if meaning.is_repeat else "plain")
    return Line(kind, _direction(message.frames[0]), method, gist=Span(gist(message, meaning), "dim"))


def _request_line(request: Request, role: Role, status: Status | None = None) -> Line:
    way, method, id_ = _direction(request.frames[0]), Span(_method(request), role), id_text(request.id)[1:]
    return Line("request", way, method, id_, name_of(request), status, Span(gist(request), "dim"))


def _response_line(response: Response, meaning: Meaning) -> Line:
    way, status, call = _direction(response.frames[0]), answer_status(response, meaning), meaning.call
    if call is None:
        return Line("response", way, Span("answer"), id_text(response.id)[1:], status=status)
    request = call.request
    response_line = Line(
        "response", way, Span(_method(request), "dim"), id_text(request.id)[1:], name_of(request), status
    )
    return _with_problem(response_line, CONVERTED_ID_RULE) if meaning.is_converted else response_line


def _invalid_line(message: InvalidMessage, *, is_stray_body: bool) -> Line:
    frame = message.frames[0]
    way, stray_parts = _direction(frame), stray_line(message, is_stray_body=is_stray_body)
    if stray_parts is not None:
        return Line("aside", way, stray_parts[0], gist=stray_parts[1])
    excerpt = (
        f'"{sanitise_bytes(frame.raw, MAX_EXCERPT_CHARS)}"'
        if message.index is None
        else f"element {message.index + 1:,}"
    )
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
    if not isinstance(message, InvalidMessage):
        return None
    frame = message.frames[0]
    if frame.event is not None:
        word = f"event {sanitise(frame.event, 40)}"
    elif frame.is_ignored:
        return Span("event without data", "dim"), _NO_TEXT
    elif message.reason == "unjudged":
        word = "unjudged" if frame.whole else "unjudged, unfinished"
    elif is_stray_body:
        word = "body"
    else:
        return None
    text = sanitise_bytes(frame.raw, MAX_EXCERPT_CHARS)
    return Span(word, "plain" if text else "dim"), Span(text, "dim")


def _method(message: Request | Notification) -> str:
    return sanitise(message.method, MAX_EXCERPT_CHARS)


def _direction(frame: Frame) -> Span:
    return TO_SERVER if sender_of(frame) == "client" else TO_CLIENT


def _with_problem(plain_line: Line, problem: str) -> Line:
    return plain_line._replace(direction=Span(f"{plain_line.direction.text}!", "bad"), problem=problem)
