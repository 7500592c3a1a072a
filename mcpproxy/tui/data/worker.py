"""Worker: the process that interprets captures and runs the rules, so that the screen never waits for either.

`checking.py` starts it and sends it the captures to read. It follows captures that grow, and reports the meaning of
their messages as binary batches (`columns.py`), the findings of the rules, and its progress. The meaning comes first;
the rules have a separate pass over a large capture, and over one that grows faster than they can check it. The meaning
of a large closed capture is cached, and sent again when that capture is opened again; the findings come from the list
that SQL uses, too (`analysis.store.finding_list`). The worker ends when the screen does, even if the screen was
killed with `kill -9`. It runs at low priority (nice), and writes nothing but these results and the tallies of captures,
all of them in the cache.

If a capture has more findings than a person can read, most of them are reported without text, by rule and frame only.
"""

import gc
import os
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from analysis.checking.checker import RuleSelection
from analysis.child_process import Parent, as_json, from_json
from analysis.output_cache import OutputCache
from analysis.reading import Reading, Step
from analysis.rules.finding import Finding
from analysis.store.finding_list import Conclusion, FindingList, conclusion_of, listed_findings
from analysis.tally import Tally, key_of, save
from captures.errors import CaptureError
from captures.file import is_live
from captures.listing import segments
from captures.tail import Tail
from mcpproxy.tui.data.columns import Batch, renumbered
from mcpproxy.tui.data.interpreting import Interpreter
from mcpproxy.tui.data.output_caches import cache_of, is_cached
from mcpproxy.tui.data.worker_start import start_worker

STEP_BYTES: Final = 64 << 10
"""How many bytes are read per step: about 20 ms."""
REPORT_INTERVAL_S: Final = 0.25
"""Seconds between progress reports while a check lags behind; longer than a poll, so that a single new entry causes a
report only once it has been checked."""
POLL_INTERVAL_S: Final = 0.05
MAX_LAG_S: Final = 0.25
"""How long the meaning of a live capture's messages may wait for the rules."""
LISTED_PER_STEP: Final = 1000
"""How many findings of the list are sent per step."""
MAX_TEXTS_PER_CAPTURE: Final = 10_000
"""How many findings of a capture are reported with their text."""
MIN_TEXTS_PER_RULE: Final = 50
"""How many findings of each rule are always reported with their text, regardless of how many came before."""
MAX_SENT_TEXT_CHARS: Final = 1000
"""The maximum length of a text, in characters."""
MAX_RELATED: Final = 20
"""The maximum number of related records that are reported with a finding."""

MessageSender = Callable[[bytes], None]


class ColumnSender:
    """Fills the columns of a capture, which contain the meaning of its messages, and sends the changes."""

    def __init__(self, number: int, source: "CapturePass", send_message: MessageSender, max_rows: int) -> None:
        """Start with nothing sent.

        Args:
            number: identifies the capture in all messages.
            source: the pass that reads and interprets it.
            send_message: sends a message.
            max_rows: the maximum number of rows to report.
        """
        self._number, self._tail, self._send_message = number, source.tail, send_message
        self._interpreter = Interpreter(source.reading, max_rows)

    def on_step(self, step: Step) -> None:
        """Process the next step of the reading."""
        self._interpreter.on_step(step)

    def send(self, *, has_ended: bool = False) -> None:
        """Send the changes."""
        for news in self._interpreter.take_changes(self._number, self._tail.read_bytes, has_ended=has_ended):
            self._send_message(news.message if isinstance(news, Batch) else as_json({"n": self._number, "news": news}))


