"""Facts: what a filter can test about a message. Each fact is computed when a filter first needs it, and then kept.

Callers decide which facts are known at which time. A fact is None if it does not apply or is unknown.
"""

from typing import TYPE_CHECKING, Any, Self

from analysis.conversation.call import Call, MessageContext, Outcome, context_of
from analysis.conversation.client_ids import NO_IDS, ClientIds
from analysis.conversation.message import Id, Message, Notification, Request, Response
from analysis.conversation.request_meta import named_rank
from analysis.facts import code_of, is_error, kind_of, problem_of, raw_of, size_of, target_name
from analysis.protocol.extensions import EXTENSION_METHODS, extension_named_by
from captures.frame import Frame
from captures.record import Record, raw_bytes
from captures.verdict import Direction, Kind

if TYPE_CHECKING:
    Fact = property
else:

    class Fact:
        """A property that is computed once. `cached_property` is too slow: in Python 3.11 it takes a lock."""

        def __init__(self, compute):
            self._compute = compute
            self._name = compute.__name__
            self.__doc__ = compute.__doc__

        def __get__(self, facts, owner):
            value = facts.__dict__[self._name] = self._compute(facts)
            return value


class Facts:
    """Everything that a filter can test about one message, a batch as a whole, or another record."""

    def __init__(self, **known_facts: Any) -> None:
        """Create facts from the known ones; the others are derived from the message, if that is known.

        Args:
            known_facts: facts by their names.
        """
        self.__dict__.update(known_facts)

    def add(self, **known_facts: Any) -> Self:
        """Add facts, which replace those of the same names; return self."""
        self.__dict__.update(known_facts)
        return self

    def release(self) -> None:
        """Drop the message and its call; keep the facts that were computed."""
        self.add(message=None, call=None, own_call=None, parts=())

    # ---- where facts come from

    @Fact
    def message(self) -> Message | None:
        """The message, or None for a batch as a whole and for a record that is not a message."""
        return None

    @Fact
    def call(self) -> Call | None:
        """The call that a response answers; for a request, its own call once the outcome is known."""
        return None

    @Fact
    def own_call(self) -> Call | None:
        """The call of a request or response, whether or not its outcome is known."""
        return self.call

    @Fact
    def parts(self) -> tuple[Frame, ...]:
        """The frames of the message."""
        return () if self.message is None else self.message.frames

    @Fact
    def is_open(self) -> bool:
        """Whether the capture is still being recorded, so that a response may still come."""
        return False

    @Fact
    def is_stray_body(self) -> bool:
        """See `MessageContext.is_stray_body`."""
        return False

    # ---- facts

    @Fact
    def method(self) -> str | None:
        """Its method; for a response, that of the request."""
        message, call = self.message, self.call
        if isinstance(message, Response):
            return None if call is None else call.request.method
        return message.method if isinstance(message, Request | Notification) else None

    @Fact
    def extension(self) -> str | None:
        """The identifier of the known extension to which the method belongs."""
        method, message, call = self.method, self.message, self.call
        if method not in EXTENSION_METHODS:
            return None
        if call is not None and call.revision is not None:
            extension = call.extension
        else:
            sent = message if call is None else call.request
            rank = named_rank(sent) if isinstance(sent, Request | Notification) else None
            extension = extension_named_by(method, rank)
        return None if extension is None else extension.identifier

    @Fact
    def name(self) -> str | None:
        """The tool, the prompt or the URI of the resource that the params name; for a response, from its request."""
        message, call = self.message, self.call
        if isinstance(message, Response):
            return None if call is None else call.name
        return target_name(message.params) if isinstance(message, Request | Notification) else None

    @Fact
    def id(self) -> Id | None:
        """Its id, as the message writes it."""
        return self.message.id if isinstance(self.message, Request | Response) else None

    @Fact
    def dir(self) -> Direction | None:
        """Its direction."""
        return self.parts[0].dir if self.parts else None

    @Fact
    def kind(self) -> Kind | None:
        """Its kind; a message in a batch has its own, and the kind `batch` is that of the whole frame."""
        return None if self.message is None else kind_of(self.message)

    @Fact
    def index(self) -> int | None:
        """Its position in its batch; -1 for the batch as a whole."""
        return None if self.message is None else self.message.index

    @Fact
    def is_batched(self) -> bool:
        """Whether it is one of several messages in a frame."""
        return self.message is not None and self.index is not None

    @Fact
    def latency_ns(self) -> int | None:
        """How long the response took; the same for the request and the response of a call."""
        return None if self.call is None else self.call.latency_ns

    @Fact
    def size(self) -> int | None:
        """The total size of its frames, in bytes."""
        return size_of(self.parts) if self.parts else None

    @Fact
    def code(self) -> int | None:
        """The code of a JSON-RPC error."""
        return None if self.message is None else code_of(self.message)

    @Fact
    def is_error(self) -> bool:
        """Whether it is a JSON-RPC error, the result of a tool that failed, or a request whose HTTP exchange failed."""
        if isinstance(self.message, Request):
            return self.call is not None and self.call.outcome is Outcome.FAILED
        return self.message is not None and is_error(self.message)

    @Fact
    def is_failure(self) -> bool:
        """Whether `is_error` is true, or it is a request that got no response or was abandoned."""
        if not isinstance(self.message, Request):
            return self.is_error
        return self.call is not None and not self.is_waiting and self.call.is_failure

    @Fact
    def is_waiting(self) -> bool:
        """Whether it is a request that is still open at the end of a capture that is being recorded."""
        return self.is_open and isinstance(self.message, Request) and self.call is not None and self.call.is_open

    @Fact
    def is_answered(self) -> bool:
        """Whether it is the request or the response of a call that has both."""
        return self.call is not None and self.call.response is not None

    @Fact
    def problem(self) -> str | None:
        """The rule that the frame breaks by itself."""
        return None if self.message is None or self.is_stray_body else problem_of(self.message)

    @Fact
    def rules(self) -> tuple[str, ...]:
        """The rules that reported findings about it."""
        return ()

    @Fact
    def level(self) -> str | None:
        """The most severe level of these findings: `note`, `warning` or `error`."""
        return None

    @Fact
    def session(self) -> int | None:
        """The number of its session in the capture, from 1."""
        return None

    @Fact
    def client_ids(self) -> ClientIds:
        """What its client says that it belongs to: for a response, what the request says."""
        return NO_IDS if self.own_call is None else self.own_call.client_ids

    @Fact
    def exchange(self) -> int | None:
        """The number of the HTTP exchange that carried it."""
        return self.parts[0].exchange if self.parts else None

    @Fact
    def frames(self) -> tuple[int, int] | None:
        """The numbers of its first and last frame; for a record that is not a frame, its own number twice."""
        return (self.parts[0].seq, self.parts[-1].seq) if self.parts else None

    @Fact
    def is_marked(self) -> bool:
        """Whether the user has marked it."""
        return False

    @Fact
    def raw(self) -> bytes:
        """The bytes that crossed; for a message in a batch, the whole batch."""
        return raw_of(self.parts) if self.parts else b""


