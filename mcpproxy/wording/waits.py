"""Waits: words for requests that wait for a response, and for what is known about why they wait."""

import time
from typing import Final

from analysis.conversation.call import ABANDONED_NS
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.facts import Fact
from mcpproxy.wording.spans import Role
from mcpproxy.wording.units import brief_duration, duration, local_time

MIN_SHOWN_WAIT_NS: Final = 1_000_000_000
"""Screens mention waiting requests once the oldest has waited this long: most requests are answered sooner."""
MAX_PROCESS_NAME_CHARS: Final = 40
"""The maximum length of the name of a process, in characters."""
_WAIT_REASONS: Final = (
    (("pipe_read", "anon_pipe_read", "pipe_wait"), "reads from a pipe"),
    (("pipe_write", "anon_pipe_write"), "writes to a pipe that is full: its reader does not read"),
    (("ep_poll", "do_epoll_wait", "poll_schedule_timeout", "do_poll", "do_select", "do_sys_poll"), "waits for input"),
    (("futex_wait_queue", "futex_wait_queue_me", "futex_wait"), "waits for one of its threads, or for a lock"),
    (("hrtimer_nanosleep", "do_nanosleep", "common_nsleep"), "waits for a time that it has set"),
    (("do_wait", "kernel_waitid_prepare"), "waits for a process that it has started"),
    (("unix_stream_read_generic", "unix_stream_data_wait", "sk_wait_data", "inet_csk_accept"), "waits on a socket"),
)
"""What a process is doing, by the function of the kernel in which it sleeps."""
_STATE_WORDS: Final = {
    "running": "is running",
    "sleeping": "sleeps",
    "blocked": "is blocked in the kernel, as by a disk or a network drive that does not respond",
    "stopped": "is stopped: a signal has suspended it (SIGCONT continues it)",
    "traced": "is stopped by a debugger",
    "zombie": "has ended, but the program that started it has not noticed",
    "gone": "has ended",
}
KILLED_TEXT: Final = "the capture ends, because mcpproxy was killed"
"""What ended a wait if the recorder was killed."""
_BAD_STATES: Final = frozenset({"blocked", "stopped", "traced", "zombie", "gone"})


def waiting_text(count: int, oldest_ns: int) -> str:
    """How many requests are waiting, and for how long the oldest: `2 requests waiting, the oldest for 14.4 s`."""
    return f"{count_text(count, 'request')} waiting{', the oldest' if count > 1 else ''} for {duration(oldest_ns)}"


def short_waiting_text(count: int, oldest_ns: int) -> str:
    """The same for a title: `2 waiting, oldest 14.4s`."""
    return f"{count:,} waiting{', oldest' if count > 1 else ''} {brief_duration(oldest_ns)}"


def shortest_waiting_text(count: int, oldest_ns: int, width: int) -> str:
    """The same for a column of some cells: `2 wait 14.4s`, or `2…14.4s` if it is narrow."""
    text = f"{count:,} wait {brief_duration(oldest_ns)}"
    return text if cells(text) <= width else f"{count if count > 1 else ''}…{brief_duration(oldest_ns)}"


def waiting_role(oldest_ns: int) -> Role:
    """The role of these texts: bad once the oldest request has waited so long that clients give up."""
    return "bad" if oldest_ns >= ABANDONED_NS else "warm"


def wait_fact(waited_ns: int, sent_wall_ns: int) -> Fact:
    """How long a request has been waiting, and since when by the wall clock.

    Args:
        waited_ns: how long it has been waiting.
        sent_wall_ns: when it was sent.
    """
    sent_at = clock_time(sent_wall_ns)
    since = f", since {sent_at}" if sent_at else ""
    return Fact("waiting", f"for {brief_duration(waited_ns)}{since}", waited_ns >= ABANDONED_NS)


def client_wait_fact(request_title: str, frame: int, waited_ns: int, *, is_certain: bool) -> Fact:
    """That the server in turn waits for the client, the most common reason for a call that hangs.

    Args:
        request_title: the sanitised title of the server's oldest request.
        frame: the number of its frame.
        waited_ns: how long that request has been waiting.
        is_certain: whether no other call of the client can be the reason for that request.
    """
    text = f"the server waits for the client: {request_title}, {brief_duration(waited_ns)} (frame {frame:,})"
    return Fact("because" if is_certain else "perhaps", text, is_bad=True)


def closed_output_fact(record: int, ago_ns: int) -> Fact:
    """That the server cannot answer, because it has closed its output.

    Args:
        record: the number of the record that says so.
        ago_ns: how long ago that was.
    """
    text = f"the server closed its output {brief_duration(ago_ns)} ago (record {record:,}), so it cannot answer"
    return Fact("because", text, is_bad=True)


def sign_of_life_fact(receiver: str, place: str, ago_ns: int | None, *, is_over: bool = False) -> Fact:
    """When the side that should respond last sent anything.

    Args:
        receiver: `server` or `client`.
        place: what it sent, such as `frame 43` or `stderr, record 43`.
        ago_ns: how long before now, or before the end of the wait, it sent that; None if it has sent nothing since the
            request.
        is_over: whether the wait has ended.
    """
    if ago_ns is None:
        return Fact(receiver, "sent nothing after the request" if is_over else "has sent nothing since", is_bad=True)
    return Fact(receiver, f"last sent {place}, {brief_duration(ago_ns)} {'before that' if is_over else 'ago'}")


def meanwhile_fact(count: int, *, is_counted: bool, last_frame: int | None, ago_ns: int) -> Fact:
    """How many other requests have been answered since.

    Args:
        count: how many; 0 for none.
        is_counted: whether all were counted; otherwise there are more.
        last_frame: the number of the frame of the last answer; None if another line says when it came.
        ago_ns: how long ago it came.
    """
    if not count:
        return Fact("meanwhile", "no other request was answered")
    number = f"{'' if is_counted else 'more than '}{count_text(count, 'other request')}"
    last_text = "" if last_frame is None else f", the last {brief_duration(ago_ns)} ago (frame {last_frame:,})"
    return Fact("meanwhile", f"{number} answered{last_text}")


