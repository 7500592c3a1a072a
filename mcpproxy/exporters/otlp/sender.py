"""Sends spans from a thread to a collector that may be down; bounds memory, retries, and counts dropped spans.

Spans wait in a queue of at most `MAX_QUEUE_BYTES`; when it is full, the oldest are dropped. A batch that the collector
may accept later is sent again, after growing pauses; a batch that it refuses is dropped. Histograms are cumulative, so
only their latest values are queued.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Condition, Thread
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpproxy.exporters.otlp.conventions import CallSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

    from mcpproxy.exporters.otlp.sdk import Collector

MAX_BATCH_SPANS: Final = 512
"""The maximum number of spans in a request."""
MAX_BATCH_BYTES: Final = 8 << 20
"""The maximum size of a request with several spans; by default, collectors accept 20 MiB."""
MAX_QUEUE_BYTES: Final = 32 << 20
SPAN_BYTES: Final = 2_000
"""The size of a span in addition to the text of its attributes, in bytes."""
MAX_PAUSE_S: Final = 30.0
INTERRUPTION_TIMEOUT_S: Final = 2.0
"""How long `close` waits for a request that it has interrupted."""


class SendResult(NamedTuple):
    """The numbers of spans that were sent and dropped."""

    sent_count: int
    dropped_count: int
    has_sent_metrics: bool
    """Whether the latest values of the histograms arrived."""


class SpanSender:
    """A queue of spans, and the thread that sends them."""

    def __init__(self, collector: "Collector", say: Callable[[str], None], queue_bytes: int = MAX_QUEUE_BYTES) -> None:
        """Start the thread.

        Args:
            collector: the collector to which the spans are sent.
            say: called, from any thread, with messages for the user: for example, that the collector is down.
            queue_bytes: the maximum size of the queue.
        """
        self._collector, self._say, self._max_queue_bytes = collector, say, queue_bytes
        self._condition = Condition()
        self._queue: deque[CallSpan] = deque()
        self._queued_bytes = 0
        self._current_batch: list[CallSpan] = []
        self._metrics: MetricsData | None = None
        self._sent_count = self._dropped_count = 0
        self._said_messages: set[str] = set()
        self._has_refused_metrics = False
        self._is_down = False
        self._deadline_s: float | None = None
        """The monotonic time at which to give up; None while more spans may be queued."""
        self._thread = Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def queue_spans(self, spans: Iterable[CallSpan]) -> None:
        """Queue spans without waiting."""
        with self._condition:
            for span in spans:
                self._queue.append(span)
                self._queued_bytes += _size_of(span)
            while self._queued_bytes > self._max_queue_bytes and len(self._queue) > 1:
                self._queued_bytes -= _size_of(self._queue.popleft())
                self._dropped_count += 1
            self._condition.notify()

    def queue_spans_when_possible(self, spans: Iterable[CallSpan]) -> None:
        """Queue spans of a file, which can wait: first, wait until the queue is half empty or the collector is down."""
        with self._condition:
            self._condition.wait_for(lambda: self._queued_bytes < self._max_queue_bytes // 2 or self._is_down)
        self.queue_spans(spans)

    def queue_metrics(self, metrics: "MetricsData") -> None:
        """Queue the latest values of the histograms, which replace earlier values."""
        with self._condition:
            self._metrics = metrics
            self._condition.notify()

    @property
    def queued_count(self) -> int:
        """The number of queued spans."""
        with self._condition:
            return len(self._queue)

    def close(self, patience_s: float) -> SendResult:
        """Send the queue, for at most `patience_s` or until Ctrl-C; returns how many spans were sent and dropped."""
        with self._condition:
            self._deadline_s = time.monotonic() + patience_s
            self._condition.notify()
        with suppress(KeyboardInterrupt):
            self._thread.join(patience_s)
        with self._condition:
            self._deadline_s = 0
        self._collector.close()
        with suppress(KeyboardInterrupt):
            # Resolving the collector's host name cannot be interrupted.
            self._thread.join(INTERRUPTION_TIMEOUT_S)
        with self._condition:
            dropped_count = self._dropped_count + len(self._queue) + len(self._current_batch)
            return SendResult(self._sent_count, dropped_count, self._metrics is None and not self._has_refused_metrics)

    def _run(self) -> None:
        try:
            self._send_all()
        finally:
            with self._condition:
                self._is_down = True
                self._condition.notify_all()

    def _send_all(self) -> None:
        pause_s = 1.0
        while True:
            with self._condition:
                while not self._queue and self._metrics is None and self._deadline_s is None:
                    self._condition.wait()
                if self._is_over():
                    return
                batch = self._current_batch = self._next_batch()
                self._condition.notify_all()
                metrics = None if batch else self._metrics
            if metrics is not None:
                is_accepted = self._collector.send_metrics(metrics)
                if is_settled := is_accepted is not None or self._collector.is_refusal:
                    self._on_metrics_settled(metrics, is_accepted)
            else:
                accepted_count = self._collector.send_spans(batch)
                if is_settled := accepted_count is not None or self._collector.is_refusal:
                    self._on_batch_settled(batch, accepted_count or 0, is_refused=accepted_count is None)
            if is_settled:
                pause_s = 1.0
                continue
            self._put_back(batch)
            self._report_down()
            self._pause(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def _next_batch(self) -> list[CallSpan]:
        batch: list[CallSpan] = []
        size = 0
        while self._queue and len(batch) < MAX_BATCH_SPANS:
            cost = _size_of(self._queue[0])
            if batch and size + cost > MAX_BATCH_BYTES:
                break
            batch.append(self._queue.popleft())
            size += cost
        self._queued_bytes -= size
        return batch

    def _pause(self, pause_s: float) -> None:
        """Wait before the next attempt; `close` ends the wait early."""
        with self._condition:
            if self._deadline_s is None:
                self._condition.wait_for(lambda: self._deadline_s is not None, pause_s)
            else:
                self._condition.wait(max(0.0, min(pause_s, self._deadline_s - time.monotonic())))

    def _is_over(self) -> bool:
        if self._deadline_s is None:
            return False
        return (not self._queue and self._metrics is None) or time.monotonic() >= self._deadline_s

    def _on_batch_settled(self, batch: list[CallSpan], accepted_count: int, *, is_refused: bool) -> None:
        with self._condition:
            self._current_batch = []
            self._sent_count += accepted_count
            self._dropped_count += len(batch) - accepted_count
        if is_refused:
            self._say_once(f"the collector refuses spans: {self._collector.problem}; they are dropped")
            return
        if accepted_count < len(batch):
            self._say_once("the collector rejects some of the spans; they are dropped")
        self._report_up()

    def _on_metrics_settled(self, metrics: "MetricsData", is_accepted: bool | None) -> None:
        with self._condition:
            self._has_refused_metrics = not (is_accepted or self._collector.is_missing)
            if self._metrics is metrics:
                self._metrics = None
        if is_accepted:
            self._report_up()
        elif self._collector.is_missing:
            self._say_once("the collector accepts no histograms, only spans")
        else:
            problem = self._collector.problem if is_accepted is None else "it rejects some of them"
            self._say_once(f"the collector refuses the histograms: {problem}")

    def _say_once(self, message: str) -> None:
        if message not in self._said_messages:
            self._said_messages.add(message)
            self._say(message)

    def _put_back(self, batch: list[CallSpan]) -> None:
        with self._condition:
            self._current_batch = []
            self._queue.extendleft(reversed(batch))
            self._queued_bytes += sum(map(_size_of, batch))

    def _report_up(self) -> None:
        if self._is_down:
            self._is_down = False
            self._say("the collector accepts spans again")

    def _report_down(self) -> None:
        if not self._is_down:
            with self._condition:
                self._is_down = True
                self._condition.notify_all()
            self._say(f"cannot reach the collector: {self._collector.problem}; spans are kept and sent again")


def _size_of(span: CallSpan) -> int:
    return (
        SPAN_BYTES
        + len(span.trace_state)
        + sum(len(value.encode("utf-8", "replace")) for value in span.attributes.values() if isinstance(value, str))
    )