def facts_of(context: MessageContext, call: Call | None = None, *, is_open: bool = False) -> Facts:
    """The facts of a message.

    Args:
        context: the message with its context.
        call: for a request, its call once the outcome is known; for a response, `context` has the call.
        is_open: whether the capture is still being recorded, so that a response may still come.
    """
    return Facts(
        message=context.message,
        call=call or context.answered,
        own_call=call or context.call,
        is_open=is_open,
        is_stray_body=context.is_stray_body,
        session=context.session.number or None,
    )


def facts_of_call(call: Call, *, is_open: bool = False) -> Facts:
    """The facts of a request, including its outcome.

    Args:
        call: the request with its outcome.
        is_open: whether the capture is still being recorded, so that a response may still come.
    """
    assert call.session is not None
    return facts_of(context_of(call.request, call.session), call, is_open=is_open)


def facts_of_batch(frame: Frame) -> Facts:
    """The facts of a batch as a whole."""
    return Facts(parts=(frame,), kind=frame.verdict.kind, problem=frame.problem, index=-1)


def facts_of_record(record: Record) -> Facts:
    """The facts of a record that is not a message: its bytes, its number, and its HTTP exchange."""
    exchange = record.members.get("exchange")
    return Facts(
        raw=raw_bytes(record.members) or b"",
        exchange=exchange if type(exchange) is int else None,
        frames=(record.seq, record.seq),
    )
