"""Checking: the worker process that reads captures and runs the rules (`worker.py`), and its results for each capture.

The first capture starts the worker, which then reads all of them; a thread receives its output. If the worker dies, the
captures that it was reading report this, and nothing else happens: the next capture starts another worker.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from analysis.child_process import PythonChild, as_json, from_json
from analysis.rules.finding import Finding, Level
from analysis.tally import Tally
from mcpproxy.tui.data.columns import batch_in
from mcpproxy.tui.data.conversation import as_number
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.reading import Reading


class _Job(NamedTuple):
    """A capture that is being read, and the worker that reads it."""

    findings: Findings
    worker: PythonChild
    reading: Reading | None
    """Receives the interpretation of its messages; None if only the findings are needed."""
    is_checked: bool
    """Whether the rules check it."""

    @property
    def is_busy(self) -> bool:
        """Whether the worker still has something to report, as far as this process knows."""
        findings, reading = self.findings, self.reading
        if findings.trouble:
            return False
        is_behind = reading is not None and reading.interpreted_count < len(reading.index)
        return is_behind or (self.is_checked and not (findings.has_caught_up or findings.has_ended))


class CaptureChecker:
    """Reads and checks captures in a process of its own."""

    def __init__(self, notify: Callable[[], None]) -> None:
        """Start without a worker; the first capture starts it.

        Args:
            notify: called from a thread when results have arrived, several times a second per capture.
        """
        self._notify = notify
        self._lock = threading.Lock()
        self._worker: PythonChild | None = None
        self._jobs: dict[int, _Job] = {}
        self._last_number = 0

    @property
    def pid(self) -> int | None:
        """The worker's pid, or None if none is running."""
        return self._worker.pid if self._worker is not None and self._worker.is_alive else None

    def read(self, reading: Reading, *, with_rules: bool = True) -> None:
        """Read a capture that is shown: from its beginning, and then as it grows.

        Args:
            reading: receives the interpretation of its messages, and the findings.
            with_rules: whether to check it.
        """
        self._send_job(reading.path, reading.findings, reading, with_rules=with_rules, most=reading.max_rows)

    def check(self, path: Path, findings: Findings, *, in_full: bool = True) -> None:
        """Check a capture that is not shown: from its beginning, and then as it grows.

        Args:
            path: the capture.
            findings: receives the findings.
            in_full: whether to report the findings, or only their number.
        """
        self._send_job(path, findings, None, in_full=in_full)

    def _send_job(self, path: Path, findings: Findings, reading: Reading | None, **options: int) -> None:
        with self._lock:
            self._last_number += 1
            request = {"n": self._last_number, "path": os.fsencode(path.absolute()).hex(), "wanted": options}
            try:
                if self._worker is None or not self._worker.is_alive:
                    self._worker = worker = PythonChild("mcpproxy.tui.data.worker")
                    worker.listen(self._on_message, lambda status, fault: self._on_worker_end(worker, status, fault))
                self._jobs[self._last_number] = _Job(
                    findings, self._worker, reading, bool(options.get("with_rules", 1))
                )
                self._worker.send(as_json(request))
            except OSError as error:
                findings.trouble = f"the process that reads captures cannot be started: {error.strerror}"

    def drop(self, findings: Findings) -> None:
        """Stop reading or checking the capture of these findings."""
        with self._lock:
            for number, job in list(self._jobs.items()):
                if job.findings is findings:
                    del self._jobs[number]
                    job.worker.send(as_json({"n": number}))

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            worker, self._worker = self._worker, None
            self._jobs.clear()
        if worker is not None:
            worker.close()

    # ---- in the thread that receives the worker's output

    def _on_worker_end(self, worker: PythonChild, status: int, fault: Exception | None) -> None:
        reason = exit_reason(status) if fault is None else f"its output is invalid ({type(fault).__name__})"
        with self._lock:
            unfinished_jobs = {number: job for number, job in self._jobs.items() if job.worker is worker}
            for number in unfinished_jobs:
                del self._jobs[number]
            self._worker = None if self._worker is worker else self._worker
        for job in unfinished_jobs.values():
            job.findings.trouble = f"the process that reads captures has ended: {reason}"
        if unfinished_jobs:
            self._notify()

    def _on_message(self, message: bytes) -> None:
        batch = batch_in(message)
        if batch is not None:
            job = self._jobs.get(batch.job)
            if job is not None and job.reading is not None:
                job.reading.on_batch(batch)
            return
        report: dict[str, Any] = from_json(message)
        job = self._jobs.get(report["n"])
        if job is None:
            return
        if job.reading is not None and "news" in report:
            job.reading.on_news(report["news"])
            return
        if "done" in report or "failed" in report:
            with self._lock:
                self._jobs.pop(report["n"], None)
        if apply_report(report, job.findings):
            self._notify()


