"""The requests that wait for a response in a session being recorded, and what has happened since each was sent."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from analysis import clock
from analysis.conversation.fold import Fold
from analysis.conversation.message import Id, Request
from analysis.reading import Reading, Step
from captures.record import Record
from mcpproxy.relay.processes import start_time
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.facts import request_title
from mcpproxy.wording.names import id_text
from mcpproxy.wording.units import duration

MAX_ANSWERED: Final = 1000
"""How many of the latest answered requests are remembered."""
_MAX_WAITING: Final = 50_000
"""How many requests without a response are remembered."""
_MAX_NAMED_IDS: Final = 3


def waited_ns(fold: Fold, request: Request) -> int:
    """Returns how long a request has been waiting, by the wall clock."""
    return max(0, clock.age_ns(fold.wall_ns) - request.t_ns)


class Wait(NamedTuple):
    """A request that waits for its response."""

    request: Request
    message_count: int
    """How many messages the server has sent since the request."""
    answered_ids: tuple[Id | None, ...]
    """The ids of later requests that have been answered since."""


class WaitingRequests:
    """The waiting requests of one session."""

    def __init__(self, fold: Fold) -> None:
        """Start without requests.

        Args:
            fold: the state of the session; the caller passes each step of its reading to `on_step`.
        """
        self._fold = fold
        self._server_messages = 0
        self._server_messages_before: dict[tuple[int, int | None], int] = {}
        self._answered: deque[tuple[int, Id | None]] = deque(maxlen=MAX_ANSWERED)
        self._process: tuple[int, str] | None = None

    def on_step(self, step: Step) -> None:
        """Process the next step."""
        if isinstance(step.item, Record):
            self._on_record(step.item)
        for context in step.messages:
            message = context.message
            self._server_messages += message.frames[0].dir == "s2c"
            if isinstance(message, Request) and message.sender == "client":
                self._server_messages_before[message.seq, message.index] = self._server_messages
                if len(self._server_messages_before) > _MAX_WAITING:
                    del self._server_messages_before[next(iter(self._server_messages_before))]
            if context.answered is not None:
                request = context.answered.request
                self._server_messages_before.pop((request.seq, request.index), None)
                self._answered.append((request.seq, request.id))

    def _on_record(self, record: Record) -> None:
        """Process a record that is not a frame, which may name the server's process."""
        if record.rec == "process" and record.members.get("event") == "spawned":
            pid, start = record.members.get("pid"), record.members.get("start")
            self._process = (pid, str(start)) if type(pid) is int and isinstance(start, int | str) else None

    @property
    def oldest_first(self) -> list[Wait]:
        """The waiting requests, oldest first."""
        return [
            Wait(
                call.request,
                self._server_messages
                - self._server_messages_before.get((call.request.seq, call.request.index), self._server_messages),
                tuple(id_ for seq, id_ in self._answered if seq > call.request.seq),
            )
            for call in self._fold.tables["client"].waiting_calls()
            if call.is_awaited
        ]

    def waited_ns(self, wait: Wait) -> int:
        """Returns how long a request has been waiting, by the wall clock."""
        return waited_ns(self._fold, wait.request)

    def text(self, wait: Wait) -> str:
        """Returns a line about a wait: how long it is, what has happened since, and whether the server is running."""
        request = wait.request
        sent_at = time.strftime("%H:%M:%S", time.localtime(((self._fold.wall_ns or 0) + request.t_ns) // 10**9))
        sent_text = (
            "the server has sent "
            f"{count_text(wait.message_count, 'message') if wait.message_count else 'nothing'} since"
        )
        answered_text = ""
        if wait.answered_ids:
            ids = [id_text(id_).strip() for id_ in wait.answered_ids[:_MAX_NAMED_IDS]]
            id_list = ", ".join([*ids, "…"] if len(wait.answered_ids) > _MAX_NAMED_IDS else ids)
            answered_text = f", and answered {count_text(len(wait.answered_ids), 'later request')} ({id_list})"
        return (
            f"{request_title(request)} has been waiting for {duration(self.waited_ns(wait))}, since {sent_at}; "
            f"{sent_text}{answered_text}{self._process_text()}"
        )

    def _process_text(self) -> str:
        if self._process is None:
            return ""
        pid, start = self._process
        return f"; its process {pid} {'is running' if start_time(pid) == start else 'has ended'}"


def waits_in(path: Path) -> WaitingRequests:
    """Returns the requests that wait in a capture as it is now.

    Raises:
        CaptureError: it cannot be read.
    """
    reading = Reading(path)
    waits = WaitingRequests(reading.fold)
    for step in reading:
        waits.on_step(step)
    return waits
