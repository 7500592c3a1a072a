"""Traces of mcp-tape: lines of JSON, the first about the session, then one for each message, and the server's exit.

    {"v":1,"type":"meta","startedAt":"…","label":"files",…}
    {"t":"2026-11-20T10:15:02.123Z","dir":"in","raw":{"jsonrpc":"2.0",…}}
    {"t":"…","type":"end","exitCode":0,"durationMs":30000}

`in` comes from the client, `out` from the server. Such a trace lacks lines that are not JSON, stderr, and the bytes as
they crossed, and values of secrets may have been replaced. A rotated trace has no first line.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from mcpproxy.importers.capture_lines import CaptureLines
from mcpproxy.importers.ndjson import Line, beginning
from mcpproxy.importers.source import InvalidLine, numbered, object_of
from mcpproxy.importers.stdio import Pipes

_SIDES: Final[dict[object, Any]] = {"in": "c2s", "out": "s2c"}
# Its writer puts `raw` last, so the text of a message can be kept with every digit.
_VERBATIM: Final = re.compile(rb'\s*\{"t":"[^"\\]{1,64}","dir":"(?:in|out)","raw":(.*)\}\s*', re.DOTALL)


class Trace:
    """One trace."""

    def __init__(self, lines: Iterable[bytes], name: str) -> None:
        """`name` is the name of the conversation, unless the trace has one."""
        self._lines, self._name = numbered(lines), name
        self._exit: int | None = None

    def records(self) -> Iterator[bytes]:
        """The lines of a capture.

        Raises:
            InvalidLine: a line is not one of a trace; the output so far is not a valid capture.
        """
        tape, pipes, frames = CaptureLines(), Pipes(), self._frames()
        held, is_whole = beginning(frames)
        if not held:
            raise InvalidLine('expected lines such as {"t":"2026-11-20T10:15:02.123Z","dir":"in","raw":{}}')
        start_ns = held[0].told_ns
        yield tape.header("mcp-tape", "stdio", self._name, observed_start=is_whole, wall_ns=start_ns)
        t_ns = 0
        for told_ns, side, raw in chain(held, frames):
            t_ns = max(t_ns, told_ns - start_ns)  # a clock may be set back
            for entry in pipes.feed(side, raw + b"\n"):
                yield tape.line(t_ns, entry.rec, entry.middle)
        if self._exit is not None:
            for entry in pipes.exited(self._exit):
                yield tape.line(t_ns, entry.rec, entry.middle)
        yield tape.close(t_ns, pipes.totals(), status=pipes.status)

    def _frames(self) -> Iterator[Line]:
        for number, line in self._lines:
            try:
                values = object_of(line)
                if "type" in values:
                    self._note(values)
                    continue
                side = _SIDES.get(values.get("dir"))
                if side is None:
                    raise InvalidLine("expected in or out in `dir`")
                if "raw" not in values:
                    raise InvalidLine("expected a message in `raw`")
                yield Line(_date(values.get("t")), side, _text_of(line, values["raw"]))
            except InvalidLine as wrong:
                raise InvalidLine(f"line {number}: {wrong}") from None

    def _note(self, values: dict[str, Any]) -> None:
        kind, label, code = values["type"], values.get("label"), values.get("exitCode")
        if kind == "meta":
            if values.get("v") != 1:
                raise InvalidLine("expected version 1 in `v`")
            self._name = label if isinstance(label, str) and 0 < len(label) <= 64 else self._name
        elif kind == "end" and type(code) is int and 0 <= code <= 255:
            self._exit = code


def _text_of(line: bytes, value: object) -> bytes:
    verbatim = _VERBATIM.fullmatch(line)
    if verbatim is not None:
        text = verbatim[1].strip()
        try:
            if b"\n" not in text and loads(text) == value:
                return text
        except JSONDecodeError:
            pass
    return dumps(value)


def _date(value: object) -> int:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.year < 1970:
        raise InvalidLine("expected a date and time in `t`")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