class FindingSender:
    """Sends the findings of the rules in a capture, and their progress."""

    def __init__(self, number: int, path: Path, send_message: MessageSender, *, in_full: bool) -> None:
        """Start with nothing sent.

        Args:
            number: identifies the capture in all messages.
            path: the capture.
            send_message: sends a message.
            in_full: whether to report the findings, or only their number.
        """
        self._number, self._path, self._key, self._send_message, self._in_full = (
            number,
            path,
            key_of(path),
            send_message,
            in_full,
        )
        self._sent_count = self._checked_count = 0
        """How many findings were sent, and how many entries were checked, in this pass or an earlier one."""
        self._reset()

    def _reset(self) -> None:
        self._entry_count = self._finding_count = 0
        self._tally = Tally()
        self._text_count = 0
        self._rule_counts: Counter[str] = Counter()
        self._reported_s = 0.0
        self._reported_entries = -1
        """The number of entries in the last report if the check had caught up; -1 if it had not."""

    def restart(self) -> None:
        """Prepare to read the same capture again; findings that have been sent are not sent again."""
        self._checked_count = self._entry_count
        self._reset()

    def on_step(self, step: Step) -> None:
        """Process the next step of the reading."""
        for finding in step.findings:
            self.on_finding(finding)
        if step.findings and step.item is None:
            self._reported_entries = -1  # time alone has made them certain
        self._entry_count += step.item is not None

    def send(self, reading: Reading, *, has_caught_up: bool, has_ended: bool) -> None:
        """Send the progress, if a report is due."""
        self.send_conclusion(
            conclusion_of(reading, self._entry_count), has_caught_up=has_caught_up, has_ended=has_ended
        )

    def send_conclusion(self, conclusion: Conclusion, *, has_caught_up: bool = True, has_ended: bool = True) -> None:
        """Send what is known so far besides the findings, if a report is due; at the end, one is always due."""
        now, self._entry_count = time.monotonic(), conclusion.entry_count
        if has_ended:
            # A live capture has no cache key before it has ended, and no cache file is written for it afterwards.
            key = self._key or key_of(self._path)
            if key is not None:
                save(self._path, key, self._tally)
        if has_ended or (has_caught_up and self._reported_entries != self._entry_count):
            self._reported_entries = self._entry_count
        elif has_caught_up or now - self._reported_s < REPORT_INTERVAL_S:
            self._reported_s = now if has_caught_up else self._reported_s
            return
        else:
            self._reported_entries = -1
        self._reported_s = now
        report = {
            "n": self._number,
            "checked": max(self._entry_count, self._checked_count),
            "even": has_caught_up,
            "ended": has_ended,
            "tally": self._tally,
            "faults": conclusion.faults,
            "forgotten": conclusion.forgotten,
        }
        self._send_message(as_json(report))

    def on_finding(self, finding: Finding) -> None:
        """Send a finding, unless it was sent in an earlier pass."""
        self._tally = self._tally.plus(finding.level, finding.finding_count)
        if not self._in_full:
            return
        self._finding_count += 1
        self._rule_counts[finding.rule] += 1
        has_text = self._text_count < MAX_TEXTS_PER_CAPTURE or self._rule_counts[finding.rule] <= MIN_TEXTS_PER_RULE
        self._text_count += has_text
        if self._finding_count <= self._sent_count:
            return
        self._sent_count = self._finding_count
        if has_text:
            short_finding = finding._replace(
                message=finding.message[:MAX_SENT_TEXT_CHARS],
                pointer=finding.pointer[:MAX_SENT_TEXT_CHARS],
                method=finding.method[:MAX_SENT_TEXT_CHARS],
                related=finding.related[:MAX_RELATED],
            )
            report: dict[str, Any] = {"found": short_finding}
        else:
            report = {"more": [finding.rule, finding.level, finding.frame, finding.finding_count]}
        self._send_message(as_json({"n": self._number, **report}))


class CapturePass:
    """Reads a capture once, and then follows it, to interpret its messages, to run the rules, or both."""

    def __init__(self, path: Path, *, with_rules: bool) -> None:
        """Open the capture.

        Args:
            path: the capture.
            with_rules: whether the rules judge it.

        Raises:
            NotACapture, NewerFormat: as for `Capture`.
        """
        self.tail = Tail(path)
        self.reading = Reading(rules=RuleSelection() if with_rules else None)
        self.column_sender: ColumnSender | None = None
        self.finding_sender: FindingSender | None = None
        self.output: OutputCache | None = None
        """The output, which is cached once all of it has been sent; None if it is not cached."""
        self.finding_list: FindingList | None = None
        """The list of findings, which is kept at the end; None if the rules do not judge the whole capture."""
        self.has_ended = False

    @property
    def is_urgent(self) -> bool:
        """Whether this pass interprets the messages."""
        return self.column_sender is not None

    def step(self) -> bool:
        """Read a little more; returns False if there is nothing more yet."""
        items = self.tail.step(STEP_BYTES)
        for item in items:
            self._on_step(self.reading.feed(item))
        if self.tail.has_ended:
            self._finish()
        has_caught_up = self.tail.is_at_end or self.has_ended
        is_waiting = has_caught_up and not self.has_ended and self.reading.undecided_login_count > 0
        if is_waiting and is_live(self.tail.segments[-1]):
            self._on_step(Step(None, None, findings=self.reading.findings_by_clock()))
        if self.column_sender is not None:
            self.column_sender.send(has_ended=self.has_ended)
        if self.finding_sender is not None:
            self.finding_sender.send(self.reading, has_caught_up=has_caught_up, has_ended=self.has_ended)
        return bool(items) or not has_caught_up

    def close(self) -> None:
        """Close the file."""
        self.tail.close()

    def _on_step(self, step: Step) -> None:
        if self.column_sender is not None:
            self.column_sender.on_step(step)
        if self.finding_sender is not None:
            self.finding_sender.on_step(step)
        if self.finding_list is not None:
            self.finding_list.on_step(step)

    def _finish(self) -> None:
        for step in self.reading.finish():
            self._on_step(step)
        if self.finding_list is not None:
            self.finding_list.save(self.reading)
        self.has_ended = True


