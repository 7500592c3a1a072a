"""Cases: whole conversations, read completely before any record of them is written.

A case keeps the order of its frames, and each record comes with the index of its frame, so that findings in the records
can be reported for the frames.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from captures.loss import PendingRecord
from captures.record import with_inexact_time
from mcpproxy.importers.capture_lines import CaptureLines
from mcpproxy.importers.http import Exchanges, is_metadata, path_of, speaks_mcp
from mcpproxy.importers.stdio import Pipe, Pipes
from mcpproxy.wire.http1 import RequestHead
from mcpproxy.wire.response import ResponseHead

Transport = Literal["stdio", "http", "legacy-sse"]
Kind = Literal["line", "eof", "req", "res", "head", "sse", "end"]

HEADER_TRANSPORTS: Final[dict[Transport, str]] = {"stdio": "stdio", "http": "http", "legacy-sse": "http"}
"""The name of each transport in the header of a capture."""


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
    """The server's exit code, if the log has it with the end of file."""
    exchange: int = 0
    head: RequestHead | ResponseHead | None = None
    ended_by: str = ""
    """The side that ended the exchange."""
    is_cut: bool = False
    """Whether the exchange ended within the response."""
    peer: str = ""
    """The client's address, if known."""
    lacks_body: bool = False
    """Whether the request or response had a body that the log does not contain."""
    is_time_exact: bool = True
    """False if the log has no time for this frame itself."""


@dataclass(frozen=True, slots=True)
class Case:
    """One conversation."""

    line_number: int
    """The number of the case's line in the log, from 1."""
    name: str
    transport: Transport
    observed_start: bool
    """False if the case begins in the middle of a conversation."""
    steps: tuple[Step, ...]
    """The frames of the conversation, in order."""
    members: dict[str, Any]
    """All members of the case as parsed; an import ignores some, such as the expected findings."""
    wall_ns: int | None = None
    """The wall clock at time 0, if known."""

    def records(self, form: str = "trace") -> Iterator[tuple[int | None, bytes]]:
        """Yields the lines of a capture of this case, each with the index of the frame that it represents.

        The index is None for the header and the close record. A frame can have several records or, like a comment in a
        stream, none.

        Args:
            form: the form of the log, as `--from` names it.
        """
        lines = CaptureLines()
        header_transport, wall_ns = HEADER_TRANSPORTS[self.transport], self.wall_ns
        yield (
            None,
            lines.header_line(form, header_transport, self.name, observed_start=self.observed_start, wall_ns=wall_ns),
        )
        pipes = Pipes()
        exchanges = Exchanges(self._endpoints())
        records = self._stdio_records(pipes) if self.transport == "stdio" else self._http_records(exchanges)
        t_ns = 0
        for index, record in records:
            # A record that is only known at the end may belong to a much earlier frame.
            step = self.steps[index]
            t_ns = max(t_ns, step.t_ns)
            is_exact = step.is_time_exact or record.rec != "frame"
            yield (
                index,
                lines.next_line(t_ns, record.rec, record.middle if is_exact else with_inexact_time(record.middle)),
            )
        totals = pipes.totals() if self.transport == "stdio" else exchanges.totals()
        yield (
            None,
            lines.close_line(
                self.steps[-1].t_ns if self.steps else 0, totals, status=pipes.status, signal=pipes.signal
            ),
        )

    def _stdio_records(self, pipes: Pipes) -> Iterator[tuple[int, PendingRecord]]:
        last_lines = {step.dir: index for index, step in enumerate(self.steps) if step.kind == "line"}
        for index, step in enumerate(self.steps):
            if step.kind == "eof":
                records = pipes.end_pipe(step.dir)
                if step.code is not None:
                    records += pipes.end_server(step.code)
            else:
                records = pipes.feed(step.dir, step.raw if step.noeol else step.raw + b"\n")
                if last_lines[step.dir] == index:
                    # An incomplete line is recorded here, not at the end of the pipe, so that its errors are reported
                    # for this frame.
                    records += pipes.finish_line(step.dir)
            for record in records:
                yield index, record

    def _http_records(self, exchanges: Exchanges) -> Iterator[tuple[int, PendingRecord]]:
        latest_steps: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            exchanges.at_ns = step.t_ns
            latest_steps[step.exchange] = index
            for record in _step_records(exchanges, step):
                yield index, record
        for number, record in exchanges.finish():
            yield latest_steps[number], record

    def _endpoints(self) -> set[bytes]:
        """The paths at which the server speaks MCP; empty if no request shows them.

        With the older transport, this is the path of the stream. Traffic at other paths is recognised by its content.
        """
        requests = [(step.head, step.raw) for step in self.steps if isinstance(step.head, RequestHead)]
        if self.transport == "legacy-sse":
            return {path_of(head) for head, _ in requests if head.method == b"GET" and not is_metadata(head)}
        return {path_of(head) for head, body in requests if speaks_mcp(head, body)}


def _step_records(exchanges: Exchanges, step: Step) -> list[PendingRecord]:
    number = step.exchange
    if isinstance(step.head, RequestHead):
        return exchanges.add_request(number, step.head, step.raw, step.peer, lacks_body=step.lacks_body)
    if isinstance(step.head, ResponseHead):
        is_complete = step.kind == "res"
        return exchanges.add_response(number, step.head, step.raw, complete=is_complete, lacks_body=step.lacks_body)
    if step.kind == "sse":
        return exchanges.add_piece(number, step.raw)
    return exchanges.end_exchange(number, step.ended_by, is_cut=step.is_cut)