def apply_report(report: dict[str, Any], findings: Findings) -> bool:
    """Process one of the worker's reports about the rules; returns whether the screen should be redrawn.

    Raises:
        LookupError, TypeError, ValueError: it is invalid.
    """
    if "found" in report:
        findings.add_finding(_valid_finding(Finding(*report["found"])))
        return False
    if "more" in report:
        rule, level, frame, count = report["more"]
        findings.add_count(str(rule), Level(level), as_number(frame), as_number(count))
        return False
    if "failed" in report:
        findings.trouble = str(report["failed"])
    elif "checked" in report:
        findings.tally, findings.faults = Tally(*map(as_number, report["tally"])), tuple(map(str, report["faults"]))
        findings.forgotten = tuple(map(str, report["forgotten"]))
        findings.checked_count, findings.has_caught_up = as_number(report["checked"]), bool(report["even"])
        findings.has_ended = bool(report["ended"])
    return True


def _valid_finding(finding: Finding) -> Finding:
    """Returns a reported finding with its members checked.

    Raises:
        TypeError, ValueError: it is invalid.
    """
    texts = finding.rule, finding.blames, finding.message, finding.pointer, finding.source, finding.method
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("not a valid finding")
    for number in (
        finding.session,
        finding.frame,
        finding.t_ns,
        finding.more,
        0 if finding.item is None else finding.item,
    ):
        as_number(number)
    return finding._replace(level=Level(finding.level), related=tuple(map(as_number, finding.related)))


def exit_reason(status: int) -> str:
    """Returns how a process has ended: by a signal or with a status."""
    if status < 0:
        with suppress(ValueError):
            return signal.Signals(-status).name
    return f"status {status}"


class FindingCounter:
    """Counts the findings of captures that are not open, one at a time: the selected capture, then the live ones."""

    def __init__(self, checking: CaptureChecker) -> None:
        self._checking = checking
        self._findings_by_path: dict[Path, Findings] = {}

    def findings(self, path: Path) -> Findings | None:
        """The findings of a capture that is being or has been counted, or None for any other."""
        return self._findings_by_path.get(path)

    def count_findings(self, live: list[Path], selected: Path | None) -> None:
        """Count the findings of the selected capture, then those of the live ones, one capture after another.

        Args:
            live: captures that are being recorded.
            selected: the selected capture, if its findings are unknown.
        """
        paths = [*([selected] if selected is not None else []), *live]
        for path in [
            path for path, findings in self._findings_by_path.items() if path not in paths and not _is_done(findings)
        ]:
            self._checking.drop(self._findings_by_path.pop(path))
        for path in paths:
            findings = self._findings_by_path.get(path)
            if findings is None:
                self._begin(path)
            if findings is None or not (findings.has_caught_up or _is_done(findings)):
                return

    def _begin(self, path: Path) -> None:
        self._findings_by_path[path] = findings = Findings()
        self._checking.check(path, findings, in_full=False)


def _is_done(findings: Findings) -> bool:
    return findings.has_ended or bool(findings.trouble)
