"""Turns the events of a log into captures, one for each conversation, even if the conversations are interleaved.

A conversation begins with the first event of its server. A new one begins with each start of the server and, in logs of
other programs, with each `initialize` after the first. The first events are held back until the client has sent a
message (in logs of other programs, the server too), because the header says whether the capture has the start of the
conversation.
"""

from collections.abc import Callable
from typing import Final, Protocol

from captures.loss import PendingRecord
from captures.record import members, with_inexact_time
from captures.verdict import Direction
from mcpproxy.importers.capture_lines import MAX_STAMP_NS, CaptureLines
from mcpproxy.importers.case import Case
from mcpproxy.importers.form import Form
from mcpproxy.importers.guessed_sides import SideGuesser
from mcpproxy.importers.log_items import (
    MIN_WALL_NS,
    ClientExit,
    Disconnection,
    Event,
    LeftOut,
    LoggedFrame,
    LoggedStderr,
    Loss,
    ServerExit,
    ServerStart,
)
from mcpproxy.importers.opening import can_open_conversation, is_initialize
from mcpproxy.importers.source import InvalidLine
from mcpproxy.importers.stdio import Pipes
from mcpproxy.wording.counts import count_text

MAX_HELD_EVENTS: Final = 1000
"""Events of a conversation that are held back before its header is written."""
MAX_HELD_BYTES: Final = 1 << 20
MAX_OPEN_CONVERSATIONS: Final = 64
"""Conversations that are written at the same time. Each keeps a file open, and macOS allows a process 256. Beyond this
limit, the conversation that has been silent longest ends, and its later events go to another capture."""
MAX_CONVERSATIONS: Final = 1000
"""Conversations of one log that are written. Events of any further ones are left out and counted."""
MAX_NAME_CHARS: Final = 256


class Output(Protocol):
    """Receives the lines of one capture."""

    def append(self, line: bytes) -> None:
        """Add a line."""

    def close(self) -> None:
        """Complete the capture."""

    def discard(self) -> None:
        """Delete the capture."""


class Conversations:
    """The conversations of one log. Events are written in the order in which they are added."""

    def __init__(self, form_name: str, form: Form, create: Callable[[str, int | None], Output]) -> None:
        """`create` opens the output for a new capture.

        Its arguments are the name of the conversation, and when it began, in nanoseconds since 1970, or None if that is
        unknown.
        """
        self._form_name, self._form, self._create = form_name, form, create
        self._open_conversations: dict[tuple[str, str], _Conversation] = {}
        """By server and session. The conversation that has been silent longest comes first."""
        self._count = self._frame_count = self._partial_count = 0
        self._has_client = self._has_server = False

    def add(self, item: Event | Case) -> LeftOut | None:
        """Add the next event, or a whole conversation; returns the reason if it is left out."""
        return self._add_case(item) if isinstance(item, Case) else self._add_event(item)

    def _add_case(self, case: Case) -> LeftOut | None:
        if self._count == MAX_CONVERSATIONS:
            return _too_many_conversations(case.name)
        self._count += 1
        output = self._create(case.name, case.wall_ns)
        try:
            for _, line in case.records(self._form_name):
                output.append(line)
        except InvalidLine as error:
            output.discard()
            return LeftOut(case.name, str(error), case.name)
        output.close()
        return None

    def _add_event(self, event: Event) -> LeftOut | None:
        key = (event.name[:MAX_NAME_CHARS], event.session)
        conversation = self._open_conversations.pop(key, None)
        if conversation is not None and conversation.is_over_before(event, splits=not self._form.is_strict):
            conversation.close()
            conversation = None
        if conversation is None:
            if self._count == MAX_CONVERSATIONS:
                return _too_many_conversations(event.name)
            self._count += 1
            conversation = _Conversation(key[0], self._form_name, self._form, self._create)
        self._open_conversations[key] = conversation
        if len(self._open_conversations) > MAX_OPEN_CONVERSATIONS:
            self._open_conversations.pop(next(iter(self._open_conversations))).close()
        conversation.add(event)
        if isinstance(event, LoggedFrame):
            self._frame_count += 1
            self._partial_count += not event.is_whole
            self._has_client |= conversation.has_client
            self._has_server |= conversation.has_server
        return None

    def remarks(self) -> list[str]:
        """Returns sentences about missing parts of the captures, in addition to the sentence of the form."""
        remarks = []
        if self._partial_count:
            messages = count_text(self._partial_count, "message")
            remarks.append(f"{messages} partial: that is all that the log has")
        if self._has_client != self._has_server and self._frame_count > 1 and not self._form.is_strict:
            side = "client" if self._has_client else "server"
            remarks.append(f"only the {side}'s messages are in this log: requests and responses cannot be paired")
        return remarks

    def mark_loss(self, left_out: LeftOut) -> None:
        """Mark the place of a message that was left out, in each conversation to which it may belong."""
        if self._form.is_strict or not left_out.is_message:
            return
        for (name, _), conversation in self._open_conversations.items():
            if left_out.name[:MAX_NAME_CHARS] in ("", name):
                conversation.add(Loss(name))

    def close(self) -> None:
        """Complete all captures."""
        for conversation in self._open_conversations.values():
            conversation.close()
        self._open_conversations.clear()


