"""Exports calls as a timeline for Perfetto and Chromium, in the JSON of the Trace Event Format.

Each server is a process. Calls overlap, which the slices of a thread must not, so each call is an async pair `b`/`e`
with an id of its own. In addition, each session has a thread for each direction, with a short slice for each message;
arrows lead from a request of the client to the requests of the server that it causes. Counters show the number and the
size of the waiting requests. Times are in microseconds since the first capture opened; captures with known wall times
share one axis.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.call import Call, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.message import InvalidMessage, Notification, Request, Response
from analysis.facts import size_of
from analysis.filter import Filter
from analysis.reading import Step
from captures.verdict import Direction
from mcpproxy.exporters.calls import CallCollector, EndedCall, FinalCallSelector
from mcpproxy.exporters.har import json_bytes
from mcpproxy.exporters.otlp.conventions import attribute_text

SLICE_NS: Final = 1_000
"""The length of a message's slice, unless the next slice begins earlier."""
MAX_TRACE_THREADS: Final = 10_000
"""The maximum number of threads of a capture; sessions beyond it share the last thread."""
_CATEGORY: Final = "mcp"

Event = dict[str, Any]


class ProcessNumbers:
    """Numbers the servers. Servers of the same name are one process, even in different captures."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number_of(self, name: str) -> tuple[int, bool]:
        """Return the number of a server, and whether the server is new."""
        is_new = name not in self._numbers
        return self._numbers.setdefault(name, len(self._numbers) + 1), is_new


class TraceEventBuilder:
    """Creates the events of one capture as soon as they are known. The format does not require an order."""

    def __init__(
        self,
        capture: str,
        fold: Fold,
        name: str,
        processes: ProcessNumbers,
        number: int,
        offset_ns: int,
        selection: Filter | None = None,
    ) -> None:
        """Start without events.

        Args:
            capture: the id of the capture.
            fold: the state of the conversation, which each step updates.
            name: the name of the capture's server.
            processes: the processes of the whole file.
            number: the number of the capture in the file, from 0; makes its ids and threads unique in the file.
            offset_ns: when the capture opened, on the axis of the file.
            selection: matches the selected calls, which are then drawn without messages; None selects everything.
        """
        self.calls = CallCollector(fold, self._on_message)
        self.call_count = 0
        """The number of calls drawn so far."""
        self._capture, self._number, self._offset_ns = capture, number, offset_ns
        self._draws_messages = selection is None
        self._pid, self._is_new = processes.number_of(attribute_text(name, 256))
        self._name = attribute_text(name, 256)
        self._threads: dict[tuple[int, Direction], int] = {}
        self._last_slices: dict[int, Event] = {}
        """The last slice of each thread; its length depends on when the next slice begins."""
        self._final_calls = FinalCallSelector(selection)
        self._waiting_sizes: dict[tuple[int, int | None], int] = {}
        self._waiting_bytes = 0
        self._events: list[Event] = []

    def on_step(self, step: Step) -> list[Event]:
        """Process the next step; returns the events that it completes."""
        if self._is_new:
            self._is_new = False
            self._add_metadata("process_name", 0, self._name)
        ended_calls = self.calls.on_step(step)
        for call in ended_calls:
            self._on_call_ended(call)
        for call in self._final_calls.on_ended(ended_calls, step):
            self._draw_call(call)
        if step.end is not None:
            self._events += self._last_slices.values()
            self._last_slices = {}
        events, self._events = self._events, []
        return events

    # ---- messages

    def _on_message(self, context: MessageContext) -> None:
        """Draw a message; if it is a request, count it as waiting."""
        message = context.message
        if isinstance(message, Request) and message.id.is_answerable:
            size = len(message.frames[0].raw)
            self._waiting_sizes[message.seq, message.index] = size
            self._waiting_bytes += size
            self._draw_counters(message.t_ns)
            if len(self._waiting_sizes) > MAX_TRACE_THREADS:
                self._waiting_bytes -= self._waiting_sizes.pop(next(iter(self._waiting_sizes)))
        if self._draws_messages:
            self._draw_message(context)

    def _draw_message(self, context: MessageContext) -> None:
        message = context.message
        frame = message.frames[-1]
        thread = self._thread(context.session.number, frame.dir)
        previous_slice = self._last_slices.pop(thread, None)
        start_ns = self._offset_ns + message.t_ns
        if previous_slice is not None:
            gap_us = start_ns / 1e3 - previous_slice["ts"]
            previous_slice["dur"] = max(0.0, min(previous_slice["dur"], gap_us))
            self._events.append(previous_slice)
        self._last_slices[thread] = {
            "ph": "X",
            "cat": _CATEGORY,
            "name": _message_label(context),
            "pid": self._pid,
            "tid": thread,
            "ts": start_ns / 1e3,
            "dur": SLICE_NS / 1e3,
            "args": {"frame": message.seq, "size": size_of(message.frames)},
        }

    def _thread(self, session: int, direction: Direction) -> int:
        key = session, direction
        if key not in self._threads:
            if len(self._threads) >= MAX_TRACE_THREADS:
                return next(reversed(self._threads.values()))
            self._threads[key] = self._number * 2 * MAX_TRACE_THREADS + len(self._threads) + 1
            arrow = "client → server" if direction == "c2s" else "server → client"
            self._add_metadata("thread_name", self._threads[key], f"session {session}: {arrow}")
        return self._threads[key]

    # ---- calls

    def _on_call_ended(self, ended_call: EndedCall) -> None:
        """Stop counting a request as waiting."""
        size = self._waiting_sizes.pop((ended_call.call.request.seq, ended_call.call.request.index), None)
        if size is not None:
            self._waiting_bytes -= size
            self._draw_counters(ended_call.end_ns)

    def _draw_call(self, ended_call: EndedCall) -> None:
        self.call_count += 1
        call, request = ended_call.call, ended_call.call.request
        async_id = f"{self._number}.{request.seq}.{request.index or 0}"
        common = {"cat": _CATEGORY, "id": async_id, "pid": self._pid, "name": _call_name(request)}
        thread = self._thread(ended_call.session.number, "c2s" if ended_call.sender == "client" else "s2c")
        arguments = {
            "capture": self._capture,
            "frame": request.seq,
            "response": None if call.response is None else call.response.seq,
            "id": attribute_text(request.id.text, 256),
            "outcome": str(call.outcome),
            **_cancellation_members(call),
            "session": ended_call.session.number,
        }
        start_us, end_us = self._microseconds(ended_call.accepted_ns), self._microseconds(ended_call.end_ns)
        self._events.append({**common, "ph": "b", "tid": thread, "ts": start_us, "args": arguments})
        self._events.append({**common, "ph": "e", "tid": thread, "ts": end_us})
        if ended_call.outer_origin is not None and self._draws_messages:
            flow_event = {"cat": _CATEGORY, "name": "in the course of", "id": async_id, "pid": self._pid}
            outer_thread = self._thread(ended_call.session.number, "c2s")
            self._events.append(
                {**flow_event, "ph": "s", "tid": outer_thread, "ts": self._microseconds(ended_call.outer_origin.t_ns)}
            )
            self._events.append(
                {**flow_event, "ph": "f", "bp": "e", "tid": thread, "ts": self._microseconds(ended_call.start_ns)}
            )

    def _draw_counters(self, t_ns: int) -> None:
        common = {"ph": "C", "pid": self._pid, "ts": self._microseconds(t_ns), "id": str(self._number)}
        self._events.append({**common, "name": "requests waiting", "args": {"requests": len(self._waiting_sizes)}})
        self._events.append({**common, "name": "bytes waiting", "args": {"bytes": self._waiting_bytes}})

    def _microseconds(self, t_ns: int) -> float:
        return (self._offset_ns + t_ns) / 1e3

    def _add_metadata(self, kind: str, thread: int, name: str) -> None:
        self._events.append({"ph": "M", "name": kind, "pid": self._pid, "tid": thread, "args": {"name": name}})


def _cancellation_members(call: Call) -> Event:
    """Return the members of a call's slice that describe its cancellation; empty if it was not cancelled."""
    if call.cancelled_ns is None:
        return {}
    members: Event = {"cancelled": "cancelled" if call.abandoned_ns is None else "abandoned"}
    return members if call.late_ns is None else {**members, "late_ms": call.late_ns / 1e6}


def _call_name(request: Request) -> str:
    params = request.params
    name = params.get("name") if isinstance(params, dict) else None
    method = attribute_text(request.method, 256)
    return f"{method} {attribute_text(name, 256)}" if isinstance(name, str) else method


def _message_label(context: MessageContext) -> str:
    message = context.message
    if isinstance(message, Request):
        return _call_name(message)
    if isinstance(message, Notification):
        return attribute_text(message.method, 256)
    if isinstance(message, Response):
        return f"answer: {_call_name(context.request)}" if context.request is not None else "answer"
    assert isinstance(message, InvalidMessage)
    return message.reason


def file_pieces(events: Iterable[list[Event]], captures: list[str]) -> Iterator[bytes]:
    """Yield the whole file, piece by piece.

    Args:
        events: the events of all captures.
        captures: the ids of the captures; the list is complete after the last event.
    """
    yield b'{"displayTimeUnit":"ms","traceEvents":['
    separator = b"\n"
    for step_events in events:
        for event in step_events:
            yield separator + json_bytes(event)
            separator = b",\n"
    yield b'\n],"otherData":' + json_bytes({"captures": captures}) + b"}\n"
