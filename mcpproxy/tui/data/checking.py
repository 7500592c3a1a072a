"""Checking: the worker process that runs the rules (`worker.py`), and its results for each capture.

The first check starts the worker, which then checks all captures; a thread receives its output. If the worker dies, the
captures that it was checking report this, and nothing else happens: the next check starts another worker.
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
from mcpproxy.tui.data.findings import Findings


class _Job(NamedTuple):
    """A capture that is being checked, and the worker that checks it."""

    findings: Findings
    worker: PythonChild


class Checking:
    """Checks captures in a process of its own."""

    def __init__(self, notify: Callable[[], None]) -> None:
        """Nothing is started yet.

        Args:
            notify: called from a thread when there is news, several times a second per capture.
        """
        self._notify = notify
        self._lock = threading.Lock()
        self._worker: PythonChild | None = None
        self._jobs: dict[int, _Job] = {}
        self._number = 0

    @property
    def pid(self) -> int | None:
        """The worker's pid; None if none is running."""
        return self._worker.pid if self._worker is not None and self._worker.is_alive else None

    def check(self, path: Path, findings: Findings, *, in_full: bool = True) -> None:
        """Check a capture from its beginning, and follow it.

        Args:
            path: the capture.
            findings: receives the findings.
            in_full: whether to report the findings, or only their number.
        """
        with self._lock:
            self._number += 1
            order = {"n": self._number, "path": os.fsencode(path.absolute()).hex(), "in_full": in_full}
            try:
                if self._worker is None or not self._worker.is_alive:
                    self._worker = worker = PythonChild("mcpproxy.tui.data.worker")
                    worker.listen(self._take, lambda status, fault: self._ended(worker, status, fault))
                self._jobs[self._number] = _Job(findings, self._worker)
                self._worker.send(as_json(order))
            except OSError as error:
                findings.trouble = f"the process that runs the rules cannot be started: {error.strerror}"

    def drop(self, findings: Findings) -> None:
        """Stop checking a capture."""
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

    # ---- in the thread

    def _ended(self, worker: PythonChild, status: int, fault: Exception | None) -> None:
        why = _ending(status) if fault is None else f"its output is invalid ({type(fault).__name__})"
        with self._lock:
            unfinished = {number: job for number, job in self._jobs.items() if job.worker is worker}
            for number in unfinished:
                del self._jobs[number]
            self._worker = None if self._worker is worker else self._worker
        for job in unfinished.values():
            job.findings.trouble = f"the process that runs the rules has ended: {why}"
        if unfinished:
            self._notify()

    def _take(self, message: bytes) -> None:
        report: dict[str, Any] = from_json(message)
        job = self._jobs.get(report["n"])
        if job is None:
            return
        findings = job.findings
        if "found" in report:
            finding = Finding(*report["found"])
            findings.take(finding._replace(level=Level(finding.level), related=tuple(finding.related)))
        elif "more" in report:
            rule, level, frame, count = report["more"]
            findings.take_more(rule, Level(level), frame, count)
        else:
            if "failed" in report:
                findings.trouble = report["failed"]
            else:
                findings.tally, findings.faults = Tally(*report["tally"]), tuple(report["faults"])
                findings.forgotten = tuple(map(str, report["forgotten"]))
                findings.checked, findings.has_caught_up = report["checked"], report["even"]
                findings.has_ended = report["ended"]
            if "failed" in report or findings.has_ended:
                with self._lock:
                    self._jobs.pop(report["n"], None)
            self._notify()


def _ending(status: int) -> str:
    if status < 0:
        with suppress(ValueError):
            return signal.Signals(-status).name
    return f"status {status}"


class Counting:
    """Counts the findings of captures that are not open, one at a time: the selected capture, then the live ones."""

    def __init__(self, checking: Checking) -> None:
        self._checking = checking
        self._counted: dict[Path, Findings] = {}

    def findings(self, path: Path) -> Findings | None:
        """The findings of a capture that is or was counted here; None for any other."""
        return self._counted.get(path)

    def want(self, live: list[Path], chosen: Path | None) -> None:
        """Count the selected capture, then the live ones, one after another.

        Args:
            live: captures that are being recorded.
            chosen: the selected capture, if its findings are unknown.
        """
        paths = [*([chosen] if chosen is not None else []), *live]
        for path in [path for path, findings in self._counted.items() if path not in paths and not _is_done(findings)]:
            self._checking.drop(self._counted.pop(path))
        for path in paths:
            findings = self._counted.get(path)
            if findings is None:
                self._begin(path)
            if findings is None or not (findings.has_caught_up or _is_done(findings)):
                return

    def _begin(self, path: Path) -> None:
        self._counted[path] = findings = Findings()
        self._checking.check(path, findings, in_full=False)


def _is_done(findings: Findings) -> bool:
    return findings.has_ended or bool(findings.trouble)
