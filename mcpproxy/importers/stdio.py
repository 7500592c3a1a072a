"""Converts the traffic on the three pipes of a stdio server into the records that its recorder would have written."""

import signal
from typing import Final, Literal

from captures.envelope import judge, judge_and_read_part
from captures.loss import PendingRecord
from captures.record import frame_members, members, part_members, stderr_members
from captures.verdict import UNJUDGED, Direction
from mcpproxy.wire.lines import LinePiece, LineSplitter

Pipe = Literal["c2s", "s2c", "stderr"]

MAX_STDERR_PIECE_BYTES: Final = 64 << 10
"""The length of the piece of a stderr line that one record contains."""


class Pipes:
    """Splits the bytes of the three pipes into lines, as the relay does, and counts them."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.signal: str | None = None
        self._lines = {"c2s": LineSplitter(), "s2c": LineSplitter(), "stderr": LineSplitter(MAX_STDERR_PIECE_BYTES)}
        self._bytes = dict.fromkeys(self._lines, 0)
        self._frames = {"c2s": 0, "s2c": 0}
        self._parts_size = {"c2s": 0, "s2c": 0}

    def feed(self, pipe: Pipe, data: bytes) -> list[PendingRecord]:
        """Add bytes; returns the records of all lines that they complete."""
        self._bytes[pipe] += len(data)
        return [record for piece in self._lines[pipe].feed(data) for record in self._piece_records(pipe, piece)]

    def finish_line(self, pipe: Pipe, *, is_partial: bool = False) -> list[PendingRecord]:
        """End an unfinished line; returns its records. `is_partial` says that the sender may have finished it."""
        return [
            record
            for piece in self._lines[pipe].finish()
            for record in self._piece_records(pipe, piece, whole=False, is_partial=is_partial)
        ]

    def add_line(self, pipe: Pipe, raw: bytes, *, is_whole: bool) -> list[PendingRecord]:
        """Add a line without its LF, or, unless `is_whole`, the beginning of one; returns its records."""
        if is_whole:
            return self.feed(pipe, raw + b"\n")
        return self.feed(pipe, raw) + self.finish_line(pipe, is_partial=True)

    def end_pipe(self, pipe: Pipe) -> list[PendingRecord]:
        """End a pipe that its sender closed; returns the records."""
        records = self.finish_line(pipe)
        if pipe != "stderr":
            records.append(PendingRecord("eof", members(dir=pipe, by="sender", bytes=self._bytes[pipe])))
        return records

    def end_server(self, code: int) -> list[PendingRecord]:
        """End the server; returns the record. A negative code is that of a signal, as in Python's `subprocess`."""
        if code < 0:
            self.signal = _signal_name(-code)
        else:
            self.status = code
        return [PendingRecord("process", members(event="ended", status=self.status, signal=self.signal))]

    def totals(self) -> dict[str, object]:
        """Returns the counts for the close record."""
        stderr_bytes = self._bytes["stderr"]
        sides = {side: {"frames": self._frames[side], "bytes": self._bytes[side]} for side in self._frames}
        return {**sides, "stderr": {"bytes": stderr_bytes, "recorded": stderr_bytes}}

    def _piece_records(
        self, pipe: Pipe, piece: LinePiece, *, whole: bool = True, is_partial: bool = False
    ) -> list[PendingRecord]:
        if pipe == "stderr":
            return [PendingRecord("stderr", stderr_members(piece.raw, delim=piece.delim, whole=whole))]
        return self._frame_records(pipe, piece, whole=whole, is_partial=is_partial)

    def _frame_records(
        self, side: Direction, piece: LinePiece, *, whole: bool, is_partial: bool
    ) -> list[PendingRecord]:
        raw, delim = piece.raw, piece.delim
        self._frames[side] += piece.is_last
        if not piece.part_number:
            verdict = judge_and_read_part(raw, side, "line")[0] if is_partial else judge(raw, side, whole=whole)
            middle = frame_members(side, raw, verdict, delim=delim, whole=whole, partial=is_partial)
            return [PendingRecord("frame", middle)]
        self._parts_size[side] += len(raw)
        records = [PendingRecord("part", part_members(side, piece.part_number, raw))]
        if piece.is_last:
            parts, self._parts_size[side] = (piece.part_number, self._parts_size[side]), 0
            middle = frame_members(side, b"", UNJUDGED, delim=delim, whole=whole, parts=parts, partial=is_partial)
            records.append(PendingRecord("frame", middle))
        return records


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
