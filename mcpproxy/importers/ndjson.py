"""Plain frames, one JSON object per line: `{"t":…,"dir":"c2s","raw":"…"}`, as a logger of a few lines writes them.

All lines of a file are one conversation, as on stdio. It is streamed, regardless of its length. The file does not say
whether it begins where the server did: it does if the client opens it; otherwise it is treated as an excerpt, so that
nothing that may have come before is reported as missing.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from orjson import JSONDecodeError, loads

from analysis.conversation.session import PROTOCOL_VERSION
from captures.limits import MAX_RECORDER_JUDGED_BYTES
from captures.verdict import Direction
from mcpproxy.importers.capture_lines import MAX_NS, CaptureLines
from mcpproxy.importers.source import InvalidLine, numbered, object_of, raw_of
from mcpproxy.importers.stdio import Pipes

SINCE_1970: Final = 10**18
"""Nanoseconds. A first stamp from here on, which is in September 2001, is wall time."""
HELD: Final = 1000
"""Frames of the server that are held back until the client's first frame, before anything is written."""
HELD_BYTES: Final = 1 << 20

_OPENING: Final = ("initialize", "server/discover")


class Line(NamedTuple):
    """One frame."""

    told_ns: int
    """The stamp as logged."""
    side: Direction
    raw: bytes


def records(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The lines of a capture; `name` is the name of the conversation. Blank lines are skipped.

    Raises:
        InvalidLine: a line is not a frame; the output so far is not a valid capture.
    """
    tape, pipes, frames = CaptureLines(), Pipes(), _frames(lines)
    held, is_whole = beginning(frames)
    if not held:
        raise InvalidLine("expected lines such as " + '{"t":0,"dir":"c2s","raw":"{}"}')
    first_ns = held[0].told_ns
    start_ns = first_ns if first_ns >= SINCE_1970 else 0
    yield tape.header("ndjson", "stdio", name, observed_start=is_whole, wall_ns=start_ns or None)
    t_ns = 0
    for told_ns, side, raw in chain(held, frames):
        t_ns = told_ns - start_ns
        for entry in pipes.feed(side, raw + b"\n"):
            yield tape.line(t_ns, entry.rec, entry.middle)
    yield tape.close(t_ns, pipes.totals())


def _frames(lines: Iterable[bytes]) -> Iterator[Line]:
    before_ns = 0
    for number, line in numbered(lines):
        try:
            values = object_of(line)
            t_ns, side, raw = values.get("t"), values.get("dir"), raw_of(values)
            if type(t_ns) is not int or not 0 <= t_ns < MAX_NS:
                raise InvalidLine("expected whole nanoseconds in `t`")
            if side not in ("c2s", "s2c"):
                raise InvalidLine("expected c2s or s2c in `dir`")
            if t_ns < before_ns:
                raise InvalidLine("expected a time in `t` that is not before that of the line above")
        except InvalidLine as wrong:
            raise InvalidLine(f"line {number}: {wrong}") from None
        before_ns = t_ns
        yield Line(t_ns, side, raw)


def beginning(frames: Iterator[Line]) -> tuple[list[Line], bool]:
    """The frames up to the client's first, and whether that opens the conversation."""
    held: list[Line] = []
    size = 0
    for frame in frames:
        held.append(frame)
        size += len(frame.raw)
        if frame.side == "c2s" and frame.raw.strip():
            return held, opens(frame.raw)
        if len(held) >= HELD or size >= HELD_BYTES:
            break
    return held, False


def opens(raw: bytes) -> bool:
    """Whether a client's frame can be the first: a handshake, or a request that needs none."""
    try:
        value = loads(raw) if len(raw) <= MAX_RECORDER_JUDGED_BYTES else None
    except JSONDecodeError:
        return False
    message = value[0] if isinstance(value, list) and value else value
    if not isinstance(message, dict):
        return False
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return message.get("method") in _OPENING or (isinstance(meta, dict) and PROTOCOL_VERSION in meta)
