"""Sends spans in a thread, to a collector that may be down: bounded memory, retries, and a count of what was dropped.

Spans wait in a queue of at most `QUEUE_BYTES`; when it is full, the oldest are dropped. A batch that the collector
could accept later is sent again, with growing pauses; what it refuses is dropped. Of the histograms, which are
cumulative, only the latest values wait.
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

BATCH: Final = 512
"""The most spans in a request."""
BATCH_BYTES: Final = 8 << 20
"""The most bytes of a request, if it has several spans: collectors accept 20 MiB by default."""
QUEUE_BYTES: Final = 32 << 20
SPAN_COST: Final = 2_000
"""Bytes that a span takes in addition to the text of its attributes."""
MAX_PAUSE_S: Final = 30.0
GRACE_S: Final = 2.0
"""How long `close` waits for a request that it has interrupted."""


class Sent(NamedTuple):
    """What became of the spans."""

    sent: int
    dropped: int
    metrics_sent: bool
    """Whether the latest values of the histograms arrived."""


class Sender:
    """The queue and the thread that empties it."""

    def __init__(self, collector: "Collector", say: Callable[[str], None], queue_bytes: int = QUEUE_BYTES) -> None:
        """Start the thread.

        Args:
            collector: receives what is sent.
            say: called, also from the thread, with news for the user: the collector is down, or is back.
            queue_bytes: the most bytes of spans that wait.
        """
        self._collector, self._say, self._room = collector, say, queue_bytes
        self._condition = Condition()
        self._queue: deque[CallSpan] = deque()
        self._queued = 0
        self._under_way: list[CallSpan] = []
        self._metrics: MetricsData | None = None
        self._sent = self._dropped = 0
        self._said: set[str] = set()
        self._has_refused_metrics = False
        self._is_down = False
        self._until_s: float | None = None
        """When to give up, by the monotonic clock; None while more may come."""
        self._thread = Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def put(self, spans: Iterable[CallSpan]) -> None:
        """Queue spans. Never waits."""
        with self._condition:
            for span in spans:
                self._queue.append(span)
                self._queued += _cost(span)
            while self._queued > self._room and len(self._queue) > 1:
                self._queued -= _cost(self._queue.popleft())
                self._dropped += 1
            self._condition.notify()

    def put_when_there_is_room(self, spans: Iterable[CallSpan]) -> None:
        """Queue spans of a file, which can wait; if the collector is down, the oldest are dropped as always."""
        with self._condition:
            self._condition.wait_for(lambda: self._queued < self._room // 2 or self._is_down)
        self.put(spans)

    def put_metrics(self, metrics: "MetricsData") -> None:
        """Queue the latest values of the histograms, in place of earlier ones."""
        with self._condition:
            self._metrics = metrics
            self._condition.notify()

    @property
    def waiting(self) -> int:
        """How many spans wait."""
        with self._condition:
            return len(self._queue)

    def close(self, patience_s: float) -> Sent:
        """Send what waits, for at most `patience_s` or until Ctrl-C; returns what became of everything."""
        with self._condition:
            self._until_s = time.monotonic() + patience_s
            self._condition.notify()
        with suppress(KeyboardInterrupt):
            self._thread.join(patience_s)
        with self._condition:
            self._until_s = 0
        self._collector.close()
        with suppress(KeyboardInterrupt):
            # A search for the collector's address cannot be interrupted.
            self._thread.join(GRACE_S)
        with self._condition:
            dropped = self._dropped + len(self._queue) + len(self._under_way)
            return Sent(self._sent, dropped, self._metrics is None and not self._has_refused_metrics)

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
                while not self._queue and self._metrics is None and self._until_s is None:
                    self._condition.wait()
                if self._is_over():
                    return
                batch = self._under_way = self._next_batch()
                self._condition.notify_all()
                metrics = None if batch else self._metrics
            if metrics is not None:
                are_taken = self._collector.send_metrics(metrics)
                if is_settled := are_taken is not None or self._collector.is_refusal:
                    self._settle_metrics(metrics, are_taken)
            else:
                taken = self._collector.send_spans(batch)
                if is_settled := taken is not None or self._collector.is_refusal:
                    self._settle(batch, taken or 0, is_refused=taken is None)
            if is_settled:
                pause_s = 1.0
                continue
            self._put_back(batch)
            self._tell_down()
            self._rest(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def _next_batch(self) -> list[CallSpan]:
        batch: list[CallSpan] = []
        size = 0
        while self._queue and len(batch) < BATCH:
            cost = _cost(self._queue[0])
            if batch and size + cost > BATCH_BYTES:
                break
            batch.append(self._queue.popleft())
            size += cost
        self._queued -= size
        return batch

    def _rest(self, pause_s: float) -> None:
        """Wait before the next attempt; `close` ends the wait early."""
        with self._condition:
            if self._until_s is None:
                self._condition.wait_for(lambda: self._until_s is not None, pause_s)
            else:
                self._condition.wait(max(0.0, min(pause_s, self._until_s - time.monotonic())))

    def _is_over(self) -> bool:
        if self._until_s is None:
            return False
        return (not self._queue and self._metrics is None) or time.monotonic() >= self._until_s

    def _settle(self, batch: list[CallSpan], taken: int, *, is_refused: bool) -> None:
        with self._condition:
            self._under_way = []
            self._sent += taken
            self._dropped += len(batch) - taken
        if is_refused:
            self._say_once(f"the collector refuses spans: {self._collector.problem}; they are dropped")
            return
        if taken < len(batch):
            self._say_once("the collector rejects some of the spans; they are dropped")
        self._tell_up()

    def _settle_metrics(self, metrics: "MetricsData", are_taken: bool | None) -> None:
        with self._condition:
            self._has_refused_metrics = not (are_taken or self._collector.is_missing)
            if self._metrics is metrics:
                self._metrics = None
        if are_taken:
            self._tell_up()
        elif self._collector.is_missing:
            self._say_once("the collector accepts no histograms, only spans")
        else:
            problem = self._collector.problem if are_taken is None else "it rejects some of them"
            self._say_once(f"the collector refuses the histograms: {problem}")

    def _say_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._say(message)

    def _put_back(self, batch: list[CallSpan]) -> None:
        with self._condition:
            self._under_way = []
            self._queue.extendleft(reversed(batch))
            self._queued += sum(map(_cost, batch))

    def _tell_up(self) -> None:
        if self._is_down:
            self._is_down = False
            self._say("the collector accepts spans again")

    def _tell_down(self) -> None:
        if not self._is_down:
            with self._condition:
                self._is_down = True
                self._condition.notify_all()
            self._say(f"cannot reach the collector: {self._collector.problem}; spans are kept and sent again")


def _cost(span: CallSpan) -> int:
    return SPAN_COST + sum(
        len(value.encode("utf-8", "replace")) for value in span.attributes.values() if isinstance(value, str)
    )
