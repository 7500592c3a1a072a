"""A client of Streamable HTTP: each POST has a response; what belongs to no request goes to the stream of a GET."""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final

from analysis.playback.items import HttpAnswer
from mcpproxy.mock.conversation import Conversation
from mcpproxy.mock.http.client import MAX_OPEN_REQUESTS, HttpClient
from mcpproxy.mock.http.connection import WITHOUT_CONTENT, HttpRequest, HttpResponse
from mcpproxy.mock.http.messages import (
    EVENT_STREAM,
    JSON,
    HeaderFields,
    accepts,
    error_body,
    event_bytes,
    media_type_of,
    repeated_fields,
    stream_fields,
    type_of_text,
)
from mcpproxy.mock.http.streams import EventHistory, EventStream
from mcpproxy.mock.outgoing import Outgoing

SESSION_FIELD: Final = "Mcp-Session-Id"
_OPEN_ENDS: Final = ("", "client")
"""How an exchange ended that the server would have continued."""


class StreamableClient(HttpClient):
    """A client that posts to one address."""

    def __init__(
        self,
        conversation: Conversation,
        session: int,
        on_stderr: Callable[[bytes], None],
        history: EventHistory,
        accepted_notification: Callable[[], HttpAnswer | None],
        *,
        is_recorded_over_http: bool,
    ) -> None:
        """Begin a client without a session id.

        Args:
            conversation: the conversation with the client.
            session: the number of the recorded session that it plays.
            on_stderr: called with each line that the recorded server wrote to stderr.
            history: what counts the events that are kept.
            accepted_notification: returns how the recorded server accepted a notification; None if it is not known.
            is_recorded_over_http: whether the recording has HTTP.
        """
        super().__init__(conversation, session, on_stderr)
        self.session_id: str | None = None
        """The session id that it was given; None if it was given none."""
        self.on_session_id: Callable[[], None] = _do_nothing
        """Called when it is given a session id."""
        self.has_initialized = False
        """Whether it has sent `initialize`."""
        self._accepted_notification = accepted_notification
        self._is_recorded_over_http = is_recorded_over_http
        self._history = history
        self._stream_by_id: dict[str, EventStream] = {}
        self._own_stream = EventStream(history, self._stream_by_id, keeps_all=True)
        """The events that belong to no request."""
        self._posts: dict[int, _Post] = {}
        """The open ones, by the numbers of their requests."""
        self._slow_responses: set[HttpResponse] = set()

    @property
    def has_slow_reader(self) -> bool:
        """Whether one of its responses has much that it has not read."""
        self._slow_responses = {response for response in self._slow_responses if response.is_full}
        return bool(self._slow_responses)

    @property
    def needs_session_id(self) -> bool:
        """Whether it must send its session id: it got one in answer to `initialize`."""
        return self.has_initialized and self.session_id is not None

    @property
    def is_idle(self) -> bool:
        """Whether no request and no stream is open."""
        return not self._posts and not self._own_stream.is_read

    def initialize(self, request: HttpRequest, response: HttpResponse) -> None:
        """Pass `initialize` to the conversation; the response may have a new session id."""
        self.has_initialized = True
        self._post(request, response, is_initialize=True)

    def post(self, request: HttpRequest, response: HttpResponse) -> None:
        """Pass a message to the conversation; answer 202 if it has no request, and 400 if it is not a message."""
        self._post(request, response, is_initialize=False)

    def _post(self, request: HttpRequest, response: HttpResponse, *, is_initialize: bool) -> None:
        if len(self._posts) >= MAX_OPEN_REQUESTS:
            response.send_whole(503, (), JSON, error_body("too many requests are open"))
            return
        invalid_count = self.conversation.usage.invalid_count
        requests = self.conversation.receive(request.body, time.monotonic_ns())
        if requests:
            post = _Post(self, requests, request, response, is_initialize=is_initialize)
            post.is_invalid = self.conversation.usage.invalid_count > invalid_count
            self._posts.update(dict.fromkeys(requests, post))
        else:
            self._accept(response)
        self.proceed()

    def _accept(self, response: HttpResponse) -> None:
        """Answer a message without a request as the recorded server did."""
        accepted = self._accepted_notification()
        if accepted is None or accepted.is_legacy:
            response.send_whole(202, (), None, b"")
        else:
            send_recorded(response, accepted)

    def listen(self, response: HttpResponse, after_id: str | None, recorded: HttpAnswer | None) -> None:
        """Open the stream of a GET: after an event, or with what belongs to no request.

        Args:
            response: the response to the GET.
            after_id: the id of the last event that the client has got.
            recorded: how a GET was answered in the recording.
        """
        stream = self._stream_by_id.get(after_id) if after_id is not None else None
        response.begin_events(200, stream_fields(recorded))
        if stream is None:
            self._own_stream.open(response)
        else:
            stream.open(response, after_id)
        self.watch(response)
        self.proceed()

    def watch(self, response: HttpResponse) -> None:
        """Continue when a slow reader of a response has caught up."""
        response.on_drained = self.proceed

    def deliver(self, outgoings: Sequence[Outgoing]) -> None:
        """Send each item to its POST, or to the stream of a GET."""
        by_post: dict[_Post, list[Outgoing]] = {}
        for outgoing in outgoings:
            post = self._posts.get(outgoing.request) if outgoing.request is not None else None
            if post is not None and not post.belongs_to_own_stream(outgoing):
                by_post.setdefault(post, []).append(outgoing)
            elif outgoing.raw or outgoing.is_priming:
                self._send_event(self._own_stream, outgoing)
        for post, post_outgoings in by_post.items():
            for number in [item.request for item in post_outgoings if item.ends_request and item.request is not None]:
                self._posts.pop(number, None)
            post.deliver(post_outgoings)
            self.note_slow(post.response)
        if self._own_stream.response is not None:
            self.note_slow(self._own_stream.response)

    def note_slow(self, response: HttpResponse) -> None:
        """Send nothing more while a response has much that was not read."""
        if response.is_full:
            self._slow_responses.add(response)

    def new_stream(self) -> EventStream:
        """Returns a stream for the events of one POST."""
        return EventStream(self._history, self._stream_by_id)

    def send_outgoing(self, stream: EventStream, outgoing: Outgoing, *, is_first: bool) -> None:
        """Send an item as an event, and break the stream where it broke in the recording."""
        recorded = outgoing.http
        retry_ms = recorded.retry_ms if recorded is not None and is_first else None
        data = outgoing.raw or (b"" if outgoing.is_priming else None)
        event = event_bytes(data, event_id=outgoing.event_id, retry_ms=retry_ms, event=outgoing.event)
        stream.send(event, outgoing.event_id)
        if outgoing.ends_stream and recorded is not None and not recorded.is_legacy and _was_ended(recorded):
            stream.break_off(is_clean=recorded.ended_by == "complete")

    def _send_event(self, stream: EventStream, outgoing: Outgoing) -> None:
        self.send_outgoing(stream, outgoing, is_first=outgoing.is_priming)

    def session_fields(self, answer: Outgoing) -> HeaderFields:
        """Returns the field with the session id of the client, which is new if the recorded server gave one here."""
        recorded = answer.http
        if recorded is None:
            is_given = not self._is_recorded_over_http
        else:
            is_given = recorded.assigns_session_id or recorded.is_legacy
        if self.session_id is None and is_given:
            self.session_id = secrets.token_hex(16)
            self.on_session_id()
        return ((SESSION_FIELD, self.session_id),) if self.session_id is not None else ()

    def abandon(self, requests: Sequence[int]) -> None:
        """Note that the client closed the response to requests."""
        for number in requests:
            if self._posts.pop(number, None) is not None and not self.is_ended:
                self.conversation.abandon(number)
        self.proceed()

    def close_streams(self) -> None:
        """End its event streams, and cut the connections of its other requests."""
        posts = set(self._posts.values())
        self._posts.clear()
        for post in posts:
            post.close()
        self._own_stream.finish()


