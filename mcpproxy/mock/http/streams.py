"""Event streams to a client that can break, and be resumed after any event that had an id."""

from collections import deque
from typing import Final

from mcpproxy.mock.http.connection import HttpResponse

MAX_KEPT_BYTES: Final = 64 << 20
"""The maximum size of all events that are kept for resumption, or until a client opens its stream."""
_EVENT_OVERHEAD_BYTES: Final = 200


class EventHistory:
    """The events that all streams keep; the oldest are dropped if there are too many."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._streams: deque[tuple[EventStream, int]] = deque()
        self._bytes = 0

    def note_kept(self, stream: "EventStream", size: int) -> None:
        """Count an event that a stream keeps as its last one."""
        self._streams.append((stream, size + _EVENT_OVERHEAD_BYTES))
        self._bytes += size + _EVENT_OVERHEAD_BYTES
        while self._bytes > self._max_bytes and len(self._streams) > 1:
            oldest_stream, oldest_bytes = self._streams.popleft()
            self._bytes -= oldest_bytes
            oldest_stream.drop_oldest()


class EventStream:
    """The events for one request, or those that belong to no request."""

    __slots__ = (
        "_dropped_count",
        "_history",
        "_is_resumable",
        "_keeps_all",
        "_kept",
        "_stream_by_id",
        "_undelivered_count",
        "is_over",
        "response",
    )

    def __init__(
        self, history: EventHistory, stream_by_id: "dict[str, EventStream]", *, keeps_all: bool = False
    ) -> None:
        """Begin a stream that no client reads yet.

        Args:
            history: where kept events are counted.
            stream_by_id: the streams of the client by the ids of their events.
            keeps_all: whether events without an id wait for a reader, too.
        """
        self.response: HttpResponse | None = None
        """The response that carries the stream now."""
        self.is_over = False
        """Whether no event follows."""
        self._history = history
        self._stream_by_id = stream_by_id
        self._keeps_all = keeps_all
        self._is_resumable = False
        self._kept: deque[tuple[str | None, bytes]] = deque()
        self._undelivered_count = 0
        self._dropped_count = 0
        """How many of the oldest kept events have been discarded already, but are still counted in the history."""

    @property
    def is_resumable(self) -> bool:
        """Whether a client could get later events after the stream breaks."""
        return self._is_resumable

    @property
    def is_read(self) -> bool:
        """Whether a client reads it now."""
        return self.response is not None and not self.response.is_over

    def send(self, event: bytes, event_id: str | None) -> None:
        """Send an event, or keep it for a client that opens or resumes the stream."""
        is_read = self.is_read
        if self.response is not None and is_read:
            self.response.send_events(event)
        if event_id is not None:
            self._is_resumable = True
            self._stream_by_id[event_id] = self
        if self._is_resumable or (self._keeps_all and not is_read):
            self._kept.append((event_id, event))
            self._undelivered_count += not is_read
            self._history.note_kept(self, len(event))

    def open(self, response: HttpResponse, after_id: str | None = None) -> None:
        """Continue on a new response: with the events after an id, or else with those that were not delivered."""
        if self.is_read:
            self.break_off(is_clean=True)
        self.response = response
        response.on_client_gone = self.detach
        ids = [event_id for event_id, _ in self._kept]
        start = len(ids) - self._undelivered_count
        if after_id is not None:
            start = next((at + 1 for at in range(len(ids) - 1, -1, -1) if ids[at] == after_id), start)
        for _, event in list(self._kept)[start:]:
            response.send_events(event)
        self._undelivered_count = 0
        if not self._is_resumable:
            self._dropped_count += len(self._kept)
            self._kept.clear()
        if self.is_over:
            response.end_events()

    def detach(self) -> None:
        """Note that no client reads it any longer."""
        self.response = None

    def break_off(self, *, is_clean: bool) -> None:
        """End the response, but not the stream; if not cleanly, in the middle of a connection."""
        response, self.response = self.response, None
        if response is not None:
            if is_clean:
                response.end_events()
            else:
                response.cut()

    def finish(self) -> None:
        """Note that no event follows, and end the response."""
        self.is_over = True
        self.break_off(is_clean=True)

    def drop_oldest(self) -> None:
        """Forget the oldest kept event."""
        if self._dropped_count:
            self._dropped_count -= 1
        elif self._kept:
            event_id, _ = self._kept.popleft()
            self._undelivered_count = min(self._undelivered_count, len(self._kept))
            if event_id is not None and self._stream_by_id.get(event_id) is self:
                del self._stream_by_id[event_id]
