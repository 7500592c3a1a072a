"""Traces: conversations as data, one JSON object per line, recorded or invented. Format: docs/commands/import.md.

A case is read as a whole before any of it becomes a record, so whatever `cases` yields can be imported. It keeps the
order of its frames, and each record says which frame it represents: findings in the records can be reported for the
frames.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

from captures.loss import PendingRecord
from mcpproxy.importers.capture_lines import MAX_NS, CaptureLines
from mcpproxy.importers.http import Exchanges, is_metadata, path_of, request_of, response_of, speaks_mcp
from mcpproxy.importers.source import InvalidLine, numbered, object_of, raw_of
from mcpproxy.importers.stdio import Pipe, Pipes
from mcpproxy.wire.http1 import Head
from mcpproxy.wire.response import ResponseHead

Transport = Literal["stdio", "http", "legacy-sse"]
Kind = Literal["line", "eof", "req", "res", "head", "sse", "end"]
T = TypeVar("T", bound=str)

STEP_NS: Final = 10_000_000
"""How long after the previous frame a frame without a time follows."""
MS: Final = 1_000_000
MAX_NUMBER: Final = 2**53 - 1
MAX_NAME_CHARS: Final = 1024
"""Characters of a name or an address; a record holds them as they are."""

_WIRE: Final[dict[Transport, str]] = {"stdio": "stdio", "http": "http", "legacy-sse": "http"}
"""The transport's name in a header."""
_PIPES: Final[tuple[Pipe, ...]] = ("c2s", "s2c", "stderr")
_SIDES: Final[dict[Kind, tuple[Pipe, ...]]] = {
    "req": ("c2s",),
    "res": ("s2c",),
    "head": ("s2c",),
    "sse": ("s2c",),
    "end": ("c2s", "s2c"),
}
"""Which sides can have such a frame, over HTTP."""


class Step(NamedTuple):
    """One frame of a trace."""

    t_ns: int
    kind: Kind
    dir: Pipe
    raw: bytes = b""
    """The bytes: a line without its LF, or a request or response without its head."""
    noeol: bool = False
    """Whether the LF of the line is missing."""
    code: int | None = None
    """How the server exited, if its end of file says so."""
    exchange: int = 0
    head: Head | ResponseHead | None = None
    by: str = ""
    """The side that ended the exchange."""
    is_cut: bool = False
    """Whether the exchange ended within the response."""
    peer: str = ""
    """The client's address, if known."""
    lacks_body: bool = False
    """Whether a request or response had a body that is not known."""


class Refused(NamedTuple):
    """A line that is not a case."""

    line: int
    """Its number, from 1."""
    name: str | None
    """The name of the case, if it could be read."""
    reason: str
    """What is expected."""