class _Conversation:
    """Writes the capture of one conversation."""

    def __init__(self, name: str, form_name: str, form: Form, create: Callable[[str, int | None], Output]) -> None:
        self._name, self._form_name, self._form, self._create = name, form_name, form, create
        self._lines, self._pipes, self._sides = CaptureLines(), Pipes(), SideGuesser()
        self._held_events: list[Event] | None = []
        """The events that are held back; None once the header is written."""
        self._held_bytes = 0
        self._output: Output
        self._start_ns: int | None = None
        """The log's stamp at the capture's stamp 0; None until the log has one."""
        self._t_ns = 0
        self._is_used = False
        """Whether there was any event but a start or a disconnection."""
        self._has_loss = False
        """Whether the last event was a loss."""
        self.has_client = self.has_server = self._has_client_left = self._has_ended = False

    def is_over_before(self, event: Event, *, splits: bool) -> bool:
        """Returns whether an event belongs to the server's next run.

        Args:
            event: the next event of this server.
            splits: whether another `initialize` begins the next run (see `Form.is_strict`).
        """
        if isinstance(event, ServerStart):
            return self._is_used
        if not isinstance(event, LoggedFrame):
            return False
        if self._has_ended or (self._has_client_left and event.side == "c2s"):
            return True
        return splits and self.has_client and event.side in ("c2s", None) and is_initialize(event.raw)

    def add(self, event: Event) -> None:
        """Write the next event, or hold it back until the header can be written."""
        is_loss = isinstance(event, Loss)
        if is_loss and (self._has_loss or not self._is_used):
            return
        self._has_loss = is_loss
        is_end = isinstance(event, ServerExit | Disconnection)
        if isinstance(event, ClientExit):
            # In some logs, the end of one run comes after the start of the next.
            if self._has_client_left or not self._is_used:
                return
            self._has_client_left = True
        if self._has_ended and (is_end or isinstance(event, ClientExit)):
            return
        self._is_used |= not isinstance(event, ServerStart | Disconnection)
        self._has_ended |= is_end
        if isinstance(event, LoggedFrame):
            raw = event.raw if self._form.is_verbatim else _on_one_line(event.raw)
            event = event._replace(raw=raw, side=self._sides.observe(raw, event.side))
            self.has_client |= event.side == "c2s" and bool(raw.strip())
            self.has_server |= event.side == "s2c"
        if self._held_events is None:
            self._write(event)
            return
        self._held_events.append(event)
        self._held_bytes += len(event.raw) if isinstance(event, LoggedFrame | LoggedStderr) else 0
        can_begin = self.has_client and (self.has_server or self._form.is_strict)
        if can_begin or len(self._held_events) >= MAX_HELD_EVENTS or self._held_bytes >= MAX_HELD_BYTES:
            self._write_held_events()

    def close(self) -> None:
        """Complete the capture. If the server only started, there is no capture."""
        if not self._is_used:
            return
        self._write_held_events()
        pipes = self._pipes
        self._output.append(
            self._lines.close_line(self._t_ns, pipes.totals(), status=pipes.status, signal=pipes.signal)
        )
        self._output.close()

    def _write_held_events(self) -> None:
        """Write the header and the events that were held back, unless they are already written."""
        held_events, self._held_events = self._held_events, None
        if held_events is None:
            return
        first_client_frame = next(
            (
                event
                for event in held_events
                if isinstance(event, LoggedFrame) and event.side == "c2s" and event.raw.strip()
            ),
            None,
        )
        # A log of another program may contain one direction only, and does not show what the other side sent before.
        has_both_sides = self.has_server or self._form.is_strict
        stamp_ns = next((event.stamp_ns for event in held_events if _is_valid_stamp(event.stamp_ns)), None)
        wall_ns = stamp_ns if stamp_ns is not None and stamp_ns >= MIN_WALL_NS else None
        self._start_ns = None if stamp_ns is None else wall_ns or 0
        self._output = self._create(self._name, wall_ns)
        header = self._lines.header_line(
            self._form_name,
            "stdio",
            self._name,
            observed_start=isinstance(held_events[0], ServerStart)
            or (has_both_sides and first_client_frame is not None and can_open_conversation(first_client_frame.raw)),
            wall_ns=wall_ns,
            is_verbatim=self._form.is_verbatim,
        )
        self._output.append(header)
        for event in held_events:
            self._write(event)

    def _write(self, event: Event) -> None:
        is_exact = self._advance(event.stamp_ns) and not (isinstance(event, LoggedFrame) and not event.is_time_exact)
        for record in self._event_records(event):
            middle = record.middle if is_exact or record.rec != "frame" else with_inexact_time(record.middle)
            self._output.append(self._lines.next_line(self._t_ns, record.rec, middle))

    def _advance(self, stamp_ns: int | None) -> bool:
        """Set the time of the next records; returns False if the log has no usable time, or goes backwards."""
        if stamp_ns is None or not _is_valid_stamp(stamp_ns):
            return False
        if self._start_ns is None:
            self._start_ns = stamp_ns - self._t_ns
        t_ns = stamp_ns - self._start_ns
        if not self._t_ns <= t_ns < MAX_STAMP_NS:
            return False
        self._t_ns = t_ns
        return True

    def _event_records(self, event: Event) -> list[PendingRecord]:
        if isinstance(event, LoggedFrame):
            side: Direction = event.side or "c2s"
            return self._pipes.add_line(side, event.raw, is_whole=event.is_whole)
        if isinstance(event, LoggedStderr):
            return self._pipes.add_line("stderr", event.raw, is_whole=True)
        if isinstance(event, Loss):
            return [PendingRecord("gap", members(reason="import"))]
        if isinstance(event, ClientExit):
            return self._pipes.end_pipe("c2s")
        if isinstance(event, ServerExit):
            return self._pipes.end_pipe("s2c") if event.code is None else self._pipes.end_server(event.code)
        return []


def _too_many_conversations(name: str) -> LeftOut:
    reason = f"the log contains more than {MAX_CONVERSATIONS:,} conversations"
    return LeftOut(name[:MAX_NAME_CHARS], reason, name)


def _is_valid_stamp(stamp_ns: int | None) -> bool:
    return stamp_ns is not None and 0 <= stamp_ns < MAX_STAMP_NS


def _on_one_line(raw: bytes) -> bytes:
    """Put a message on one line. In JSON, a line feed is never part of a value."""
    text = raw.strip()
    return b" ".join(text.splitlines()) if b"\n" in text or b"\r" in text else text
