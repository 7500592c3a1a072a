"""Expectations: what is in the file, and which files are refused."""

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.comparison.change import Place
from analysis.comparison.compare import compare
from analysis.comparison.expectation import MAX_EXPECTATION_BYTES, load, save
from analysis.comparison.findings import FindingRow, FindingsRecord
from analysis.comparison.options import CompareOptions
from analysis.comparison.outcome_record import OutcomesRecord, RequestRow
from analysis.comparison.side import Side
from captures.errors import CannotCreate, CaptureError, NewerFormat
from tests.analysis.comparison.sides import kinds, observed, written
from tests.analysis.store.capture_writer import CaptureWriter
from tests.rows import row


def _side(folder: Path) -> Side:
    def fill(capture: CaptureWriter) -> None:
        capture.call(100, 1, "search", q="x")
        capture.answer(110, 1, content=[])
        capture.call(120, 2, "sea\ud800rch", q=1 << 70)
        capture.fail(130, 2, "no \ud800")
        capture.answer(140, 9, content=[])

    return observed(written(folder, "weather", fill))


def test_a_saved_side_compares_as_the_side_itself(tmp_path: Path) -> None:
    side, path = _side(tmp_path), tmp_path / "weather.expectation"
    save(side, path)
    loaded = load("weather.expectation", path)
    assert loaded is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert (loaded.summary.name, loaded.summary.captures) == ("weather.expectation", 0)
    assert loaded.summary.frames == side.summary.frames
    comparison = compare(loaded, side, CompareOptions())
    assert (comparison.changes, [gap for gap in comparison.gaps if gap.is_failure]) == ((), [])
    assert all(old == new for _, old, new in comparison.compared)
    assert ("outcomes", 3, 3) in comparison.compared


def test_places_of_an_expectation_name_it_and_no_frame(tmp_path: Path) -> None:
    path = tmp_path / "weather.expectation"
    save(_side(tmp_path), path)
    loaded = load("as named", path)

    def refuse(capture: CaptureWriter) -> None:
        capture.call(100, 1, "search", q="x")
        capture.refuse(110, 1, -32602, "no")

    assert loaded is not None
    comparison = compare(loaded, observed(written(tmp_path, "new", refuse)), CompareOptions())
    assert "outcome/now-fails" in kinds(comparison)
    (change,) = (each for each in comparison.changes if each.kind.id == "outcome/now-fails")
    assert change.old == ("as named", 0, -1)


def test_the_bytes_depend_on_the_capture_only(tmp_path: Path) -> None:
    contents = []
    for number in (1, 2):
        folder = tmp_path / f"folder-{number}"
        folder.mkdir()
        path = folder / "weather.expectation"
        side = _side(folder)
        save(side._replace(summary=side.summary._replace(name=str(folder / "weather.mcpcap"))), path)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert str(tmp_path).encode() not in contents[0]


def _recorded(folder: Path, name: str, description: str, delay_ms: int) -> list[str]:
    """Returns the lines of the expectation of a conversation."""

    def fill(capture: CaptureWriter) -> None:
        frame_ms = 100 + delay_ms
        if delay_ms:
            capture.call(frame_ms - 40, 70, "first", q="new")
            capture.answer(frame_ms - 20, 70, content=[{"type": "text", "text": "new"}])
        capture.ask(frame_ms, 1, "tools/list")
        tools = [{"name": f"tool-{number}", "inputSchema": {"type": "object"}} for number in range(20)]
        tools[7]["description"] = description
        capture.answer(frame_ms + 5, 1, tools=tools)
        for number in range(30):
            begun_ms = 1_000 + delay_ms + number * 100
            capture.call(begun_ms, 2 + number, f"tool-{number % 20}", q=number)
            capture.answer(begun_ms + 3 + delay_ms / 7, 2 + number, content=[{"type": "text", "text": f"n {number}"}])

    path = folder / f"{name}.json"
    save(observed(written(folder, name, fill), with_findings=False), path)
    return path.read_text("ascii").splitlines()


def test_few_lines_differ_if_little_changed(tmp_path: Path) -> None:
    old, new = _recorded(tmp_path, "one", "Reads.", 0), _recorded(tmp_path, "other", "Writes.", 50)
    assert not [line for line in old if "one.mcpcap" in line]
    assert max(map(len, old)) < 400
    end = old.index('"latency":{')
    old_before, new_before = old[:end], new[: new.index('"latency":{')]
    differences = [line for line in difflib.ndiff(old_before, new_before) if line[0] in "+-"]
    assert any("Reads." in line for line in differences)
    assert any("first" in line for line in differences)
    assert len(differences) < 40
    assert len(old_before) > 200


