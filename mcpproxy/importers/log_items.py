"""What a form reads from a log: frames, stderr, starts and ends of conversations, in the order of the log.

`name` is the server as the log names it, and the name of the capture. Several servers may take turns in a log.
`session` tells conversations with servers of the same name apart, if the log does; leave it empty otherwise.

`stamp_ns` is a time in nanoseconds since 1970, or, below `SINCE_1970`, since the start; None if the log has none there.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias, TypeVar

from captures.verdict import Direction
from mcpproxy.importers.case import Case
from mcpproxy.importers.source import MAX_INPUT_LINE_BYTES, TOO_LONG

SINCE_1970: Final = 10**18
"""Nanoseconds. A stamp from here on, which is in September 2001, is wall time."""


class LoggedFrame(NamedTuple):
    """A message in a log, or a line that should be one."""

    name: str
    side: Direction | None
    """None if the log does not say; it is then guessed from the message."""
    raw: bytes
    """Its text. Unless the form is verbatim, it may span lines, which are joined."""
    stamp_ns: int | None = None
    is_time_exact: bool = True
    """False if the log has only a coarser time, such as whole seconds, or that of another event."""
    is_whole: bool = True
    """False if the log holds only the beginning of it."""
    session: str = ""


class LoggedStderr(NamedTuple):
    """A line that a server wrote to stderr."""

    name: str
    raw: bytes
    stamp_ns: int | None = None
    session: str = ""


class ServerStart(NamedTuple):
    """A server was started: a new capture begins, unless it just has."""

    name: str
    stamp_ns: int | None = None
    session: str = ""


class ServerExit(NamedTuple):
    """A server ended, by itself unless `ClientExit` came before. A frame that follows begins a new capture."""

    name: str
    stamp_ns: int | None = None
    code: int | None = None
    """Its exit status, or the negated number of a signal; None if the log does not say."""
    session: str = ""


class ClientExit(NamedTuple):
    """The client ended the conversation, or began to, by closing its end or by stopping the server."""

    name: str
    stamp_ns: int | None = None
    session: str = ""


class Disconnection(NamedTuple):
    """The conversation ended, and the log does not say who ended it. A frame that follows begins a new capture."""

    name: str
    stamp_ns: int | None = None
    session: str = ""


class Loss(NamedTuple):
    """Something of the conversation is in the log, but could not be read: nobody knows what it answered or asked."""

    name: str
    stamp_ns: int | None = None
    session: str = ""


class LeftOut(NamedTuple):
    """Something that belongs to a conversation, or seems to, and could not be read; the import exits with 2."""

    place: str
    """Where it is: `line 3`, `entry 7`."""
    reason: str
    """What is wrong or expected there, without a full stop."""
    name: str = ""
    """The conversation to which it belongs, if known."""
    is_message: bool = True
    """Whether it may have been a message, so that nobody can be blamed for not having sent it."""


class Remark(NamedTuple):
    """A sentence for stderr about what the log holds or lacks, which is not a mistake; without a full stop."""

    text: str


TimedEvent = TypeVar("TimedEvent", bound="LoggedFrame | LoggedStderr")
Event: TypeAlias = LoggedFrame | LoggedStderr | ServerStart | ServerExit | ClientExit | Disconnection | Loss
"""Something that happened in a conversation."""
Item: TypeAlias = Event | Case | LeftOut | Remark
"""What `read` of a form yields: events, or whole conversations (`Case`) if a log cannot be read in order."""


def left_out_if_too_long(number: int, line: bytes) -> LeftOut | None:
    """Returns what is left out if a line is too long; `Log.lines` yields only its beginning then."""
    return LeftOut(f"line {number}", TOO_LONG) if len(line) > MAX_INPUT_LINE_BYTES else None


def in_order(events: Iterable[TimedEvent]) -> list[TimedEvent]:
    """Returns events sorted by their times; one without a time stays behind the one before it."""
    latest_ns, timed = 0, []
    for event in events:
        latest_ns = latest_ns if event.stamp_ns is None else event.stamp_ns
        timed.append((latest_ns, event))
    return [event for _, event in sorted(timed, key=lambda pair: pair[0])]
