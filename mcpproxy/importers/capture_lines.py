"""The records of one imported conversation, from its header to its close: numbered, stamped and sealed."""

import os
from typing import Final

from captures.record import MAX_LINE_BYTES, members, seal, use_orjson
from captures.versions import FORMAT_VERSION
from mcpproxy import __version__
from mcpproxy.importers.source import InvalidLine

MAX_STAMP_NS: Final = 1 << 62
"""In nanoseconds. All stamps are below this limit, so that calculations with them do not overflow."""


class CaptureLines:
    """Composes the lines of one capture. The caller supplies the stamps, which must not decrease."""

    def __init__(self) -> None:
        use_orjson()
        self._seq = 0

    def next_line(self, t_ns: int, rec: str, middle: bytes) -> bytes:
        """Returns the whole line of the next record.

        Raises:
            InvalidLine: the line is too long for readers to accept.
        """
        self._seq += 1
        line = seal(self._seq - 1, t_ns, rec, middle)
        if len(line) > MAX_LINE_BYTES:
            raise InvalidLine(
                f"too large: record {self._seq - 1} has {len(line):,} bytes; the limit is {MAX_LINE_BYTES:,}"
            )
        return line

    def header_line(
        self,
        form: str,
        transport: str,
        name: str,
        *,
        observed_start: bool = True,
        wall_ns: int | None = None,
        is_verbatim: bool = True,
    ) -> bytes:
        """Returns the header line.

        It leaves out what only a recorder knows: processes, clocks of this machine and, if unknown, the wall time.

        Args:
            form: the form of the log, as `--from` names it.
            transport: `stdio` or `http`.
            name: the name of the conversation.
            observed_start: whether the capture begins with the start of the conversation.
            wall_ns: the wall clock at stamp 0.
            is_verbatim: whether the frames are exactly the bytes that were sent.
        """
        middle = members(
            format=FORMAT_VERSION,
            capture=os.urandom(16).hex(),
            segment=1,
            transport=transport,
            name=name,
            observed_start=observed_start,
            wall_ns=wall_ns,
            tool=f"mcpproxy {__version__}",
            imported=form,
            verbatim=None if is_verbatim else False,
            redactions=[],
        )
        return self.next_line(0, "header", middle)

    def close_line(
        self, t_ns: int, totals: dict[str, object], *, status: int | None = None, signal: str | None = None
    ) -> bytes:
        """Returns the line of the close record."""
        totals = totals | {"lost": {"records": 0, "bytes": 0}}
        return self.next_line(t_ns, "close", members(ending="import", status=status, signal=signal, totals=totals))