@dataclass(frozen=True, slots=True)
class Case:
    """One conversation."""

    line: int
    """The number of its line, from 1."""
    name: str
    transport: Transport
    observed_start: bool
    """False if it begins in the middle."""
    steps: tuple[Step, ...]
    """Its frames in order."""
    members: dict[str, Any]
    """All members of the case as parsed; an import ignores some, such as the expected findings."""
    form: str = "trace"
    """What was imported, as `--from` names it."""
    wall_ns: int | None = None
    """The wall clock at time 0, if known."""

    def records(self) -> Iterator[tuple[int | None, bytes]]:
        """Yields the lines of a capture of it, each with the index of the frame that it represents.

        The index is None for the header and the close record. A frame can have several records or, like a comment in a
        stream, none.
        """
        tape = CaptureLines()
        wire, wall_ns = _WIRE[self.transport], self.wall_ns
        yield None, tape.header(self.form, wire, self.name, observed_start=self.observed_start, wall_ns=wall_ns)
        pipes = Pipes()
        exchanges = Exchanges(self._endpoints())
        entries = self._of_stdio(pipes) if self.transport == "stdio" else self._of_http(exchanges)
        t_ns = 0
        for index, entry in entries:
            # Records that only the end reveals may belong to a much earlier frame.
            t_ns = max(t_ns, self.steps[index].t_ns)
            yield index, tape.line(t_ns, entry.rec, entry.middle)
        totals = pipes.totals() if self.transport == "stdio" else exchanges.totals()
        yield (
            None,
            tape.close(self.steps[-1].t_ns if self.steps else 0, totals, status=pipes.status, signal=pipes.signal),
        )

    def _of_stdio(self, pipes: Pipes) -> Iterator[tuple[int, PendingRecord]]:
        last = {step.dir: index for index, step in enumerate(self.steps) if step.kind == "line"}
        for index, step in enumerate(self.steps):
            if step.kind == "eof":
                entries = pipes.eof(step.dir)
                if step.code is not None:
                    entries += pipes.exited(step.code)
            else:
                entries = pipes.feed(step.dir, step.raw if step.noeol else step.raw + b"\n")
                if last[step.dir] == index:
                    # Recorded here and not where the pipe ends, so that an error in it is reported for this frame.
                    entries += pipes.rest(step.dir)
            for entry in entries:
                yield index, entry

    def _of_http(self, exchanges: Exchanges) -> Iterator[tuple[int, PendingRecord]]:
        latest: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            exchanges.at_ns = step.t_ns
            latest[step.exchange] = index
            for entry in _happened(exchanges, step):
                yield index, entry
        for number, entry in exchanges.rest():
            yield latest[number], entry

    def _endpoints(self) -> set[bytes]:
        """The server's paths, one of which `serve` would have been given; empty if no request shows them.

        On the older transport that is the stream's path. Traffic elsewhere is recognised by its content.
        """
        requests = [(step.head, step.raw) for step in self.steps if isinstance(step.head, Head)]
        if self.transport == "legacy-sse":
            return {path_of(head) for head, _ in requests if head.method == b"GET" and not is_metadata(head)}
        return {path_of(head) for head, body in requests if speaks_mcp(head, body)}


def _happened(exchanges: Exchanges, step: Step) -> list[PendingRecord]:
    number = step.exchange
    if isinstance(step.head, Head):
        return exchanges.request(number, step.head, step.raw, step.peer, lacks_body=step.lacks_body)
    if isinstance(step.head, ResponseHead):
        complete = step.kind == "res"
        return exchanges.response(number, step.head, step.raw, complete=complete, lacks_body=step.lacks_body)
    if step.kind == "sse":
        return exchanges.more(number, step.raw)
    return exchanges.end(number, step.by, is_cut=step.is_cut)


def cases(lines: Iterable[bytes]) -> Iterator[Case | Refused]:
    """Yields the cases in the lines of a file, and the lines that are not cases. Blank lines are skipped."""
    for number, line in numbered(lines):
        name = None
        try:
            values = object_of(line)
            name = _text(values, "name")
            if not name:
                raise InvalidLine("expected text in `name`")
            yield _case(number, name, values)
        except InvalidLine as wrong:
            yield Refused(number, name or None, str(wrong))


def _case(number: int, name: str, values: dict[str, Any]) -> Case:
    transport, frames = _word(values, "transport", tuple(_WIRE)), values.get("frames")
    observed_start = _truth(values, "start_observed", default=True)
    if not isinstance(frames, list):
        raise InvalidLine("expected a list in `frames`")
    course = _Course(transport)
    steps = []
    for index, frame in enumerate(frames):
        try:
            steps.append(course.step(frame))
        except InvalidLine as wrong:
            raise InvalidLine(f"frame {index}: {wrong}") from None
    return Case(number, name, transport, observed_start, tuple(steps), values)