class CachedPass:
    """Sends the meaning of a capture's messages again, from the cached output of an earlier pass."""

    is_urgent = True

    def __init__(self, number: int, messages: Iterator[bytes], send_message: MessageSender) -> None:
        """Start with nothing sent.

        Args:
            number: identifies the capture in all messages.
            messages: the messages of the earlier pass, with any number.
            send_message: sends a message.
        """
        self._number, self._messages, self._send_message = number, messages, send_message
        self.has_ended = False

    def step(self) -> bool:
        """Send a little more.

        Raises:
            ValueError, zlib.error: the cached file was forged.
        """
        size = 0
        for message in self._messages:
            self._send_message(renumbered(message, self._number))
            size += len(message)
            if size >= STEP_BYTES:
                return True
        self.has_ended = True
        return True

    def close(self) -> None:
        """Stop sending."""
        self._messages = iter(())


class ListedPass:
    """Sends the findings of a capture from the list in the cache."""

    is_urgent = False

    def __init__(self, entries: Iterator[Finding | Conclusion], sender: FindingSender) -> None:
        """Start with nothing sent.

        Args:
            entries: the findings, and then the conclusion.
            sender: sends them.
        """
        self._entries, self._sender = entries, sender
        self.has_ended = False

    def step(self) -> bool:
        """Send a little more.

        Raises:
            LookupError, TypeError, ValueError, zlib.error: the list was forged.
        """
        for entry in islice(self._entries, LISTED_PER_STEP):
            if isinstance(entry, Conclusion):
                self._sender.send_conclusion(entry)
                self.has_ended = True
            else:
                self._sender.on_finding(entry)
        return True

    def close(self) -> None:
        """Stop sending."""
        self._entries = iter(())


