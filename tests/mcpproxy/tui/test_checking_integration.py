"""The worker finds what `check` finds, may fall behind or die without harm, and never outlives the screen."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analysis.clock import MAX_WRITING_NS
from analysis.conversation.login import GIVEN_UP_NS
from analysis.rules.finding import Finding, Level
from analysis.tally import Tally, cached
from captures.file import CaptureFile
from captures.frame import Frame
from captures.record import seal
from mcpproxy.check_run.examine import CaptureCheck, CheckOptions
from mcpproxy.tui.data.checking import CaptureChecker, FindingCounter
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.reading import Reading
from tests.captures.samples import lines
from tests.harness import wait_until
from tests.mcpproxy.cli.test_check_logins_integration import recorded
from tests.mcpproxy.tui.stage import END, FINE, captured, conversation, frame_record, record
from tests.mcpproxy.tui.test_checking import read

NOISE = b"Loaded %d plugins"


@contextmanager
def checking() -> Iterator[CaptureChecker]:
    made = CaptureChecker(lambda: None)
    try:
        yield made
    finally:
        made.close()


def examined(path: Path) -> list[Finding]:
    """What `check` finds."""
    examination = CaptureCheck(path, CheckOptions())
    return [located.finding for _, found in examination.examine_to_end() for located in found]


def noisy(folder: Path, count: int) -> Path:
    """A capture in which `count` lines are not messages."""
    noise = [frame_record("s2c", NOISE % n) for n in range(count)]
    return record(folder / "noisy" / "a.mcpcap", [*conversation(2), *noise, END])


def test_it_finds_what_check_finds(tmp_path: Path) -> None:
    path = noisy(tmp_path, 30)
    reading = read(path)
    with checking() as made:
        made.check(path, reading.findings)
        wait_until(lambda: reading.findings.has_ended)
    findings = reading.findings
    assert findings.kept_findings == examined(path)
    assert len(findings) == sum(findings.counts.values()) == len(findings.kept_findings)
    assert findings.checked_count == len(reading.index)
    for finding in findings.kept_findings:
        row = findings.row(finding)
        assert row is not None
        assert finding in findings.findings_at(row)
        assert finding.rule in findings.rules_at(row)
        assert (findings.worst_level_and_count(row)[0] or 0) >= finding.level
    assert sum(findings.worst_level_and_count(row)[1] for row in range(len(reading.index))) == len(findings)
    assert cached(path) == findings.tally
    reading.close()


def test_wrong_rows_are_found_forwards_and_backwards(tmp_path: Path) -> None:
    path = noisy(tmp_path, 3)
    reading = read(path)
    with checking() as made:
        made.check(path, reading.findings)
        wait_until(lambda: reading.findings.has_ended)
    findings = reading.findings
    wrong = [row for row in range(len(reading.index)) if (findings.worst_level_and_count(row)[0] or 0) >= Level.WARNING]
    assert wrong
    seen, row = [], findings.next_serious_row(-1, 1)
    while row is not None:
        seen.append(row)
        row = findings.next_serious_row(row, 1)
    assert seen == wrong
    seen, row = [], findings.next_serious_row(len(reading.index), -1)
    while row is not None:
        seen.append(row)
        row = findings.next_serious_row(row, -1)
    assert seen == wrong[::-1]
    reading.close()


@pytest.mark.costly("the rules judge 12,000 messages, and the texts of 10,000 findings come over")
def test_twelve_thousand_findings_are_counted_and_not_kept(tmp_path: Path) -> None:
    # The last finding is the first of its rule: its text is kept all the same.
    batch = b"[" + b",".join([b'{"jsonrpc":"2.0","id":12345,"result":{}}'] * 10) + b"]"
    noise = [frame_record("s2c", batch) for _ in range(1_200)]
    path = record(tmp_path / "noisy" / "a.mcpcap", [*conversation(2), *noise, frame_record("s2c", NOISE % 1), END])
    reading = read(path)
    with checking() as made:
        made.check(path, reading.findings)
        wait_until(lambda: reading.findings.has_ended)
    findings = reading.findings
    assert len(findings) >= 12_000
    assert sum(findings.counts.values()) == len(findings)
    assert len(findings.kept_findings) < 11_000
    assert "framing/stdout-not-json" in {finding.rule for finding in findings.kept_findings}
    row = len(reading.index) - 2
    assert "framing/stdout-not-json" in findings.rules_at(row)
    assert findings.worst_level_and_count(row) == (Level.ERROR, 1)
    marked = sum(findings.worst_level_and_count(row)[1] for row in range(len(reading.index)))
    assert marked == len(findings)
    reading.close()


def test_a_live_capture_is_followed_and_what_is_found_late_stands_where_it_happened(tmp_path: Path) -> None:
    path = tmp_path / "live.mcpcap"
    live = CaptureFile(path)
    known = lines(conversation(3))
    for line in known:
        live.append(line)
    reading = read(path)
    findings = reading.findings
    with checking() as made:
        made.check(path, findings)
        wait_until(lambda: findings.has_caught_up and findings.checked_count == len(known))
        before = len(findings)
        assert not findings.has_ended
        live.append(seal(len(known), 10**9, *frame_record("s2c", b"noise")))
        while reading.step():
            pass
        wait_until(lambda: findings.checked_count == len(known) + 1)
        assert len(findings) > before
        assert findings.worst_level_and_count(len(known))[0] is Level.ERROR
        live.append(seal(len(known) + 1, 10 * 10**9, *END))
        live.close()
        while not reading.has_ended:
            reading.step()
        wait_until(lambda: findings.has_ended)
    # The last request was not answered: this is known only at the end, and reported for its row.
    asked = len(known) - 1
    assert "timeout/unanswered" in findings.rules_at(asked)
    assert asked in findings.late_rows
    assert cached(path) == findings.tally
    reading.close()


def test_a_failed_login_is_found_although_nothing_follows(tmp_path: Path) -> None:
    """The time alone makes it certain."""
    with recorded(tmp_path / "c.mcpcap", GIVEN_UP_NS + MAX_WRITING_NS - 300_000_000), checking() as made:
        path = tmp_path / "c.mcpcap"
        reading = read(path)
        made.check(path, reading.findings)
        wait_until(lambda: "auth/login-failed" in {finding.rule for finding in reading.findings.kept_findings})
        wait_until(lambda: sum(reading.findings.counts.values()) == len(reading.findings.kept_findings))
        reading.close()


def test_a_killed_worker_is_reported_and_the_next_check_has_another(tmp_path: Path) -> None:
    path = tmp_path / "live.mcpcap"
    live = CaptureFile(path)
    for line in lines(conversation(3)):
        live.append(line)
    reading = read(path)
    told: list[None] = []
    made = CaptureChecker(lambda: told.append(None))
    try:
        made.check(path, reading.findings)
        wait_until(lambda: reading.findings.has_caught_up)
        first, count = made.pid, len(told)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: reading.findings.trouble)
        assert "SIGKILL" in reading.findings.trouble
        wait_until(lambda: len(told) > count)
        again = Findings(reading.index)
        made.check(path, again)
        wait_until(lambda: again.has_caught_up)
        assert again.kept_findings == reading.findings.kept_findings
        assert made.pid != first
    finally:
        made.close()
        live.close()
    assert made.pid is None
    reading.close()


def test_rows_stay_readable_without_a_worker_and_the_next_one_goes_on(tmp_path: Path) -> None:
    live = CaptureFile(tmp_path / "live.mcpcap")
    for line in lines(conversation(3)):
        live.append(line)
    reading = Reading(tmp_path / "live.mcpcap")
    with checking() as made:
        made.read(reading)

        def is_understood() -> bool:
            reading.step()
            return reading.interpreted_count == len(reading.index) > 0

        wait_until(is_understood)
        first = made.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: reading.findings.trouble)
        live.append(seal(len(reading.index), 10**9, *frame_record("s2c", FINE % (99, 99))))
        live.close()
        while not reading.index.has_ended:
            reading.step()
        assert isinstance(reading.index.read_item(len(reading.index) - 1), Frame)
        assert reading.interpreted_count == len(reading.index) - 1
        assert not reading.has_ended
        reading.findings = Findings(reading.index)
        made.read(reading)
        wait_until(lambda: (reading.step(), reading.has_ended and reading.findings.has_ended)[1])
        assert made.pid != first
    last = len(reading.index) - 1
    assert reading.partner(last) == last - 1
    again = read(reading.path)
    assert again.columns.call_of == reading.columns.call_of
    again.close()
    reading.close()


def test_it_ends_with_the_screen_whatever_ends_that(tmp_path: Path) -> None:
    path = noisy(tmp_path, 20_000)
    code = (
        "import sys, time; from pathlib import Path; from mcpproxy.tui.data.checking import CaptureChecker\n"
        "from mcpproxy.tui.data.findings import Findings\n"
        "made = CaptureChecker(lambda: None); made.check(Path(sys.argv[1]), Findings()); print(made.pid, flush=True)\n"
        "time.sleep(600)"
    )
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}
    ) as screen:
        assert screen.stdout is not None
        worker = int(screen.stdout.readline())
        os.kill(worker, 0)
        screen.kill()
        wait_until(lambda: is_gone(worker))


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False
    return state == "Z"


def test_an_unreadable_capture_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"nothing of ours")
    findings = Findings()
    with checking() as made:
        made.check(path, findings)
        wait_until(lambda: findings.trouble)
        assert "x.mcpcap" in findings.trouble


def test_the_list_counts_one_at_a_time_and_remembers(tmp_path: Path) -> None:
    first, second = noisy(tmp_path / "1", 5), captured(tmp_path / "2")
    live = CaptureFile(tmp_path / "live.mcpcap")
    for line in lines(conversation(3)):
        live.append(line)
    with checking() as made:
        counting = FindingCounter(made)

        def wait(chosen: Path, wanted: Path) -> Tally:
            def known() -> bool:
                counting.count_findings([tmp_path / "live.mcpcap"], chosen)
                found = counting.findings(wanted)
                return found is not None and found.has_caught_up

            wait_until(known)
            found = counting.findings(wanted)
            assert found is not None
            return found.tally

        assert wait(first, first).errors >= 5
        assert counting.findings(second) is None
        assert wait(second, second).errors == 0
        assert wait(second, tmp_path / "live.mcpcap").errors == 0
        assert cached(first) == wait(first, first)
    live.close()