def test_findings_have_no_numbers_that_differ_between_recordings(tmp_path: Path) -> None:
    path = tmp_path / "weather.expectation"
    place = Place("a", 1, 2)
    finding = FindingRow("tool/repeated-call", 1, "called 3 times (frames 30 to 84): 341 ms", "", place, 3)
    findings = FindingsRecord({"f": finding}, ["tool/repeated-call"], {}, [])
    save(_side(tmp_path)._replace(records={"findings": findings}), path)
    assert '"called N times (frames N to N): N ms"' in path.read_text("ascii")


def test_latencies_are_rounded_to_half_a_percent(tmp_path: Path) -> None:
    side, path = _side(tmp_path), tmp_path / "weather.expectation"
    save(side, path)
    loaded = load("weather.expectation", path)
    assert loaded is not None
    pairs = [
        pair
        for old, new in zip(side.records["latency"].calls, loaded.records["latency"].calls, strict=True)
        for pair in zip(old.times_ns, new.times_ns, strict=True)
    ]
    assert pairs
    assert all(abs(old - new) <= old * 0.005 for old, new in pairs)


def test_answers_and_runs_name_the_expectation_as_their_capture(tmp_path: Path) -> None:
    path = tmp_path / "weather.expectation"
    save(_side(tmp_path), path)
    loaded = load("as named", path)
    assert loaded is not None
    values, sequence = loaded.records["values"], loaded.records["sequence"]
    places = [values.place(answer) for row in values.requests.values() for answer in row.answers]
    places += [sequence.place(run) for run in sequence.runs]
    assert {*places} == {("as named", 0, -1)}


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    side, path = _side(tmp_path), tmp_path / "taken"
    creations: tuple[Callable[[], None], ...] = (path.touch, lambda: path.symlink_to(tmp_path / "nowhere"), path.mkdir)
    for create in creations:
        create()
        with pytest.raises(CannotCreate, match="never replaces"):
            save(side, path)
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(CannotCreate, match="No such file"):
        save(side, tmp_path / "missing" / "file")


def test_files_that_are_cut_or_changed_or_newer_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weather.expectation"
    save(_side(tmp_path), path)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for what, changed, message in (
        ("the last line is cut", content[:-30], "damaged"),
        ("the last line is gone", b"".join(lines[:-1]), "its end is missing"),
        ("only the first line", lines[0], "its end is missing"),
        ("half a line", content[: len(content) // 2], "its end is missing"),
        ("an aspect is gone", b"".join([*lines[:2], *lines[3:]]), "damaged"),
        ("a digit differs", content.replace(b'"count":1', b'"count":2', 1), "damaged"),
        ("it is newer", content.replace(b'tion":1,', b'tion":2,'), "later version"),
    ):
        with row(what):
            path.write_bytes(changed)
            with pytest.raises(CaptureError, match=message) as caught:
                load("x", path)
            assert isinstance(caught.value, NewerFormat) == ("later" in message)


def test_line_ends_of_another_system_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "weather.expectation"
    save(_side(tmp_path), path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert load("x", path) is not None


def test_other_files_are_no_expectations(tmp_path: Path) -> None:
    capture = written(tmp_path, "capture", lambda _: None)
    fifo, empty = tmp_path / "fifo", tmp_path / "empty"
    os.mkfifo(fifo)
    empty.touch()
    for path in (capture, tmp_path, fifo, empty):
        assert load("x", path) is None, path
    with pytest.raises(CaptureError, match="No such file"):
        load("x", tmp_path / "missing")


def test_a_huge_file_is_refused_without_reading_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.write(b'{"mcpproxy_expectation":1}\n')
        file.truncate(MAX_EXPECTATION_BYTES * 100)  # sparse
    with pytest.raises(CaptureError, match="at most 64 MiB"):
        load("x", path)


def test_a_side_that_would_be_too_large_is_not_saved(tmp_path: Path) -> None:
    side = _side(tmp_path)
    requests = {"0": RequestRow("client", "x" * MAX_EXPECTATION_BYTES, "")}
    with pytest.raises(CannotCreate, match="larger than 64 MiB"):
        save(side._replace(records={"outcomes": OutcomesRecord(requests, {}, 0)}), tmp_path / "large")
    assert not (tmp_path / "large").exists()