def progress_fact(progress: str, frame: int, ago_ns: int) -> Fact:
    """The last progress that was reported: `3/10, 2.1s ago (frame 33)`.

    Args:
        progress: the sanitised figures.
        frame: the number of the frame of the report.
        ago_ns: how long ago it came.
    """
    return Fact("progress", f"{progress}, {brief_duration(ago_ns)} ago (frame {frame:,})")


def http_wait_fact(
    status: int | None, *, is_stream: bool, is_over: bool, events: int, is_counted: bool, ago_ns: int | None
) -> Fact:
    """How far the HTTP response has come on which an answer is due.

    Args:
        status: its status; None if it has not begun.
        is_stream: whether it is a stream of events.
        is_over: whether it has ended: the answer can still come on another stream.
        events: how many events have come on it.
        is_counted: whether all events were counted; otherwise there are more.
        ago_ns: how long ago the last of them came; None if there is none.
    """
    if is_over:
        text = "ended without a response" if status is None else f"{status}, ended"
        return Fact("response", f"{text}; the answer can only come on another stream")
    if status is None:
        return Fact("response", "not begun: the server has sent no status")
    if not is_stream:
        return Fact("response", f"{status}, but its body has not ended")
    count = f"{'' if is_counted else 'more than '}{count_text(events, 'event')}" if events else "no event so far"
    last = "" if ago_ns is None else f", the last {brief_duration(ago_ns)} ago"
    return Fact("response", f"{status}, its stream is open: {count}{last}")


def process_fact(
    pid: int, name: str, state: str, wait_channel: str, processor_ns: int = 0, *, is_child: bool = False
) -> Fact:
    """What a process is doing: `4711 node sleeps: it reads from a pipe (pipe_read)`.

    Args:
        pid: its process id.
        name: its name. Untrusted.
        state: `running`, `sleeping`, `blocked`, `stopped`, `traced`, `zombie` or `gone`.
        wait_channel: the function of the kernel in which it sleeps; empty if unknown.
        processor_ns: how much processor time it has used; 0 if unknown.
        is_child: whether it is not the server's process itself, but the youngest that it has started.
    """
    name_text = f" {sanitise(name, MAX_PROCESS_NAME_CHARS)}" if name else ""
    reason = next((text for channels, text in _WAIT_REASONS if wait_channel in channels), "")
    channel = sanitise(wait_channel, MAX_PROCESS_NAME_CHARS)
    doing = ""
    if state in ("sleeping", "blocked"):
        doing = f": it {reason}" if reason else f" in {channel}" if channel else ""
    elif state == "running" and processor_ns:
        doing = f"; so far it has used {brief_duration(processor_ns)} of processor time"
    return Fact(
        "its child" if is_child else "process",
        f"{pid}{name_text} {_STATE_WORDS[state]}{doing}",
        state in _BAD_STATES,
    )


def unknown_process_fact(reason: str) -> Fact:
    """That it is not known what the server's process is doing, and why."""
    return Fact("process", f"not known: {reason}")


def ended_wait_fact(waited_ns: int, ending: str, ended_wall_ns: int | None) -> Fact:
    """How long a request waited in vain, and what ended its wait: `14.4s, until the server exited 1, at 2026-…`.

    Args:
        waited_ns: how long it waited.
        ending: the sanitised clause about what ended the wait.
        ended_wall_ns: when that was; None if unknown.
    """
    ended_at = "" if ended_wall_ns is None else _local_time(ended_wall_ns)
    return Fact(
        "waited", f"{brief_duration(waited_ns)}, until {ending}{f', at {ended_at}' if ended_at else ''}", is_bad=True
    )


def cancelled_text(seq: int, *, is_message: bool) -> str:
    """That a cancellation ended a wait: `frame 12 cancelled it`, or `its client closed the HTTP exchange (record 12)`.

    Args:
        seq: the number of the record.
        is_message: whether it is a message, and not the end of an HTTP exchange.
    """
    return f"frame {seq:,} cancelled it" if is_message else f"its client closed the HTTP exchange (record {seq:,})"


def sent_text(kind: str, seq: int, *, is_frame: bool) -> str:
    """What a side has sent: `frame 43`, `stderr (record 43)`, `the head of its response (record 43)`.

    Args:
        kind: the kind of the record.
        seq: its number.
        is_frame: whether it is a frame.
    """
    if is_frame:
        return f"frame {seq:,}"
    return f"{'the head of its response' if kind == 'exchange' else kind} (record {seq:,})"


def session_end_text(ending: str | None, remark: str) -> str:
    """That the end of the session ended a wait: `the client disconnected`, `the server exited 1`.

    Args:
        ending: the `ending` in the capture's `close` record.
        remark: the sanitised text about the end; empty if there is none.
    """
    if ending == "client":
        return "the client disconnected"
    subject = remark.removeprefix("the ")
    return f"the {subject}" if subject.startswith("server ") else "the session ended"


def method_text(method: str) -> str:
    """The method of a request that is too large to be read."""
    return sanitise(method, MAX_PROCESS_NAME_CHARS)


def _local_time(wall_ns: int) -> str:
    try:
        return local_time(wall_ns)
    except (OverflowError, ValueError, OSError):
        return ""


def clock_time(wall_ns: int) -> str:
    """A moment by the local wall clock, to the second; empty if the system cannot say."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(wall_ns // 1_000_000_000))
    except (OverflowError, ValueError, OSError):
        return ""
