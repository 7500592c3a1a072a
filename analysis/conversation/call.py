"""Call and MessageContext: a request with its outcome, and a message with its meaning.

A call is one object from the request to the end of the capture. It is created when the request is read, and changed in
place when it is cancelled, continued in another HTTP exchange or answered, or when it fails. All commands use the
properties defined here, so they all report the same. A message refers to its call.

The time that a call took has two meanings. A call lasts (`Call.lasted_ns`) until the first of its response, its
cancellation and the failure of its HTTP exchange; spans and bars show this time. Its latency (`Call.latency_ns`) ends
with the response, even if that came late; lists of responses show the latency, and how late the response was
(`Call.late_ns`). Only timely responses (`Call.is_timely`) count in percentiles; error rates count only timely responses
and failures.
"""

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from analysis.conversation.client_ids import NO_IDS, ClientIds, client_ids_of
from analysis.conversation.loss_counter import LossCounter, LostRecords
from analysis.conversation.message import Id, InvalidMessage, Message, Notification, Request, Response, id_of
from analysis.conversation.multi_round import Chain, Round
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session, State
from analysis.conversation.subscriptions import Subscription
from analysis.conversation.tasks import Task
from analysis.facts import code_of
from analysis.protocol import extensions
from analysis.protocol.error_codes import REQUEST_CANCELLED, REQUEST_TIMEOUT
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import Era, rank_of

if TYPE_CHECKING:
    from analysis.conversation.http_exchange import HttpExchange

ABANDONED_NS: Final = 5_000_000_000
"""A request that had waited this long when its sender cancelled it was abandoned, regardless of the reason given."""
MAX_REASON_CHARS: Final = 1000
"""The most characters of a cancellation's reason that are kept."""
MAX_CALL_SPANS: Final = 10_000
"""The most `spans` that are kept of one call."""
MAX_QUOTED_CHARS: Final = 60
"""The most characters of a name that guesses quote."""


class Outcome(StrEnum):
    """The outcome of a request."""

    RESULT = "result"
    """A complete result."""
    TOOL_ERROR = "tool_error"
    """A tool result with `isError`."""
    ERROR = "error"
    """A JSON-RPC error."""
    INPUT_REQUIRED = "input_required"
    """An interim result (2026-07-28): the client is to retry with more input."""
    TASK = "task"
    """A task was started; its result comes through other requests."""
    CANCELLED = "cancelled"
    """Cancelled, and not answered afterwards."""
    FAILED = "failed"
    """The HTTP exchange failed, or ended, before a response could come."""
    UNANSWERED = "unanswered"
    """No response was recorded."""
    NOT_RECORDED = "not_recorded"
    """No response was recorded, but the capture lacks the body or the records that may have contained it."""


class IdState(StrEnum):
    """The state of an id in a table."""

    NEVER_SEEN = "never_seen"
    """No request had the id, or the table has forgotten it (see `CallTable.forgotten`)."""
    OPEN = "open"
    """A request waits for its response."""
    CANCELLED = "cancelled"
    """A request waits for its response, but a cancellation has named it."""
    ANSWERED = "answered"
    """Its request has been answered, and the id has not been reused."""
    FAILED = "failed"
    """The HTTP exchange of its request ended without a response, and the id has not been reused."""


# Looking up enumeration members takes ten times as long as these constants, and each message needs some.
_RESULT: Final = Outcome.RESULT
_TOOL_ERROR: Final = Outcome.TOOL_ERROR
_ERROR: Final = Outcome.ERROR
_INPUT_REQUIRED: Final = Outcome.INPUT_REQUIRED
_TASK: Final = Outcome.TASK
_CANCELLED: Final = Outcome.CANCELLED
_FAILED: Final = Outcome.FAILED
_UNANSWERED: Final = Outcome.UNANSWERED
_NOT_RECORDED: Final = Outcome.NOT_RECORDED
_ID_OPEN: Final = IdState.OPEN
_ID_CANCELLED: Final = IdState.CANCELLED
_ID_FAILED: Final = IdState.FAILED
ERRORS: Final = frozenset({_ERROR, _TOOL_ERROR})
"""Outcomes with a response that is an error."""
FAILURES: Final = frozenset({_UNANSWERED, _FAILED})
"""Outcomes without a response although one was due."""
(_TASK_RESULT_TYPE,) = extensions.TASKS.result_types
_MIN_UNSUCCESSFUL_STATUS: Final = 300
_TOKEN_TYPES: Final = (str, int, float)
_TIMED_OUT: Final = re.compile(rf"tim(?:e|ed)[\s_-]?out|deadline|{REQUEST_TIMEOUT}", re.IGNORECASE)