class _Post:
    """The response to a POST with at least one request."""

    def __init__(
        self,
        client: StreamableClient,
        requests: Sequence[int],
        request: HttpRequest,
        response: HttpResponse,
        *,
        is_initialize: bool,
    ) -> None:
        self.response = response
        self.is_invalid = False
        """Whether the body is not a message."""
        self._client = client
        self._open_requests = set(requests)
        accept_values = request.fields.values_of(b"accept")
        self._can_stream = accepts(accept_values, EVENT_STREAM)
        self._can_send_json = accepts(accept_values, JSON)
        self._is_initialize = is_initialize
        self._waiting: list[Outgoing] = []
        self._stream: EventStream | None = None
        response.on_client_gone = self._on_client_gone
        client.watch(response)

    def belongs_to_own_stream(self, outgoing: Outgoing) -> bool:
        """Whether an item for this request came on the stream of a GET in the recording, although nothing broke."""
        recorded = outgoing.http
        return (
            recorded is not None
            and recorded.method == "GET"
            and not recorded.is_legacy
            and not outgoing.ends_request
            and self._stream is None
            and not self._waiting
        )

    def deliver(self, outgoings: Sequence[Outgoing]) -> None:
        """Send items, as events or as one body: as in the recording, or else depending on how many there are."""
        self._open_requests -= {outgoing.request for outgoing in outgoings if outgoing.ends_request}
        if self._stream is not None:
            self._send_events(self._stream, outgoings, is_begun=True)
            return
        self._waiting += [
            outgoing for outgoing in outgoings if outgoing.raw or outgoing.is_priming or _is_failure(outgoing)
        ]
        failure = next((outgoing for outgoing in self._waiting if _is_failure(outgoing)), None)
        messages = [outgoing for outgoing in self._waiting if outgoing is not failure]
        if failure is not None and failure.http is not None and not messages:
            self._fail(failure, failure.http)
            return
        is_complete = not self._open_requests
        if not messages:
            if is_complete:
                self.response.send_whole(202, (), None, b"")
            return
        is_single = is_complete and len(messages) == 1
        if is_single and failure is None and self._can_send_json and media_type_of(messages[0].http) != EVENT_STREAM:
            self._send_body(messages[0])
        elif self._can_stream:
            self._waiting = []
            self._stream = self._client.new_stream()
            self.response.begin_events(self._status(messages[0]), self._fields(messages[-1], is_stream=True))
            self._stream.response = self.response
            self._send_events(self._stream, [*messages, *([failure] if failure is not None else [])], is_begun=False)
        elif is_complete:
            self._send_body(next((item for item in reversed(messages) if item.ends_request), messages[-1]))

    def _send_body(self, answer: Outgoing) -> None:
        self.response.send_whole(self._status(answer), self._fields(answer), JSON, answer.raw)

    def _send_events(self, stream: EventStream, outgoings: Sequence[Outgoing], *, is_begun: bool) -> None:
        for number, outgoing in enumerate(outgoings):
            if (outgoing.raw or outgoing.is_priming) and not _is_failure(outgoing):
                is_first = not is_begun and number == 0
                self._client.send_outgoing(stream, outgoing, is_first=is_first or outgoing.is_priming)
        if not self._open_requests:
            recorded = outgoings[-1].http
            if recorded is not None and recorded.ended_by != "complete" and _was_ended(recorded):
                stream.break_off(is_clean=False)
            stream.finish()

    def _status(self, answer: Outgoing) -> int:
        recorded = answer.http
        if recorded is None or recorded.is_legacy:
            return 400 if self.is_invalid else 200
        status = recorded.status
        return status if status >= 200 and status not in (202, *WITHOUT_CONTENT) else 200

    def _fields(self, answer: Outgoing, *, is_stream: bool = False) -> HeaderFields:
        fields = stream_fields(answer.http) if is_stream else repeated_fields(answer.http)
        assigns_session_id = answer.http is not None and answer.http.assigns_session_id
        has_session_field = self._is_initialize or assigns_session_id
        return (*fields, *self._client.session_fields(answer)) if has_session_field else fields

    def _fail(self, failure: Outgoing, recorded: HttpAnswer) -> None:
        """Answer as the recorded server did, without a response: with a status, or by closing the connection."""
        if recorded.status < 200:
            if _was_ended(recorded):
                self.response.cut()
            return
        content = failure.raw or recorded.text.encode("utf-8", "replace")
        if media_type_of(recorded) == EVENT_STREAM and recorded.status < 300:
            self.response.begin_events(recorded.status, repeated_fields(recorded))
            if recorded.ended_by == "complete":
                self.response.end_events()
            elif _was_ended(recorded):
                self.response.cut()
            return
        self.response.send_whole(recorded.status, self._fields(failure), type_of_text(recorded, content), content)

    def _on_client_gone(self) -> None:
        if self._stream is not None:
            self._stream.detach()
            if self._stream.is_resumable and self._client.session_id is not None:
                return
        self._client.abandon(list(self._open_requests))

    def close(self) -> None:
        """End the response, because the conversation ends."""
        if self._stream is not None:
            self._stream.finish()
        else:
            self.response.cut()


def send_recorded(response: HttpResponse, recorded: HttpAnswer) -> None:
    """Send a recorded response without messages: its status, fields and text."""
    text = recorded.text.encode("utf-8", "replace")
    response.send_whole(recorded.status, repeated_fields(recorded), type_of_text(recorded, text), text)


def _is_failure(outgoing: Outgoing) -> bool:
    """Whether an item stands for an exchange without a response: with the status of a failure, or with nothing."""
    recorded = outgoing.http
    if recorded is None or recorded.is_legacy:
        return False
    return recorded.status >= 300 or recorded.status < 200 or (not outgoing.raw and not outgoing.is_priming)


def _was_ended(recorded: HttpAnswer) -> bool:
    """Whether an exchange was ended by the server, or on the way from it."""
    return recorded.ended_by not in _OPEN_ENDS


def _do_nothing() -> None:
    pass
