"""Builds a report of captures: each is read once for its rows and findings; the figures come from the database."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from analysis.store.open import Progress
from analysis.store.report_rows import CaptureRow, ReportRows
from captures.reader import Capture
from mcpproxy import __version__
from mcpproxy.check_run.examine import CaptureCheck, CheckOptions
from mcpproxy.check_run.result import CheckOutcome
from mcpproxy.html_report import limits
from mcpproxy.html_report.blocks import Payloads, packed, plain
from mcpproxy.html_report.logins import ReportLogins
from mcpproxy.html_report.overview import overview
from mcpproxy.html_report.page import REPORT, pieces
from mcpproxy.html_report.proof import ReportFindings
from mcpproxy.html_report.traffic import CaptureTraffic, Traffic
from mcpproxy.html_report.turns import ReportTurns
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration, nanoseconds, size, utc

_NS: Final = 1_000


class HtmlReport:
    """A report of captures."""

    def __init__(self, rows: ReportRows, progress: Progress, frames: int = limits.MAX_FRAMES) -> None:
        """Read all captures.

        Args:
            rows: the rows of all captures of the report.
            progress: called with the number of frames read, and their total.
            frames: the maximum number of frames, of all captures together, that get a row in the traffic.

        Raises:
            CaptureError: a capture cannot be read.
        """
        self.captures = rows.captures()
        self.outcomes: list[CheckOutcome] = []
        """The outcome of the check of each capture."""
        self.redacted_flags: list[bool] = []
        """For each capture, whether it is a redacted copy."""
        self.omissions: list[str] = []
        sizes = rows.frame_sizes()
        payload_limit = min(limits.MAX_BYTES_PER_PAYLOAD, limits.largest_cut(sizes, limits.MAX_PAYLOAD_BYTES))
        self._max_capture_frames = limits.largest_cut(sorted((capture.frames, 1) for capture in self.captures), frames)
        self._payloads = Payloads()
        self._traffic = Traffic(self._payloads, payload_limit)
        self._findings = ReportFindings(self._traffic)
        self._logins = ReportLogins()
        self._turns = ReportTurns()
        self._progress = progress
        self._read_count = 0
        self.frames = sum(capture.frames for capture in self.captures)
        last_records = [self._read_capture(number, capture) for number, capture in enumerate(self.captures)]
        self._calls = _calls(rows, self.captures, last_records)
        self._stderr = _stderr(rows, self.captures)
        self._overview = overview(rows, self.captures, self.redacted_flags) | self._logins.failures()
        self._overview["figures"] += self._logins.figures() + self._turns.figures()
        self._note_omissions(payload_limit, sizes, rows)

    @property
    def title(self) -> str:
        """The title, with the names of up to three servers."""
        names = list(dict.fromkeys(sanitise(capture.name, 60) for capture in self.captures if capture.name))
        suffix = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{', '.join(names[:3])}{suffix} – mcpproxy report" if names else "mcpproxy report"

    def pieces(self) -> Iterator[str]:
        """Yields the file, piece by piece."""
        traffic = self._traffic
        overview_members = {
            **self._overview,
            "title": self.title.removesuffix(" – mcpproxy report"),
            "made": utc(time.time_ns())[:19].replace("T", " ") + " UTC",
            "version": __version__,
            "levels": dict(self._findings.levels),
            "findings": self._findings.as_objects(),
            "nothing": self._nothing_to_check(),
            "left_out": self.omissions,
            "rows": len(traffic),
            "payloads": {"starts": self._payloads.starts, "count": self._payloads.count, "cut": traffic.cut},
        }
        other_blocks = (
            packed("data-traffic", {"rows": traffic.columns, "heads": traffic.heads}),
            packed("data-calls", self._calls),
            packed("data-stderr", self._stderr),
            packed("data-turns", self._turns.as_object()),
        )
        first_block = plain("data-overview", overview_members)
        yield from pieces(REPORT, self.title, first_block, (*other_blocks, *self._payloads.elements()))

    def _nothing_to_check(self) -> str:
        """Why the absence of findings proves nothing; empty if it proves something, or if there are findings."""
        reasons = list(dict.fromkeys(outcome.nothing_reason for outcome in self.outcomes))
        return "" if self.finding_count or "" in reasons else "; ".join(reasons)

    @property
    def finding_count(self) -> int:
        """How many findings there are."""
        return sum(self._findings.levels.values())

    def _read_capture(self, number: int, row: CaptureRow) -> int:
        """Read one capture; returns the number of the last record that has a row."""
        path = Path(row.path)
        self._findings.begin_capture()
        capture = Capture(path)
        self.redacted_flags.append("redacted_by" in capture.header.members)
        examination = CaptureCheck(path, CheckOptions())
        traffic = CaptureTraffic(self._traffic, number, examination.fold)
        self._turns.begin_capture(number, row.name or path.name, row.opened_ns, examination.fold)
        # Other records may follow the last frame: how the streams, the server and the capture ended.
        is_whole = row.frames <= self._max_capture_frames
        for step, findings in examination.examine_to_end():
            # Rows come first, because a finding is noted in the row of its frame.
            if step.end is not None:
                traffic.finish(step, is_whole=is_whole)
            elif is_whole or traffic.frame_count < self._max_capture_frames:
                traffic.on_step(step)
            self._turns.on_step(step.changed, step.end)
            for located in findings:
                self._findings.add_finding(number, located, examination)
            self._read_count += step.record is not None
            if not self._read_count % 1000:
                self._progress(min(self._read_count, self.frames), self.frames)
        self._logins.add_capture(number, examination.fold.logins)
        self._findings.finish_capture(examination.outcome)
        self.outcomes.append(examination.outcome)
        if traffic.frame_count < row.frames:
            omitted_count = row.frames - traffic.frame_count
            suffix = f" of {sanitise(path.name)}" if len(self.captures) > 1 else ""
            self.omissions.append(
                f"The traffic table has the first {traffic.frame_count:,} frames{suffix}; "
                f"{omitted_count:,} are left out."
            )
        return traffic.last_record

    def _note_omissions(self, payload_limit: int, sizes: Sequence[tuple[int, int]], rows: ReportRows) -> None:
        cut_sizes = [(frame_size, count) for frame_size, count in sizes if frame_size > payload_limit]
        if cut_sizes:
            count, lost_bytes = (
                sum(count for _, count in cut_sizes),
                sum((frame_size - payload_limit) * count for frame_size, count in cut_sizes),
            )
            self.omissions.append(
                f"{count_text(count, 'payload')} {'is' if count == 1 else 'are'} cut after {size(payload_limit)}, "
                f"leaving out {size(lost_bytes)}; `mcpproxy show CAPTURE --frame N` prints all of it."
            )
        if self._traffic.omitted_leg_count:
            self.omissions.append(
                f"The traffic table has the first {limits.MAX_LEGS:,} requests of logins; "
                f"{self._traffic.omitted_leg_count:,} are left out; `mcpproxy show CAPTURE --unfold` prints them."
            )
        self.omissions += self._turns.omissions()
        line_count = rows.stderr_line_count()
        if line_count > limits.MAX_STDERR_LINES:
            self.omissions.append(f"stderr has the first {limits.MAX_STDERR_LINES:,} of {line_count:,} lines.")


def _calls(rows: ReportRows, captures: Sequence[CaptureRow], last_records: Sequence[int]) -> dict[str, list[Any]]:
    """Returns, by column, the requests whose frames have rows."""
    names = (
        *("capture", "session", "request", "response", "by", "method", "name", "state", "bad", "from", "to"),
        *("took_ns", "late"),
    )
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number, capture in enumerate(captures):
        for call in rows.calls(capture.id, last_records[number], limits.MAX_FRAMES):
            state = "abandoned" if call.is_abandoned else call.state
            late_text = "" if call.late_ms is None else f"{duration(nanoseconds(call.late_ms))} late"
            values = (
                *(number, call.session or 0, call.request, -1 if call.response is None else call.response),
                *(call.asked_by, sanitise(call.method, 80), sanitise(call.name, 80) if call.name else ""),
                *(state, call.is_error, call.started_ns // _NS, call.until_ns // _NS),
                *(call.until_ns - call.started_ns, late_text),
            )
            for name, value in zip(names, values, strict=True):
                columns[name].append(value)
    return columns


def _stderr(rows: ReportRows, captures: Sequence[CaptureRow]) -> dict[str, list[Any]]:
    """Returns the lines of stderr, by column."""
    refs = {capture.id: number for number, capture in enumerate(captures)}
    lines = rows.stderr(limits.MAX_STDERR_LINES, limits.MAX_STDERR_CHARACTERS)
    return {
        "capture": [refs[line.capture] for line in lines],
        "seq": [line.seq for line in lines],
        "t": [line.t_ns // _NS for line in lines],
        "text": [sanitise(line.line.rstrip("\r\n"), limits.MAX_STDERR_CHARACTERS) for line in lines],
    }
