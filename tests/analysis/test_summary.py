"""A summary agrees with the capture, and a cached summary is correct or is made again."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import cached as cached_results
from analysis import summary as module
from analysis.summary import BUCKET_COUNT, Summarizer, Summary, cached, directory, key_of, save, summarise
from captures.cutting import LineCutter
from captures.file import CaptureFile
from captures.frame import Frame
from captures.reader import Capture, assembled_items
from captures.record import members, seal
from tests.analysis.traces import corpus
from tests.captures.samples import (
    STRANGER,
    conversation,
    every_type,
    frame,
    give_to_strangers,
    header,
    lines,
    lost,
)
from tests.mcpproxy.login_captures import LoginCapture

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"Cursor","version":"2.1"}}}'
)
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}'
WRONG = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such page"}}'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(path: Path, *middles: tuple[str, bytes]) -> Path:
    path.write_bytes(b"".join(lines([("header", header()), *middles])))
    return path


def said(*raws: bytes) -> list[tuple[str, bytes]]:
    return [("frame", frame("c2s" if b"method" in raw else "s2c", raw)) for raw in raws]


def closed(**how: object) -> tuple[str, bytes]:
    return "close", members(**{"ending": "server", "status": 0, "totals": {}, **how})


def test_it_tells_who_how_much_and_how_well(tmp_path: Path) -> None:
    found = summarise(write(tmp_path / "x.mcpcap", *said(INITIALIZE, CALL, WRONG), closed()))
    assert (found.name, found.client, found.server, found.revisions) == ("files", "Cursor 2.1", None, ("2025-06-18",))
    assert (found.frames, found.errors, found.answered, found.lost) == (3, 1, 1, 0)
    assert (found.state, found.ending, found.duration_ns) == ("ended", None, 4_000_000)
    assert found.p95_ns == pytest.approx(1_000_000, rel=0.07)
    assert sum(found.traffic) == 3


def test_requests_without_a_response_count_once_it_has_ended(tmp_path: Path) -> None:
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"timed out"}}'
    assert summarise(write(tmp_path / "x.mcpcap", *said(CALL), closed())).unanswered == 1
    assert summarise(write(tmp_path / "y.mcpcap", *said(CALL, cancel), closed())).unanswered == 0
    assert summarise(write(tmp_path / "z.mcpcap", *said(CALL, WRONG), closed())).unanswered == 0


def test_an_error_after_a_cancellation_is_none(tmp_path: Path) -> None:
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    found = summarise(write(tmp_path / "x.mcpcap", *said(INITIALIZE, CALL, cancel, WRONG), closed()))
    assert (found.frames, found.errors, found.answered) == (4, 0, 0)


def test_latencies_are_those_of_final_answers_in_time(tmp_path: Path) -> None:
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    late = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
    found = summarise(write(tmp_path / "late.mcpcap", *said(CALL, cancel, late), closed()))
    assert (found.answered, found.p95_ns) == (0, None)
    interim = b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{}}}'
    found = summarise(write(tmp_path / "interim.mcpcap", *said(CALL, interim), closed()))
    assert (found.answered, found.p95_ns) == (0, None)


@pytest.mark.parametrize(
    ("last", "state", "ending"),
    [
        ([], "died", "killed"),
        ([closed()], "ended", None),
        ([closed(status=1)], "died", "exit 1"),
        ([closed(status=None, signal="SIGSEGV")], "died", "SIGSEGV"),
        ([closed(ending="client", status=1)], "ended", None),
        ([closed(ending="client", status=None, signal="SIGTERM")], "ended", None),
    ],
)
def test_how_it_ended(tmp_path: Path, last: list[tuple[str, bytes]], state: str, ending: str | None) -> None:
    found = summarise(write(tmp_path / "x.mcpcap", *said(INITIALIZE), *last))
    assert (found.state, found.ending) == (state, ending)


def test_losses_are_counted(tmp_path: Path) -> None:
    gap = ("gap", members(first=1, last=3, lost=lost(c2s=(3, 9)), reason="ENOSPC"))
    assert summarise(write(tmp_path / "x.mcpcap", *said(INITIALIZE, CALL, WRONG), gap, closed())).lost >= 3


def test_what_is_kept_is_used_until_the_capture_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.mcpcap", *said(INITIALIZE, CALL), closed())
    found = summarise(path)
    assert cached(path) == found
    (file,) = (tmp_path / "cache/mcpproxy/summaries").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    write(path, *said(INITIALIZE, CALL, WRONG), closed())
    assert cached(path) is None
    assert summarise(path).frames == 3
    assert cached(path) is not None
    monkeypatch.setattr(cached_results, "modules_hash", lambda _: "another")
    assert cached(path) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_others_may_have_written_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.mcpcap", *said(INITIALIZE, CALL), closed())
    summarise(path)
    folder = tmp_path / "cache/mcpproxy/summaries"
    (file,) = folder.iterdir()
    os.chown(file, STRANGER, -1)
    assert cached(path) is None
    file.unlink()
    give_to_strangers(folder, 0o770)
    assert summarise(path).frames == 2
    assert list(folder.iterdir()) == []


def test_what_is_being_recorded_is_not_kept(tmp_path: Path) -> None:
    made = CaptureFile(tmp_path / "x.mcpcap")
    for line in lines([("header", header()), *said(INITIALIZE, CALL)]):
        made.append(line)
    found = summarise(tmp_path / "x.mcpcap")
    assert (found.state, found.frames, found.ending) == ("live", 2, None)
    assert cached(tmp_path / "x.mcpcap") is None
    made.append(seal(3, 9, "frame", said(WRONG)[0][1]))
    made.close()
    assert summarise(tmp_path / "x.mcpcap").frames == 3


@pytest.mark.parametrize(
    "spoil",
    [
        lambda kept: b"",
        lambda kept: b"\xff{",
        lambda kept: b"[" * 100_000,
        lambda kept: b"x" * 100_000,
        lambda kept: json.dumps([kept]).encode(),
        lambda kept: json.dumps({**kept, "summary": None}).encode(),
        lambda kept: json.dumps({**kept, "summary": {**kept["summary"], "frames": "many"}}).encode(),
        lambda kept: json.dumps({**kept, "summary": {**kept["summary"], "frames": -1}}).encode(),
        lambda kept: json.dumps({**kept, "summary": {**kept["summary"], "name": ["x"]}}).encode(),
        lambda kept: json.dumps({**kept, "summary": {**kept["summary"], "state": "live"}}).encode(),
        lambda kept: json.dumps({**kept, "summary": {**kept["summary"], "traffic": [1] * 1000}}).encode(),
        lambda kept: json.dumps({**kept, "summary": {**kept["summary"], "more": 1}}).encode(),
        lambda kept: json.dumps({**kept, "key": "another"}).encode(),
    ],
)
def test_a_spoilt_cache_is_as_good_as_none(tmp_path: Path, spoil: Callable[[Any], bytes]) -> None:
    path = write(tmp_path / "x.mcpcap", *said(INITIALIZE), closed())
    found = summarise(path)
    (file,) = (tmp_path / "cache/mcpproxy/summaries").iterdir()
    file.write_bytes(spoil(json.loads(file.read_bytes())))
    assert cached(path) is None
    assert summarise(path) == found
    assert cached(path) == found


def test_no_place_for_a_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.mcpcap", *said(INITIALIZE), closed())
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert summarise(path).frames == 1
    assert cached(path) is None
    assert not save(path, "not what it is", Summary(state="ended"))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert directory() is not None
    assert key_of(tmp_path / "none.mcpcap") is None


def test_a_thousand_captures_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHE_FILES", 10)
    for number in range(40):
        summarise(write(tmp_path / f"{number}.mcpcap", closed()))
    assert len(list((tmp_path / "cache/mcpproxy/summaries").iterdir())) <= 11


@given(st.integers(0, 2**32), st.integers(1, 50))
def test_traffic_is_all_frames_over_the_whole_time(seed: int, frames: int) -> None:
    rng, made = random.Random(seed), Summarizer()
    t_ns = 0
    for middle in said(*[CALL] * frames):
        t_ns += rng.randrange(1 << rng.randrange(1, 60))
        (item,) = LineCutter(Path()).feed(seal(1, t_ns, *middle))
        made.feed(item)
    found = made.summary(live=False)
    assert sum(found.traffic) == frames
    assert len(found.traffic) <= BUCKET_COUNT
    assert t_ns < BUCKET_COUNT * found.bucket_ns


@pytest.mark.parametrize("data", [b"".join(every_type()), b"".join(lines(conversation(50, random.Random(2))))[:-9]])
def test_frames_are_those_of_the_reader(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.mcpcap"
    path.write_bytes(data)
    assert summarise(path).frames == sum(isinstance(item, Frame) for item in assembled_items(Capture(path)))


def test_all_segments_are_summed_up(tmp_path: Path) -> None:
    first = write(tmp_path / "a.mcpcap", *said(INITIALIZE, CALL), closed(ending="segment"))
    rest = [("header", header(2)), *said(WRONG), closed()]
    (tmp_path / "a.2.mcpcap").write_bytes(b"".join(lines(rest, 4)))
    summary = summarise(first)
    assert summary is not None
    assert (summary.state, summary.frames) == ("ended", 3)


@pytest.mark.parametrize(
    ("name", "errors", "abandoned"),
    [
        ("call-refused-by-a-gateway", 2, 0),
        ("stream-ends-and-the-client-cancels-at-its-time-out", 1, 1),
        ("client-leaves-soon", 0, 1),
        ("stream-hangs-until-the-client-leaves", 0, 1),
        ("event-without-its-blank-line", 1, 0),
    ],
)
def test_failures_of_http_are_errors_and_who_leaves_has_abandoned(
    name: str, errors: int, abandoned: int, tmp_path: Path
) -> None:
    (case,) = (case for group, case in corpus() if group == "http-failures" and case.name == name)
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(line for _, line in case.records()))
    found = summarise(path)
    assert (found.errors, found.abandoned) == (errors, abandoned)


def test_a_challenge_is_an_error_only_as_a_login_that_did_not_succeed(tmp_path: Path) -> None:
    succeeded, failed, stopped = (LoginCapture(tmp_path / f"{number}.mcpcap", number) for number in range(3))
    succeeded.login()
    failed.discovery()
    failed.authorization()
    failed.token(400, error="invalid_grant")
    stopped.message(401)
    stopped.message(401)
    for capture, errors, live_errors in ((succeeded, 0, 0), (failed, 1, 1), (stopped, 1, 0)):
        capture.close()
        assert summarise(capture.path).failures == errors
        summarizer = Summarizer()
        for item in assembled_items(Capture(capture.path)):
            summarizer.feed(item)
        assert summarizer.summary(live=True).failures == live_errors