class ReadingTask:
    """Reads one capture, in one pass or in two."""

    def __init__(
        self,
        number: int,
        path: Path,
        send_message: MessageSender,
        *,
        most: int = 0,
        with_rules: bool = True,
        in_full: bool = True,
    ) -> None:
        """Open the capture.

        Args:
            number: identifies it in all messages.
            path: the capture.
            send_message: sends a message; several in a row may be sent together.
            most: the maximum number of rows whose meaning is sent.
            with_rules: whether to send the findings of the rules.
            in_full: whether to report the findings, or only their number.

        Raises:
            NotACapture, NewerFormat: as for `Capture`.
        """
        self.number, self.is_shown = number, most > 0
        self._path, self._send_message = path, send_message
        self._is_live = is_live(segments(path)[-1])
        self._behind_since: float | None = None
        """When the shared pass began to lag behind the capture; None if it has caught up."""
        self._passes: list[CapturePass | CachedPass | ListedPass] = []
        finding_sender = FindingSender(number, path, send_message, in_full=in_full) if with_rules else None
        entries = listed_findings(path) if with_rules else None
        if entries is not None and finding_sender is not None:
            self._passes.append(ListedPass(entries, finding_sender))
            finding_sender = None
        if self.is_shown and is_cached(path):
            self._add_meaning_pass(most)
        elif self.is_shown:
            self._add_capture_pass(finding_sender, max_rows=most)
            return
        if finding_sender is not None:
            self._add_capture_pass(finding_sender)

    def _add_meaning_pass(self, max_rows: int) -> None:
        """Add a pass over a large closed capture for the meaning of its messages; from the cache if it is cached."""
        output = cache_of(self._path, "meaning", max_rows)
        messages = output.cached()
        if messages is not None:
            self._passes.append(CachedPass(self.number, messages, self._send_message))
            return

        def cache_and_send(message: bytes) -> None:
            output.add(message)
            self._send_message(message)

        new_pass = CapturePass(self._path, with_rules=False)
        new_pass.output = output
        new_pass.column_sender = ColumnSender(self.number, new_pass, cache_and_send, max_rows)
        self._passes.append(new_pass)

    def _add_capture_pass(self, finding_sender: FindingSender | None, max_rows: int = 0) -> None:
        """Add a pass over the capture: for the findings, for the meaning of up to so many rows, or for both."""
        new_pass = CapturePass(self._path, with_rules=finding_sender is not None)
        new_pass.finding_sender = finding_sender
        if finding_sender is not None:
            new_pass.finding_list = FindingList(self._path)
        if max_rows:
            new_pass.column_sender = ColumnSender(self.number, new_pass, self._send_message, max_rows)
        self._passes.append(new_pass)

    @property
    def unfinished_passes(self) -> int:
        """How many passes have not ended."""
        return len(self._passes)

    @property
    def has_ended(self) -> bool:
        """Whether everything has been sent."""
        return not self._passes

    def step(self, *, is_urgent: bool) -> bool:
        """Do a little more; returns False if there is nothing to do yet.

        Args:
            is_urgent: True to interpret messages; False to run the rules, if they have a separate pass.
        """
        current_pass = next((candidate for candidate in self._passes if candidate.is_urgent == is_urgent), None)
        if current_pass is None:
            return False
        is_busy = current_pass.step()
        if current_pass.has_ended:
            current_pass.close()
            self._passes.remove(current_pass)
            if isinstance(current_pass, CapturePass) and current_pass.output is not None:
                current_pass.output.save()
            return True
        if (
            isinstance(current_pass, CapturePass)
            and current_pass.column_sender is not None
            and current_pass.finding_sender is not None
            and self._is_live
        ):
            self._separate_slow_rules(current_pass, is_busy=is_busy)
        return is_busy

    def close(self) -> None:
        """Close the files."""
        for open_pass in self._passes:
            open_pass.close()

    def _separate_slow_rules(self, shared_pass: CapturePass, *, is_busy: bool) -> None:
        """Give the rules a separate pass if they delay the meaning of messages for too long."""
        now = time.monotonic()
        if not is_busy:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = now
        elif now - self._behind_since > MAX_LAG_S and shared_pass.finding_sender is not None:
            rules_pass = CapturePass(self._path, with_rules=True)
            rules_pass.finding_sender, shared_pass.finding_sender = shared_pass.finding_sender, None
            rules_pass.finding_sender.restart()
            shared_pass.reading.drop_rules()
            self._passes.append(rules_pass)


def main() -> None:
    """Read captures on request until stdin ends."""
    parent, requests = start_worker()
    tasks: dict[int, ReadingTask] = {}
    while True:
        is_busy = _run_step(parent, tasks)
        parent.flush()
        with suppress(queue.Empty):
            request = requests.get(timeout=0 if is_busy else POLL_INTERVAL_S if tasks else None)
            while True:
                _handle_request(parent, from_json(request), tasks)
                request = requests.get_nowait()


def _handle_request(parent: Parent, request: dict[str, Any], tasks: dict[int, ReadingTask]) -> None:
    number = request["n"]
    if "path" not in request:
        task = tasks.pop(number, None)
        if task is not None:
            task.close()
        return
    path, options = Path(os.fsdecode(bytes.fromhex(request["path"]))), request["wanted"]
    try:
        tasks[number] = ReadingTask(number, path, parent.send_later, **options)
    except CaptureError as error:
        _report_failure(parent, number, str(error))


def _run_step(parent: Parent, tasks: dict[int, ReadingTask]) -> bool:
    """Run a step of the first task that has work; returns False if no task has any.

    All tasks interpret messages before any task runs the rules. Captures that are shown come before captures whose
    findings are only counted; otherwise, the tasks keep their order of arrival.
    """
    for is_urgent in (True, False):
        for task in sorted(tasks.values(), key=lambda task: (not task.is_shown, task.number)):
            passes_before = task.unfinished_passes
            try:
                is_busy = task.step(is_urgent=is_urgent)
            except Exception as error:  # noqa: BLE001 - a capture that cannot be read must not stop the others
                task.close()
                del tasks[task.number]
                _report_failure(parent, task.number, f"{type(error).__name__}: {error}"[:MAX_SENT_TEXT_CHARS])
                return True
            if task.unfinished_passes < passes_before:
                gc.collect()  # the data of a pass is in reference cycles, and the next pass needs as much memory
            if task.has_ended:
                del tasks[task.number]
                parent.send_later(as_json({"n": task.number, "done": True}))
                return True
            if is_busy:
                return True
    return False


def _report_failure(parent: Parent, number: int, reason: str) -> None:
    parent.send_later(as_json({"n": number, "failed": reason}))