class ProbableAnswer(NamedTuple):
    """A response that fits no request, kept with the request that it was probably meant for."""

    seq: int
    """Number of its frame."""
    id: str | None
    """Its id as JSON, truncated; None if the id is missing or null. Untrusted text."""

    @property
    def text(self) -> str:
        """What the response means for the request, as a clause."""
        return f"probably answered by frame {self.seq} {'without an id' if self.id is None else f'with id {self.id}'}"


class Call(Struct, eq=False):
    """A request and its outcome, as far as it is known. Only the fold and its parts, in this package, change it."""

    request: Request
    revision: str | None = None
    """The revision of MCP in force for the request; once it is answered, the revision that the response settles."""
    era: Era | None = None
    """The era of the request."""
    http: "HttpExchange | None" = None
    """The HTTP exchange that carried the request, or the last one if it was redirected; None on stdio."""
    session: Session | None = None
    """The session of the request."""
    number: int = -1
    """The position among the requests of the capture, from 0."""
    name: str | None = None
    """The tool, prompt or resource URI that the request names. Untrusted text."""
    token: Id | None = None
    """The progress token of the request; None if there is none."""
    in_flight: int = 0
    """How many requests of its session waited when it was sent: itself included, cancelled ones not."""
    outer: "Call | None" = None
    """For a server's request: the client's call during which it was sent; None if unknown."""
    progress: int = 0
    """How many progress notifications came for the request."""
    first_progress_ns: int | None = None
    """Stamp of the first progress notification; None if there is none."""
    spans: list[tuple[int, int]] | None = None
    """The times between which the receiver of the request itself waited for responses, each as start and end."""
    stall_ns: int = 0
    """How long after its stamp the request was handed on."""
    redirects: int = 0
    """How many times the request was redirected and repeated."""
    round: Round | None = None
    """The round of a chain that this call is; None if it is a separate call."""
    task: Task | None = None
    """The task that the call started or is about."""
    is_app_call: bool = False
    """Whether it calls a tool that is only for apps, and that its host therefore hides from its model. An app started
    it, or a user in a tool for debugging. Calls of apps to other tools look like those of the model."""
    response: Response | None = None
    """The response; None if none came."""
    ended_ns: int | None = None
    """Stamp of the response."""
    cancellation: RecordRef | None = None
    """The first cancellation that named the request, or the end of the HTTP exchange that its client closed to cancel
    it."""
    cancel_reason: str | None = None
    """The reason given in that cancellation. Untrusted text."""
    fault: Outcome | None = None
    """The outcome that the request already had when it was cancelled; None if it could still be answered or was not
    cancelled."""
    exchange_end: RecordRef | None = None
    """The end of the HTTP exchange on which its response was due; None while the exchange is open or resumed, and after
    a response."""
    has_client_closed: bool = False
    """Whether the client ended that exchange: it gave up, although this does not cancel the request."""
    final_outcome: Outcome | None = None
    """The final outcome; None while it can still change."""
    is_forgotten: bool = False
    """Whether the call had to be forgotten because too many were open: its response then matches no request."""
    losses: LossCounter | None = None
    """The shared counter of losses of records; None if unknown."""
    losses_before: int = 0
    """The value of that counter when the request was sent."""
    guessed_response: ProbableAnswer | None = None
    """The first response that fits no request but was probably meant for this one."""

    # ---- the outcome

    @property
    def outcome(self) -> Outcome:
        """The outcome, as far as it is known."""
        return self.final_outcome or self._outcome_without_response

    @property
    def is_over(self) -> bool:
        """Whether nothing read later can change the outcome."""
        return self.final_outcome is not None or self.is_forgotten or not self.request.id.is_answerable

    @property
    def started_ns(self) -> int:
        """When the request was handed on: its stamp, plus the time that the receiver then took to accept it."""
        return self.request.t_ns + self.stall_ns

    @property
    def latency_ns(self) -> int | None:
        """How long the response took, even if it came late (`late_ns`), or None without a response."""
        return None if self.ended_ns is None else max(0, self.ended_ns - self.started_ns)

    @property
    def waiting_ns(self) -> int:
        """How much of the latency the receiver itself spent waiting for responses: the union of `spans`."""
        total, until = 0, self.started_ns
        for begin, end in sorted(self.spans or ()):
            end = end if self.ended_ns is None else min(end, self.ended_ns)
            total += max(0, end - max(begin, until))
            until = max(until, end)
        return total

    @property
    def cancelled_ns(self) -> int | None:
        """Stamp of the first cancellation, or of the end of an HTTP exchange that its client closed.

        A response may still have come after it. The outcome says whether the call had failed before it.
        """
        end = self._end_of_waiting
        return None if end is None else end.t_ns

    @property
    def cancelled_seq(self) -> int | None:
        """Number of the frame of the first cancellation, or of the record of the end of such an exchange."""
        end = self._end_of_waiting
        return None if end is None else end.seq

    @property
    def cancelled_after_ns(self) -> int | None:
        """How long the request had waited when it was cancelled, or None if it was not."""
        cancelled_ns = self.cancelled_ns
        return None if cancelled_ns is None else max(0, cancelled_ns - self.started_ns)

    @property
    def is_closed_by_client(self) -> bool:
        """Whether the client cancelled the request, or gave up on it, by closing its HTTP exchange."""
        exchange_end = None if self.http is None else self.http.end_ref
        return exchange_end is not None and exchange_end.seq == self.cancelled_seq

    @property
    def cancelled_by(self) -> int | None:
        """Frame number of the first cancellation that named the request while it had no response."""
        return None if self.cancellation is None else self.cancellation.seq

    @property
    def _end_of_waiting(self) -> RecordRef | None:
        return self.cancellation or (self.exchange_end if self.has_client_closed else None)

    @property
    def failure(self) -> RecordRef | None:
        """The end of the HTTP exchange that made the call fail, or None if it has not failed."""
        if self.outcome is not _FAILED:
            return None
        return self.exchange_end or (None if self.http is None else self.http.end_ref)

    @property
    def end_ref(self) -> RecordRef | None:
        """The record that ended the wait for the response, or None if the wait has not ended as far as is known.

        This is the first of its response, its cancellation (or the end of an HTTP exchange that its client closed), and
        the failure of its HTTP exchange. `calls.until_ns` in SQL has the same stamp, and also has one where this is
        None.
        """
        response = None if self.response is None else RecordRef(self.response.seq, self.response.t_ns)
        if response is not None and self.cancellation is None and not self.has_client_closed:
            return response  # the usual case: a call with a response has not failed
        ends = [end for end in (response, self._end_of_waiting, self.failure) if end is not None]
        return min(ends, key=lambda mark: mark.t_ns, default=None)

    @property
    def lasted_ns(self) -> int | None:
        """How long the call lasted, from when the request was handed on until the wait ended, or None if it has not."""
        end = self.end_ref
        return None if end is None else max(0, end.t_ns - self.started_ns)

    @property
    def broken_after_ns(self) -> int | None:
        """How long the request had waited when its HTTP exchange ended without its response, or None if it did not."""
        return None if self.exchange_end is None else max(0, self.exchange_end.t_ns - self.started_ns)

    @property
    def is_ended_by_leaving(self) -> bool:
        """Whether the client closed the HTTP exchange, and no cancellation had come before that."""
        return self.has_client_closed and self.exchange_end is not None and self.cancelled_ns == self.exchange_end.t_ns

    @property
    def abandoned_ns(self) -> int | None:
        """How long the request had waited when its sender abandoned it, or None if that did not happen.

        A request is abandoned by a cancellation whose reason names a timeout, or that comes after five seconds: both
        official SDKs cancel a call that times out. Up to 2025-11-25, a client that closes the HTTP exchange instead has
        given up, however early. From 2026-07-28 on, a client cancels by closing the exchange, and gives no reason:
        before five seconds, a timeout looks like any other cancellation. A response may still have come afterwards.
        """
        waited_ns = self.cancelled_after_ns
        if waited_ns is None or self.request.method in ENDLESS_METHODS:
            return None
        is_given_up = self.has_client_closed or waited_ns >= ABANDONED_NS or mentions_timeout(self.cancel_reason)
        return waited_ns if is_given_up else None

    @property
    def is_acknowledged(self) -> bool:
        """Whether the response is the error that acknowledges a cancellation; such a response is not late."""
        response = self.response
        return response is not None and self.cancelled_ns is not None and code_of(response) == REQUEST_CANCELLED

    @property
    def late_ns(self) -> int | None:
        """How long after its cancellation the request was answered, or None if it was not, or was only acknowledged."""
        cancelled_ns = self.cancelled_ns
        if cancelled_ns is None or self.ended_ns is None or self.is_acknowledged:
            return None
        return max(0, self.ended_ns - cancelled_ns)

    @property
    def probable_answer(self) -> ProbableAnswer | None:
        """For an unanswered request: the first response that fits no request and was probably meant for this one."""
        return self.guessed_response if self.response is None else None

    @property
    def client_ids(self) -> ClientIds:
        """What the client says that the request belongs to: its turn, conversation and so on; none if the server asks.

        It is computed whenever it is read.
        """
        if self.request.sender != "client":
            return NO_IDS
        session, http = self.session, self.http
        return client_ids_of(
            self.request,
            None if http is None else http.single_field("traceparent"),
            None if session is None else session.environment,
            None if session is None or session.client is None else session.client.name,
        )

    @property
    def extension(self) -> extensions.Extension | None:
        """The known extension to which its method belongs; None if there is none."""
        return extensions.extension_named_by(self.request.method, rank_of(self.revision))

    # ---- without a response so far

    @property
    def is_awaited(self) -> bool:
        """Whether the sender still waits for a response, and one can still come."""
        return self.cancellation is None and self.exchange_end is None and self.request.method not in ENDLESS_METHODS

    @property
    def is_open(self) -> bool:
        """Whether a response that the sender wants may still come, if the capture is still being recorded."""
        return self.outcome is _UNANSWERED and self.abandoned_ns is None and self.request.method not in ENDLESS_METHODS

    @property
    def is_failure(self) -> bool:
        """Whether the request was abandoned or got no response although one was due; error responses do not count."""
        if self.request.method in ENDLESS_METHODS:
            return False
        return self.outcome in FAILURES or self.abandoned_ns is not None

    @property
    def is_error(self) -> bool:
        """Whether the call counts as an error, as in SQL: it failed, or an error came while the sender still waited."""
        outcome = self.outcome
        return outcome is _FAILED or (outcome in ERRORS and self.cancelled_ns is None)

    @property
    def is_timely(self) -> bool:
        """Whether the latency counts, as in SQL: the response preceded any cancellation, and both times are exact.

        A request that is open for as long as its sender wants has no latency.
        """
        is_answered = self.outcome is _RESULT or self.outcome in ERRORS
        if self.request.method in ENDLESS_METHODS:
            return False
        return is_answered and self.cancelled_ns is None and self.has_exact_times

    @property
    def has_exact_times(self) -> bool:
        """Whether the times of the request and its response, if any, are exact: always, except in imported captures."""
        response = self.response
        return self.request.frames[0].time_is_exact and (response is None or response.frames[-1].time_is_exact)

    @property
    def is_due(self) -> bool:
        """Whether a response is due: the request was not cancelled, or only after it had failed."""
        return self.cancellation is None or self.fault is not None

    @property
    def id_state(self) -> IdState:
        """The state of the request's id."""
        if self.exchange_end is not None and self.http is not None and self.http.is_redirect:
            return _ID_FAILED
        return _ID_OPEN if self.cancellation is None else _ID_CANCELLED

    @property
    def may_be_lost(self) -> bool:
        """Whether records were lost after the request was sent: its response may be among them."""
        return self.losses is not None and self.losses.count > self.losses_before

    @property
    def lost_records(self) -> LostRecords | None:
        """The lost records among which the response may be, or None if there are none, or their numbers are unknown."""
        if self.losses is None or self.outcome is not _NOT_RECORDED:
            return None
        end = self.exchange_end
        return self.losses.lost_since(self.losses_before, self.request.seq, None if end is None else end.seq)

    def may_be_in(self, http: "HttpExchange") -> bool:
        """Whether the response may have come in an ended exchange that the capture does not contain completely."""
        if http.status is None or http.status >= _MIN_UNSUCCESSFUL_STATUS:
            return False
        return "server" in http.unrecorded_sides or (self.may_be_lost and http.response_size > 0)

    @property
    def _outcome_without_response(self) -> Outcome:
        """The outcome without a response."""
        if self.fault is not None:
            return self.fault
        if self.has_client_closed and self.request.method == "initialize":
            return _UNANSWERED
        if self.cancellation is not None or self.has_client_closed:
            return _CANCELLED
        if self.exchange_end is not None:
            return _NOT_RECORDED if self.http is not None and self.may_be_in(self.http) else _FAILED
        return _NOT_RECORDED if self.may_be_lost else _UNANSWERED

    # ---- changes, by the fold

    def answer(self, response: Response) -> None:
        """Record the response."""
        self.response, self.ended_ns = response, response.t_ns
        self.final_outcome = outcome_of(response, self.request)
        if self.exchange_end is not None or self.has_client_closed:
            self.exchange_end, self.has_client_closed = None, False
        outer = self.outer
        if outer is not None and outer.final_outcome is None and self.request.method != "ping":
            if outer.spans is None:
                outer.spans = []
            if len(outer.spans) < MAX_CALL_SPANS:
                outer.spans.append((self.request.t_ns, response.t_ns))


