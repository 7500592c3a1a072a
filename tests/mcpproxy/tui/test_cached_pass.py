"""A large closed capture is read once: when it is opened again, the same results come from the cache."""

from pathlib import Path

import pytest

from analysis.output_cache import files_of
from analysis.reading import findings
from analysis.store import finding_list
from analysis.store.connection import connect
from analysis.store.load import Loader
from analysis.store.tables import create_statements
from captures.file import CaptureFile
from captures.record import seal
from mcpproxy.tui.data import output_caches, worker
from mcpproxy.tui.data.columns import batch_in
from mcpproxy.tui.data.output_caches import save_pieces
from mcpproxy.tui.data.worker import CachedPass, CapturePass, ListedPass
from tests.captures.samples import lines
from tests.mcpproxy.tui.in_process_reading import InProcessReading
from tests.mcpproxy.tui.stage import record
from tests.mcpproxy.tui.test_columns import WORDED, cells, look_at, read


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every capture as a large one."""
    monkeypatch.setattr(output_caches, "MIN_CACHED_BYTES", 0)
    monkeypatch.setattr(finding_list, "MIN_CAPTURE_BYTES", 0)
    monkeypatch.setattr(worker, "STEP_BYTES", 1 << 10)


def passes(path: Path) -> list[type]:
    """The kinds of passes that a reading of the capture would make."""
    reading = InProcessReading(path, with_rules=True)
    kinds = [type(one) for one in reading.task._passes]
    reading.close()
    return kinds


def worker_messages(reading: InProcessReading) -> tuple[list[bytes], list[bytes]]:
    """What the worker has reported: about messages, and about findings, of whose progress only the end counts."""
    of_messages = [one for one in reading.heard if batch_in(one) is not None or b'"news"' in one]
    others = [one for one in reading.heard if one not in of_messages]
    return of_messages, [one for one in others if b'"checked"' not in one or one == others[-1]]


def test_messages_and_findings_are_told_again(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", WORDED)
    first = read(path, with_rules=True)
    assert passes(path) == [ListedPass, CachedPass]
    again = InProcessReading(path, with_rules=True)
    assert again._restore()
    while not (again.has_ended and again.task.has_ended):
        again.step()
    assert worker_messages(again) == worker_messages(first)
    assert cells(again.columns) == cells(first.columns)
    assert again.findings.kept_findings == first.findings.kept_findings == list(findings(path))
    assert (again.findings.has_ended, again.findings.tally) == (True, first.findings.tally)
    assert again.progress == 1
    look_at(again)
    first.close()
    again.close()


def test_a_part_that_is_damaged_or_gone_is_made_again(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", WORDED)
    read(path, with_rules=True).close()
    for about, kinds in zip(files_of(path)[1:3], ([ListedPass, CapturePass], [CachedPass, CapturePass]), strict=True):
        whole = about.read_bytes()
        about.write_bytes(whole[:-1])
        assert passes(path) == kinds
        reading = read(path, with_rules=True)
        assert passes(path) == [ListedPass, CachedPass]
        assert reading.findings.kept_findings == list(findings(path))
        look_at(reading)
        reading.close()


def loaded_findings(path: Path) -> list[tuple[object, ...]]:
    """The findings of a capture as SQL has them."""
    with connect() as connection:
        connection.execute(create_statements())
        with Loader(connection) as loader:
            loader.load_findings(path)
        return connection.execute("select * from findings").fetchall()


def test_sql_and_the_screens_find_what_the_other_has_found(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", WORDED)
    loaded = loaded_findings(path)
    assert passes(path) == [ListedPass, CapturePass]
    reading = read(path, with_rules=True)
    found, reports = reading.findings.kept_findings, worker_messages(reading)[1]
    reading.close()
    assert len(found) == len(loaded) > 0
    for file in files_of(path):
        file.unlink(missing_ok=True)
    reading = read(path, with_rules=True)
    assert worker_messages(reading)[1] == reports
    reading.close()
    assert passes(path) == [ListedPass, CachedPass]
    assert loaded_findings(path) == loaded


def test_a_capture_that_sql_reads_in_part_has_no_list(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", WORDED)
    with path.open("ab") as more:
        more.write(seal(1 << 63, 0, "mark", b""))
    loaded_findings(path)
    read(path, with_rules=True).close()
    assert passes(path) == [CachedPass, CapturePass]


def test_rows_that_make_no_sense_are_read_again(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", WORDED)
    first = read(path)
    whole = [*first._cache_pieces()]
    count = len(first._columns)
    long = b'{"versions":[1,1],' + whole[1 + count].partition(b",")[2]
    for spoilt in (
        [],
        [b"[]", *whole[1:]],
        whole[:-1],
        [*whole[:-1], whole[-1] + b"\1"],
        [*whole[:-1], b"\xff" * len(whole[-1])],
        [whole[0], b"\0\0\0", *whole[2:]],
        *([*whole[: count + 1], head, *whole[count + 2 :]] for head in (b"{}", b'{"versions":[1]}', long)),
    ):
        save_pieces(output_caches.cache_of(path, "rows", first.max_rows), spoilt)
        reading = InProcessReading(path)
        assert not reading._restore(), spoilt[:2]
        while not reading.has_ended:
            reading.step()
        assert [*reading._cache_pieces()] == whole
        look_at(reading)
        reading.close()
    reading = InProcessReading(path)
    assert reading._restore(), "what was read again is kept again"
    reading.close()
    first.close()


def test_a_capture_that_changed_is_read(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", WORDED)
    read(path).close()
    with path.open("ab") as more:
        more.write(b"no record\n")
    assert passes(path) == [CapturePass, CapturePass]


def test_what_was_not_read_to_its_end_is_not_kept(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", WORDED)
    reading = InProcessReading(path)
    assert reading.step()
    reading.close()
    assert passes(path) == [CapturePass, CapturePass]


def test_a_live_capture_is_read_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.mcpcap"
    made = CaptureFile(path)
    for line in lines(WORDED):
        made.append(line)
    reading = InProcessReading(path, with_rules=True)
    while reading.step():
        pass
    made.close()
    while not reading.has_ended:
        reading.step()
    reading.close()
    assert passes(path) == [CapturePass, CapturePass]