class _Course:
    """Reads frames in order, and knows which are allowed next."""

    def __init__(self, transport: Transport) -> None:
        self._is_stdio = transport == "stdio"
        self._t_ns = -STEP_NS
        self._ended: set[Pipe] = set()
        self._begun: set[int] = set()
        self._answered: set[int] = set()
        self._closed: set[int] = set()

    def step(self, frame: object) -> Step:
        """The next frame.

        Raises:
            InvalidLine: it is not a frame, or not allowed here.
        """
        if not isinstance(frame, dict):
            raise InvalidLine("expected an object")
        self._t_ns = self._time(frame.get("t"))
        return self._on_stdio(frame) if self._is_stdio else self._over_http(frame)

    def _time(self, time: object) -> int:
        if time is None:
            t_ns = self._t_ns + STEP_NS
        elif isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < MAX_NS / MS:
            raise InvalidLine("expected milliseconds from the start in `t`")
        else:
            t_ns = time * MS if isinstance(time, int) else round(time * MS)
        if t_ns < self._t_ns:
            raise InvalidLine("expected a time in `t` that is not before that of the frame above")
        if t_ns >= MAX_NS:
            raise InvalidLine("expected an earlier time in the frames above")
        return t_ns

    def _on_stdio(self, frame: dict[str, Any]) -> Step:
        pipe = _word(frame, "dir", _PIPES)
        if pipe in self._ended:
            raise InvalidLine(f"expected nothing more from {pipe}, which has ended")
        kind, code = frame.get("k"), frame.get("code")
        if kind is None:
            return Step(self._t_ns, "line", pipe, raw_of(frame), _truth(frame, "noeol", default=False))
        if kind != "eof":
            raise InvalidLine("expected eof in `k`, or none, on stdio")
        if code is not None and (pipe != "s2c" or type(code) is not int or abs(code) > MAX_NUMBER):
            raise InvalidLine("expected a whole number in `code`, with `dir` s2c")
        self._ended.add(pipe)
        return Step(self._t_ns, "eof", pipe, code=code)

    def _over_http(self, frame: dict[str, Any]) -> Step:
        kind = _word(frame, "k", tuple(_SIDES))
        side = _word(frame, "dir", _SIDES[kind])
        number = frame.get("x")
        if type(number) is not int or not 1 <= number <= MAX_NUMBER:
            raise InvalidLine("expected the number of the exchange, from 1, in `x`")
        if kind != "end" and number in self._closed:
            raise InvalidLine(f"expected nothing more of exchange {number}, which has ended")
        if kind == "req" and number in self._begun:
            raise InvalidLine(f"exchange {number} already exists: expected a new number in `x`")
        self._begun.add(number)
        step = Step(self._t_ns, kind, side, exchange=number)
        if kind == "end":
            self._closed.add(number)
            step = step._replace(is_cut=_truth(frame, "cut", default=False))
            if frame.get("by") is None:
                return step._replace(by="client" if side == "c2s" else "server")
            return step._replace(by=_word(frame, "by", ("client", "server")))
        raw = raw_of(frame)
        if not _truth(frame, "body", default=True):
            step = step._replace(lacks_body=True)
        if kind == "req":
            head, body = request_of(raw)
            return step._replace(head=head, raw=body, peer=_text(frame, "peer"))
        return self._response(step, raw)

    def _response(self, step: Step, raw: bytes) -> Step:
        number = step.exchange
        if step.kind == "sse":
            # Without a head before it, it belongs to a stream that was already open; then no head can follow.
            self._answered.add(number)
            return step._replace(raw=raw)
        if number in self._answered:
            raise InvalidLine(f"expected one response in exchange {number}, which has one above")
        head, body = response_of(raw)
        if not head.informational:
            self._answered.add(number)
            if step.kind == "res":
                self._closed.add(number)
        return step._replace(head=head, raw=body)


def _word(values: dict[str, Any], name: str, words: Sequence[T]) -> T:
    """The value of a member that must be one of a few words."""
    value = values.get(name)
    for word in words:
        if value == word:
            return word
    *most, last = words
    raise InvalidLine(f"expected {', '.join(most)}{' or ' if most else ''}{last} in `{name}`")


def _text(values: dict[str, Any], name: str) -> str:
    """A member that is a short text; empty if missing."""
    value = values.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > MAX_NAME_CHARS):
        raise InvalidLine(f"expected text of at most {MAX_NAME_CHARS} characters in `{name}`")
    return value or ""


def _truth(values: dict[str, Any], name: str, *, default: bool) -> bool:
    """A member that is true or false."""
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidLine(f"expected true or false in `{name}`")
    return default if value is None else value
