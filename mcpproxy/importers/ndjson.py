"""Plain frames, one JSON object a line: `{"t":…,"dir":"c2s","raw":"…"}`, as a logger of a few lines writes them.

All lines of a file are one conversation, as on stdio. It is read and written as it comes, whatever its length.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.importers.source import Wrong, numbered, object_of, raw_of
from mcpproxy.importers.stdio import Pipes
from mcpproxy.importers.tape import MAX_NS, Tape

SINCE_1970: Final = 10**18
"""Nanoseconds. A first stamp from here on, which is in September 2001, is wall time."""


def records(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The lines of a capture; `name` is that of the conversation. Blank lines are passed over.

    Raises:
        Wrong: a line is no frame; what has come out before it is no capture.
    """
    tape, pipes = Tape(), Pipes()
    start_ns = t_ns = -1
    for number, line in numbered(lines):
        try:
            values = object_of(line)
            told, side, raw = values.get("t"), values.get("dir"), raw_of(values)
            if type(told) is not int or not 0 <= told < MAX_NS:
                raise Wrong("expected whole nanoseconds in `t`")
            if side not in ("c2s", "s2c"):
                raise Wrong("expected c2s or s2c in `dir`")
            if start_ns < 0:
                start_ns = told if told >= SINCE_1970 else 0
                yield tape.header("ndjson", "stdio", name, wall_ns=start_ns or None)
            elif told - start_ns < t_ns:
                raise Wrong("expected a time in `t` that is not before that of the line above")
        except Wrong as wrong:
            raise Wrong(f"line {number}: {wrong}") from None
        t_ns = told - start_ns
        for entry in pipes.feed(side, raw + b"\n"):
            yield tape.line(t_ns, entry.rec, entry.middle)
    if start_ns < 0:
        raise Wrong("expected lines such as " + '{"t":0,"dir":"c2s","raw":"{}"}')
    yield tape.close(t_ns, pipes.totals())
