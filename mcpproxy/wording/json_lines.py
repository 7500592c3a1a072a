"""Records as lines of JSON, as `show --json` prints them and the screens copy and export them.

A line has the members of the record, with a frame's verdict by the current rules, then `at`, the wall-clock time. If a
frame is JSON that every parser reads alike, `message` follows: the text of the frame, unchanged, so that numbers keep
every digit.
"""

import re
from typing import Final

from captures.ambiguity import ambiguity
from captures.damage import Damage
from captures.exact_judge import nesting_depth
from captures.frame import Frame
from captures.limits import MAX_DEPTH
from captures.record import Record, frame_members, seal
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.units import utc

# Includes the preceding character, onto which a combining mark is drawn.
_NOT_ASCII: Final = re.compile(r"[ -~]?[^ -~]+")


def row_of(item: Record, frame: object, wall_ns: int | None) -> str:
    """A record as a line, without the line feed.

    Args:
        item: the record; for a giant frame, the last of its records.
        frame: the frame that it completes, if it completes one.
        wall_ns: when the capture opened, by the wall clock.
    """
    line = _line_with_current_verdict(item, frame) if isinstance(frame, Frame) else item.line[:-1]
    if wall_ns is not None:
        line += b',"at":"%b"' % utc(wall_ns + min(item.t_ns, 1 << 62)).encode()
    if isinstance(frame, Frame) and _is_read_alike(frame):
        line += b',"message":%b' % frame.raw
    return line.decode() + "}"


def damage_members(item: Damage) -> dict[str, object]:
    """The members of the line for bytes that are not a record."""
    return {
        "rec": "damage",
        "file": str(item.path),
        "offset": item.offset,
        "size": item.size,
        "cause": item.cause,
    }


def wall_of(header: Record) -> int | None:
    """Returns when a capture opened, in nanoseconds since 1970 by the wall clock, or None if that is unknown."""
    wall_ns = header.members.get("wall_ns")
    return wall_ns if type(wall_ns) is int and 0 <= wall_ns < 1 << 62 else None


def escape_line(line: str) -> str:
    """A line of JSON in which escapes replace everything that could act on a terminal.

    This does not change its meaning: control characters can only occur between JSON tokens, where they become spaces,
    and everything else that is replaced only inside strings.
    """
    return _NOT_ASCII.sub(_escape_match, line)


def escape_all(text: str) -> str:
    """A text with each of its characters as a JSON escape."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))


def _line_with_current_verdict(record: Record, frame: Frame) -> bytes:
    """The line of a frame with its current verdict, without the last brace; recorders leave large frames unjudged."""
    verdict = frame.verdict
    if (record.members.get("kind"), record.members.get("problem")) == (verdict.kind, verdict.problem):
        return record.line[:-1]
    count = record.members.get("parts")
    members = frame_members(
        frame.dir,
        frame.raw,
        verdict,
        delim=frame.delim,
        whole=frame.whole,
        parts=(count, len(frame.raw)) if type(count) is int else None,
        conn=frame.conn,
        exchange=frame.exchange,
        unit=frame.unit,
        event_id=frame.event_id,
        event=frame.event,
        id_again=frame.id_again,
        partial=record.members.get("partial") is True,
        time_is_exact=frame.time_is_exact,
    )
    return seal(record.seq, record.t_ns, "frame", members).removesuffix(b"}\n")


def _is_read_alike(frame: Frame) -> bool:
    """Whether a frame is a message that every parser reads alike, in one line; others are shown as bytes only."""
    # The problem in the verdict is not enough: it is only the first, and duplicates below the top level do not count.
    return (
        frame.verdict.kind not in ("invalid", "unjudged")
        and b"\n" not in frame.raw
        and nesting_depth(frame.raw) <= MAX_DEPTH
        and (frame.is_as_written or ambiguity(frame.raw) is None)
    )


def _escape_match(match: re.Match[str]) -> str:
    text = match[0]
    return text if sanitise(text, None) == text else "".join(map(_escape, text))


def _escape(char: str) -> str:
    if " " <= char <= "~":
        return char
    if char in "\t\r":
        return " "
    return escape_all(char)