class GuessedRequest(NamedTuple):
    """The request that a response without a matching request was probably meant for."""

    call: Call
    why: str
    """The reason for the guess: `the only request open then`."""
    answer: ProbableAnswer
    """The response, as the call keeps it if it is the first one."""

    @property
    def text(self) -> str:
        """The guess as a clause. Untrusted text in it is truncated, and not safe on a screen."""
        request = self.call.request
        params = request.params if isinstance(request.params, dict) else {}
        names = [name for name in (params.get("name"), params.get("uri")) if isinstance(name, str) and name]
        words = [quoted(request.method), *(quoted(name) for name in names[:1]), f"#{quoted(request.id.text)}"]
        return f"probably meant for {' '.join(words)} (frame {request.seq}), {self.why}"


class EarlierRequest(NamedTuple):
    """A request whose id was reused."""

    seq: int
    conn: int
    """The connection that carried it; 0 on stdio."""
    state: IdState
    """The state of the id when it was reused."""


class MessageContext(Struct, eq=False):
    """A message and its meaning in its session; `context_of` creates one."""

    message: Message
    session: Session
    """The session of the message."""
    body: dict[str, Any]
    """The members of the message; empty if it is invalid."""
    call: Call | None = None
    """The call to which the message belongs. A request opens it, and a response answers it; but a repeated message
    (`is_repeat`) belongs to the call of the original, and a response that no client can have read belongs to the call
    that it would have answered."""
    answered: Call | None = None
    """For a response: `call`, if the response answers it. None if the response pairs with nothing, is repeated or
    cannot have been read."""
    id_state: IdState | None = None
    """For a request, response or cancellation: the state of its id before the message."""
    revision: str | None = None
    """The revision in force for the message; None if unknown."""
    rank: int | None = None
    """The rank of that revision; None if unknown."""
    cancels: Request | None = None
    """For a cancellation: the request that it names."""
    cancelled: Call | None = None
    """For the first cancellation of a request: the call of that request; a response may still come."""
    state: State = "new"
    """The state of its session's handshake before this message."""
    era: Era | None = None
    """The era of the message; None if unknown."""
    is_converted: bool = False
    """For a response: whether its id matches its request only as another JSON type, such as a `"7"` for a 7."""
    earlier: EarlierRequest | None = None
    """For a request: the last earlier request of the same side with the same id in this session."""
    http: "HttpExchange | None" = None
    """The HTTP exchange that carried the message; None on stdio. The end of the exchange is not known yet."""
    request: Request | None = None
    """The request itself, or the one that a response answers."""
    round: Round | None = None
    """For a retry, or a response to any round: the round. Only the response shows that a request begins a chain."""
    task: Task | None = None
    """The task that the message creates or is about."""
    subscription: Subscription | None = None
    """The subscription that the message begins, ends or belongs to."""
    guessed_request: GuessedRequest | None = None
    """For a response that fits no request: the open request that it was probably meant for, if any."""
    is_repeat: bool = False
    """Whether this repeats a message whose exchange was redirected: it is not another message, and means nothing
    new."""
    digest: bytes | None = None
    """A digest of the result, which `analysis.rules.unchanged_content` keeps here."""

    def pack(self) -> None:
        """Keep only the bytes of the message, not its values; see `Request.pack`."""
        if not isinstance(self.message, InvalidMessage):
            self.message.pack()
            del self.body

    def __getattr__(self, name: str) -> Any:
        """Parse the members of a packed message again. `body` is the only attribute that can be missing."""
        if name != "body":
            raise AttributeError(name)
        return {} if isinstance(self.message, InvalidMessage) else self.message.body

    @property
    def is_posted(self) -> bool:
        """Whether the message may have been POSTed.

        This is False only for a client's body in an HTTP request that is not known to be a POST.

        """
        return self.http is None or self.message.sender == "server" or self.http.method == "POST"

    @property
    def is_stray_body(self) -> bool:
        """Whether this is an HTTP body that is not a message, where no message is due.

        Clients send messages in POST requests, and HTTP responses that answer no request contain none.
        """
        if (
            self.http is None
            or not isinstance(self.message, InvalidMessage)
            or self.message.frames[0].unit != "http_body"
        ):
            return False
        if self.message.sender == "client":
            return not self.is_posted
        return not any(isinstance(context.message, Request) for context in self.http.client_messages)

    @property
    def chain(self) -> Chain | None:
        """The chain of its round."""
        return None if self.round is None else self.round.chain

    @property
    def method(self) -> str:
        """The method of the message or of the request that it answers, or an empty string if there is none."""
        if self.request is not None:
            return self.request.method
        return self.message.method if isinstance(self.message, Notification) else ""


