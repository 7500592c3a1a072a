"""The facts about one message that a filter can use, and where they come from.

Callers decide what is known by when. A fact is None if it does not apply, or is unknown.
"""

from dataclasses import dataclass

from analysis.conversation.call import Call
from analysis.conversation.message import Id, Notification, Request, Response
from analysis.conversation.session import Seen
from analysis.facts import code_of, is_error, kind_of, name_in, problem_of, raw_of, size_of
from captures.frame import Direction, Frame, Kind
from captures.record import Record, raw_bytes


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a filter can test about one message; None if it does not apply, or is unknown."""

    method: str | None = None
    """For a response, the method of its request."""
    name: str | None = None
    """The tool, the prompt or the URI of the resource that the params name; for a response, from its request."""
    id: Id | None = None
    dir: Direction | None = None
    kind: Kind | None = None
    """For a message in a batch, its own kind; `batch` is the frame that holds them."""
    is_batched: bool = False
    """Whether it is one of several messages in a frame."""
    latency_ns: int | None = None
    """How long the response took, for both halves of an exchange."""
    size: int | None = None
    """Bytes of its frames."""
    code: int | None = None
    """The code of a JSON-RPC error."""
    is_error: bool = False
    """Whether it is a JSON-RPC error, or the result of a tool that failed."""
    is_failure: bool = False
    """Whether it is that, or a request that failed, that got no response, or that was abandoned."""
    is_waiting: bool = False
    """Whether it is a request that is still open at the end of a capture that is being recorded."""
    is_answered: bool = False
    """Whether it is one half of an exchange that has both."""
    problem: str | None = None
    """The rule that the frame breaks by itself."""
    rules: tuple[str, ...] = ()
    """The rules that have findings about it."""
    level: str | None = None
    """The most severe level of these: `note`, `warning` or `error`."""
    session: int | None = None
    """Number of its session in the capture, from 1."""
    exchange: int | None = None
    """Number of the HTTP exchange that carried it."""
    index: int | None = None
    """Its place in a batch; -1 for the batch as a whole."""
    frames: tuple[int, int] | None = None
    """Numbers of its first and last frame; for a record that is not a frame, its own number."""
    is_marked: bool = False
    """Whether the user has marked it."""
    raw: bytes = b""
    """The bytes that crossed; for a message in a batch, the whole batch."""


def facts_of(
    seen: Seen,
    exchange: Call | None = None,
    *,
    rules: tuple[str, ...] = (),
    level: str | None = None,
    is_open: bool = False,
) -> Facts:
    """The facts of a message.

    Args:
        seen: the message, as the fold saw it.
        exchange: for a request, its outcome once known. For a response it is known from `seen`.
        rules: the rules that have findings about it.
        level: the most severe level of these.
        is_open: whether the capture is still being recorded, so that a response may still come.
    """
    message = seen.message
    exchange = exchange or seen.exchange
    named = exchange.request if exchange is not None and isinstance(message, Response) else message
    frames = message.frames
    has_failed = is_error(message)
    asked = exchange if isinstance(message, Request) else None
    is_waiting = is_open and asked is not None and asked.is_open
    return Facts(
        method=named.method if isinstance(named, Request | Notification) else None,
        name=name_in(named.params) if isinstance(named, Request | Notification) else None,
        id=message.id if isinstance(message, Request | Response) else None,
        dir=frames[0].dir,
        kind=kind_of(message),
        is_batched=message.index is not None,
        latency_ns=exchange.latency_ns if exchange is not None else None,
        size=size_of(frames),
        code=code_of(message),
        is_error=has_failed,
        is_failure=has_failed or (asked is not None and not is_waiting and asked.is_failure),
        is_waiting=is_waiting,
        is_answered=exchange is not None and exchange.response is not None,
        problem=None if seen.is_beside else problem_of(message),
        rules=rules,
        level=level,
        session=seen.session.number or None,
        exchange=frames[0].exchange,
        index=message.index,
        frames=(frames[0].seq, frames[-1].seq),
        raw=raw_of(frames),
    )


def facts_of_call(call: Call, *, is_open: bool = False) -> Facts:
    """The facts of a request, by what has become of it.

    Args:
        call: the request with its outcome.
        is_open: whether the capture is still being recorded, so that a response may still come.
    """
    assert call.session is not None
    return facts_of(Seen(call.request, call.session), call, is_open=is_open)


def facts_of_batch(frame: Frame) -> Facts:
    """The facts of a frame with several messages, as one."""
    return Facts(
        dir=frame.dir,
        kind=frame.verdict.kind,
        size=len(frame.raw),
        problem=frame.problem,
        exchange=frame.exchange,
        index=-1,
        frames=(frame.seq, frame.seq),
        raw=frame.raw,
    )


def facts_of_record(record: Record) -> Facts:
    """The facts of a record that is not a message: its bytes, its number, and its HTTP exchange."""
    exchange = record.members.get("exchange")
    return Facts(
        raw=raw_bytes(record.members) or b"",
        exchange=exchange if type(exchange) is int else None,
        frames=(record.seq, record.seq),
    )
