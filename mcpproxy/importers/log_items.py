"""The items that a form reads from a log, in order: frames, lines of stderr, and starts and ends of conversations.

`name` is the name of the server in the log, and becomes the name of the capture. Entries of several servers may
alternate. `session` distinguishes conversations with servers of the same name, if the log does; otherwise it is empty.

`stamp_ns` is a time in nanoseconds since 1970, or, below `MIN_WALL_NS`, since the start; None if the entry has no time.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias, TypeVar

from captures.verdict import Direction
from mcpproxy.importers.case import Case
from mcpproxy.importers.source import MAX_INPUT_LINE_BYTES, TOO_LONG

MIN_WALL_NS: Final = 10**18
"""In nanoseconds, in September 2001. This stamp and all above it are wall times."""


class LoggedFrame(NamedTuple):
    """A message in a log, or a line that should be one."""

    name: str
    side: Direction | None
    """None if the log does not say, so that the side is guessed from the message."""
    raw: bytes
    """The text. Unless the form is verbatim, it may span lines, which the import joins."""
    stamp_ns: int | None = None
    is_time_exact: bool = True
    """False if the log has only a coarser time, such as whole seconds, or the time of another event."""
    is_whole: bool = True
    """False if the log contains only a part of the message."""
    session: str = ""


class LoggedStderr(NamedTuple):
    """A line that a server wrote to stderr."""

    name: str
    raw: bytes
    stamp_ns: int | None = None
    session: str = ""


class ServerStart(NamedTuple):
    """A server was started. A new capture begins, unless the current one has no other events yet."""

    name: str
    stamp_ns: int | None = None
    session: str = ""


class ServerExit(NamedTuple):
    """A server ended, by itself unless `ClientExit` came before. The next frame begins a new capture."""

    name: str
    stamp_ns: int | None = None
    code: int | None = None
    """The exit status, or the negated number of a signal; None if the log does not say."""
    session: str = ""


class ClientExit(NamedTuple):
    """The client ended the conversation, or began to end it, by closing the connection or stopping the server."""

    name: str
    stamp_ns: int | None = None
    session: str = ""


class Disconnection(NamedTuple):
    """The conversation ended, and the log does not say who ended it. The next frame begins a new capture."""

    name: str
    stamp_ns: int | None = None
    session: str = ""


class Loss(NamedTuple):
    """A part of the log could not be read. It may have contained requests or responses of the conversation."""

    name: str
    stamp_ns: int | None = None
    session: str = ""


class LeftOut(NamedTuple):
    """A part of the log that belongs to a conversation, or seems to, but could not be read. The import exits with 2."""

    place: str
    """The position in the log, such as `line 3` or `entry 7`."""
    reason: str
    """What is wrong with it, or what was expected, without a full stop."""
    name: str = ""
    """The conversation to which it belongs, if known."""
    is_message: bool = True
    """Whether it may have been a message. Rules must then not report that message as missing."""


class Remark(NamedTuple):
    """A sentence for stderr about what the log contains or lacks, which is not an error; without a full stop."""

    text: str


TimedEvent = TypeVar("TimedEvent", bound="LoggedFrame | LoggedStderr")
Event: TypeAlias = LoggedFrame | LoggedStderr | ServerStart | ServerExit | ClientExit | Disconnection | Loss
"""An event of a conversation."""
Item: TypeAlias = Event | Case | LeftOut | Remark
"""An item that the function `read` of a form yields: a `Case`, instead of events, if the log is not in order."""


def left_out_if_too_long(number: int, line: bytes) -> LeftOut | None:
    """Returns a report if a line is too long, or else None. `Log.lines` yields only the beginning of such a line."""
    return LeftOut(f"line {number}", TOO_LONG) if len(line) > MAX_INPUT_LINE_BYTES else None


def sorted_by_time(events: Iterable[TimedEvent]) -> list[TimedEvent]:
    """Returns events sorted by time. An event without a time stays after the one before it."""
    latest_ns, timed_events = 0, []
    for event in events:
        latest_ns = latest_ns if event.stamp_ns is None else event.stamp_ns
        timed_events.append((latest_ns, event))
    return [event for _, event in sorted(timed_events, key=lambda pair: pair[0])]