def context_of(
    message: Message,
    session: Session,
    call: Call | None = None,
    id_state: IdState | None = None,
    revision: str | None = None,
    *,
    cancels: Request | None = None,
    cancelled: Call | None = None,
    state: State = "new",
    era: Era | None = None,
    is_converted: bool = False,
    earlier: EarlierRequest | None = None,
    http: "HttpExchange | None" = None,
    meant: GuessedRequest | None = None,
) -> MessageContext:
    """Returns the context of a message, with the attributes that follow from the arguments.

    The arguments are attributes of `MessageContext`; the call of a response is the one that it answers.
    """
    return MessageContext(
        message,
        session,
        {} if isinstance(message, InvalidMessage) else message.body,
        call,
        call if isinstance(message, Response) else None,
        id_state,
        revision,
        rank_of(revision),
        cancels,
        cancelled,
        state,
        era,
        is_converted,
        earlier,
        http,
        call.request if call is not None else message if isinstance(message, Request) else None,
        guessed_request=meant,
    )


def quoted(text: str) -> str:
    """Returns text from a peer, truncated to the length that guesses quote."""
    return text if len(text) <= MAX_QUOTED_CHARS else f"{text[: MAX_QUOTED_CHARS - 1]}…"


def token_of(value: object) -> Id | None:
    """Returns a progress token as a key, or None if the value is not a valid token."""
    return id_of(value) if isinstance(value, _TOKEN_TYPES) else None


def mentions_timeout(reason: str | None) -> bool:
    """Whether the reason given in a cancellation names a timeout."""
    return _TIMED_OUT.search(reason or "") is not None


def outcome_of(response: Response, request: Request | None) -> Outcome:
    """Returns the outcome that a response means for its request; `request` is None if that is unknown."""
    if "error" in response.body and response.is_error:
        return _ERROR
    result: Any = response.result
    if not isinstance(result, dict):
        return _RESULT
    if result.get("isError") is True:
        return _TOOL_ERROR
    type_ = result.get("resultType")
    if type_ == "input_required":
        return _INPUT_REQUIRED
    # 2025-11-25 answers with `task` if the request asked for one; later revisions name the type.
    params = request.params if request is not None and "task" in result else None
    is_stub = isinstance(params, dict) and "task" in params and isinstance(result["task"], dict)
    return _TASK if type_ == _TASK_RESULT_TYPE or is_stub else _RESULT
