"""Why does it hang? Calls that wait, on the screens: how many, since when, and what is known about the server."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.foot import Foot
from tests.captures.samples import frame, header
from tests.harness import Place
from tests.mcpproxy.tui.http_talk import PROGRESS, post
from tests.mcpproxy.tui.stage import (
    CALL,
    FINE,
    INITIALIZE,
    INITIALIZED,
    WRONG,
    Act,
    Middles,
    Stage,
    conversation,
    frame_record,
    play,
    play_each,
    record,
    timed,
)

STEP_MS = 100
AGE_S = 60
ELICIT = b'{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"which shelf?"}}'
TOKEN_CALL = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",'
    b'"params":{"name":"slow","_meta":{"progressToken":1},"arguments":{}}}'
)
HOSTILE = rb"\u001b[2J\u202e\u0007\u4f60"
CANCELLED = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99,"reason":"no use"}}'


@contextmanager
def live(path: Path, middles: Middles, transport: str = "stdio") -> Iterator[CaptureFile]:
    """A capture that is being recorded, and began a minute ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    capture = CaptureFile(path)
    began_ns = time.time_ns() - AGE_S * 1_000_000_000
    all_middles = [("header", header(name=path.parent.name, wall_ns=began_ns, transport=transport)), *middles]
    for number, (rec, middle) in enumerate(all_middles):
        capture.append(seal(number, number * STEP_MS * 1_000_000, rec, middle))
    try:
        yield capture
    finally:
        capture.close()


def handshake() -> Middles:
    return [frame_record("c2s", INITIALIZE), frame_record("s2c", INITIALIZED)]


def stuck() -> Middles:
    """Two calls wait, an error and an answer came in between."""
    middles = [*handshake(), frame_record("c2s", CALL % (1, 1)), frame_record("s2c", WRONG % 1)]
    middles += [frame_record("c2s", TOKEN_CALL % 2), frame_record("s2c", PROGRESS % 3)]
    middles += [frame_record("c2s", CALL % (3, 3)), frame_record("s2c", FINE % (3, 3))]
    return [*middles, frame_record("c2s", CALL % (4, 4))]


def lines_with(text: str, stage: Stage) -> list[str]:
    return [line for line in stage.text().splitlines() if text in line]


async def opened_at(stage: Stage, text: str) -> None:
    """Wait until the exchange of a waiting call is shown."""
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.see("waiting   for", text)


async def the_lists_say_how_many_wait_and_a_key_leads_to_the_oldest(stage: Stage) -> None:
    await stage.listed()
    await stage.until(lambda: re.search(r"2 waiting, oldest \d+\.\ds|2 waiting, oldest 1m", stage.text()))
    await stage.until(lambda: any(re.search(r"2( wait |…)", line) for line in lines_with("stuck", stage)))
    title = stage.text().splitlines()[0]
    await stage.pilot.click(offset=(title.index("2 waiting") + 3, 0))
    await opened_at(stage, "progress  3, ")
    assert stage.traffic.entry is not None
    assert stage.traffic.reading.index.entry(stage.traffic.entry).seq == 5
    text = stage.text()
    assert not re.search(r"\d new", text), "nothing has come since"
    assert re.search(r"waiting   for (5\d\.\ds|1m\d\ds), since \d\d:\d\d:\d\d", text)
    assert re.search(r"server    last sent frame 8, .* ago", text)
    assert re.search(r"meanwhile 1 other request answered *$", text, re.MULTILINE), "the line above says when"
    await stage.until(lambda: stage.traffic.query_one(Foot).texts[0] == "w waiting")
    assert "process   " not in text, "the capture does not name it"
    assert re.search(r"2 waiting, oldest (5\d\.\ds|1m\d\ds)", text)
    before = lines_with("waiting   for", stage)
    await stage.until(lambda: lines_with("waiting   for", stage) != before)
    # A search does not stop the clock.
    await stage.press("tab", "slash", *"since")
    await stage.see("1 of 1")
    before = lines_with("waiting   for", stage)
    await stage.until(lambda: lines_with("waiting   for", stage) != before)
    await stage.press("escape", "tab", "w")
    await stage.until(lambda: stage.traffic.reading.index.entry(stage.traffic.entry or 0).seq == 9)
    await stage.see("server    has sent nothing since", "meanwhile no other request was answered")
    title = stage.text().splitlines()[0]
    await stage.pilot.click(offset=(title.index("2 waiting") + 3, 0))
    await stage.until(lambda: stage.traffic.reading.index.entry(stage.traffic.entry or 0).seq == 5)
    # Where there is little room, the facts get all of it.
    await stage.resize((40, 10))
    await stage.press("w")
    await stage.see("waiting   for", "meanwhile")
    await stage.press("z")


async def what_waits_comes_first_then_what_failed(stage: Stage) -> None:
    await stage.listed()
    await stage.press("enter")
    await stage.see("tools/call slow")
    await stage.press("exclamation_mark")
    await stage.see("waiting first")
    traffic = stage.traffic
    index = traffic.reading.index
    await stage.until(lambda: [index.entry(row).seq for row in traffic.listing.rows.view] == [5, 9, 4])
    assert traffic.table.cursor == 0
    assert "paused" not in stage.text()
    await stage.press("down", "down")
    assert [traffic.entry] == [index.entry_of_seq(4)]
    await stage.press("exclamation_mark")
    await stage.until(lambda: "waiting first" not in stage.text())
    assert not traffic.filter.text
    traffic.filter.apply("method:tools/call")
    await stage.press("exclamation_mark")
    await stage.until(lambda: [index.entry(row).seq for row in traffic.listing.rows.view] == [5, 9, 4])
    await stage.press("exclamation_mark")
    await stage.until(lambda: traffic.filter.text == "method:tools/call")


def test_calls_that_wait_are_found_with_one_key(tmp_path: Path) -> None:
    acts: tuple[Act, ...] = (
        the_lists_say_how_many_wait_and_a_key_leads_to_the_oldest,
        what_waits_comes_first_then_what_failed,
    )
    with live(tmp_path / "stuck/x.mcpcap", stuck()):
        play_each(acts, tmp_path / "stuck/x.mcpcap", size=(140, 40))


def test_an_answer_removes_a_call_from_what_waits(tmp_path: Path) -> None:
    path = tmp_path / "stuck/x.mcpcap"

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("enter")
        await stage.see("2 waiting")
        await stage.press("exclamation_mark")
        traffic, index = stage.traffic, stage.traffic.reading.index
        await stage.until(lambda: [index.entry(row).seq for row in traffic.listing.rows.view] == [5, 9, 4])
        await stage.press("down")
        capture.append(seal(10, 5_000_000_000, *frame_record("s2c", FINE % (2, 2))))
        await stage.until(lambda: [index.entry(row).seq for row in traffic.listing.rows.view] == [9, 4])
        assert traffic.entry == index.entry_of_seq(9), "the cursor stays on its call"
        await stage.see("1 waiting")
        capture.append(seal(11, 5_100_000_000, *frame_record("s2c", FINE % (4, 4))))
        await stage.until(lambda: "waiting," not in stage.text() and "1 waiting" not in stage.text())
        await stage.press("w")
        await stage.see("nothing waits for a response")

    with live(path, stuck()) as capture:
        play(act, path, size=(120, 30))


def test_a_server_that_waits_for_its_client_is_named_first(tmp_path: Path) -> None:
    path = tmp_path / "asks/x.mcpcap"
    middles = [*handshake(), frame_record("c2s", CALL % (1, 1)), frame_record("s2c", ELICIT)]

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.until(lambda: "1 waiting" in stage.text())
        await stage.press("w")
        await opened_at(stage, "because   the server waits for the client: elicitation/create #7")
        lines = stage.text().splitlines()
        assert [line.strip().startswith("because") for line in lines].index(True) < [
            line.strip().startswith("waiting ") for line in lines
        ].index(True)
        await stage.press("p")
        stage.traffic.go_to_entry(4)
        await stage.see("client    has sent nothing since")

    with live(path, middles):
        play(act, path, size=(100, 30))


def test_a_server_that_has_closed_its_output_cannot_answer(tmp_path: Path) -> None:
    path = tmp_path / "mute/x.mcpcap"
    end = ("eof", members(dir="s2c", by="sender", bytes=10))
    start = ("process", members(event="spawned", pid=1 << 62, start="x" * 100_000))
    hostile = frame_record("s2c", ELICIT.replace(b'"id":7', b'"id":"%s"' % (HOSTILE * 10_000)))
    progress = frame_record("s2c", PROGRESS.replace(b"}}", b',"message":"%s"}}' % HOSTILE) % 3)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.until(lambda: "1 waiting" in stage.text())
        await stage.press("w")
        await opened_at(stage, "because   the server closed its output")
        await stage.see("because   the server waits for the client: elicitation/create", "progress  3 ")
        assert "process   " not in stage.text(), "the capture does not name it"
        await stage.squeezed()

    with live(path, [start, *handshake(), frame_record("c2s", TOKEN_CALL % 1), hostile, progress, end]):
        play(act, path, size=(100, 30))


def test_over_http_the_response_is_described(tmp_path: Path) -> None:
    path = tmp_path / "web/x.mcpcap"
    at = {"conn": 1, "exchange": 2}
    request = {"method": "POST", "target": "/mcp", "version": "HTTP/1.1", "headers": [["Host", "127.0.0.1"]]}
    stream = {"status": 200, "reason": "OK", "version": "HTTP/1.1", "headers": [["Content-Type", "text/event-stream"]]}
    middles = [*post(1, INITIALIZE, INITIALIZED)]
    middles += [
        ("exchange", members(**at, stage="request", request=request, peer="127.0.0.1:5000")),
        ("frame", frame("c2s", TOKEN_CALL % 1, unit="http_body", **at)),
    ]
    silent = [*middles]
    silent = [(rec, middle.replace(b'"exchange":2', b'"exchange":3')) for rec, middle in middles[-2:]]
    middles += [
        ("exchange", members(**at, stage="response", request=request, response=stream)),
        ("stream", members(**at, dir="s2c", event="opened")),
        ("frame", frame("s2c", PROGRESS % 3, unit="sse_event", **at)),
        ("frame", frame("s2c", PROGRESS % 4, unit="sse_event", **at)),
        *[(rec, middle.replace(b'"id":1,', b'"id":2,')) for rec, middle in silent],
    ]

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.until(lambda: "2 waiting" in stage.text())
        await stage.press("w")
        await opened_at(stage, "response  200, its stream is open: 2 events, the last ")
        await stage.see("progress  4, ", "process   not known: the server is reached over HTTP")
        await stage.press("w")
        await stage.see("response  not begun: the server has sent no status", "server    has sent nothing since")
        capture.append(seal(len(middles) + 1, 30 * 1_000_000_000, "exchange", members(**head)))
        await stage.see(
            "response  200, its stream is open: no event so far", "last sent the head of its response (record "
        )

    head = {"conn": 1, "exchange": 3, "stage": "response", "request": request, "response": stream}
    with live(path, middles, transport="http") as capture:
        play(act, path, size=(120, 40))


def test_closed_captures_say_until_when_a_call_waited_and_why_that_ended(tmp_path: Path) -> None:
    sent = [*conversation(0)[:4], frame_record("c2s", CALL % (99, 99))]

    def ended(name: str, *more: tuple[str, bytes]) -> Path:
        return record(tmp_path / name / "x.mcpcap", [*sent, *more])

    died = ended("died", ("process", members(event="ended", status=3)), ("close", members(ending="server", status=3)))
    left = ended("left", ("close", members(ending="client", status=0)))
    killed = ended("killed")
    middles = [*sent, ("stderr", members(raw="lock\n")), frame_record("c2s", CANCELLED)]
    cancelled = timed(tmp_path / "cancelled/x.mcpcap", middles, [0, 1, 2, 3, 4, 2004, 6004])

    def seen_in(folder: str, *texts: str) -> Act:
        async def act(stage: Stage) -> None:
            await stage.open(folder)
            stage.traffic.go_to_entry(4)
            await stage.press("6")
            await stage.see(*texts)

        act.__name__ = folder
        return act

    acts = (
        seen_in("died", ", until the server exited 3", "server    sent nothing after the request"),
        seen_in("left", ", until the client disconnected"),
        seen_in("killed", ", until the capture ends, because mcpproxy was killed"),
        seen_in(
            "cancelled",
            "waited    6.0s, until frame 6 cancelled it",
            "server    last sent stderr (record 5), 4.0s before",
        ),
    )
    play_each(acts, died, left, killed, cancelled, size=(120, 40))


SERVER = """
import json, os, sys
for line in sys.stdin:
    note = {"method": "notifications/message", "params": {"level": "info", "data": os.getpid()}}
    print(json.dumps({"jsonrpc": "2.0", **note}), flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_the_process_of_a_real_server_is_described(place: Place) -> None:
    run = [place.python, "-P", "-m", "mcpproxy", "run", "--name", "stuck", "--"]
    session = place.start([*run, place.python, "-c", SERVER], direct=True)
    session.send(CALL % (1, 1) + b"\n")
    pid = json.loads(session.line())["params"]["data"]
    path = place.newest()

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.until(lambda: "1 waiting" in stage.text())
        assert isinstance(stage.app.screen, SessionsScreen)
        await stage.press("w")
        await opened_at(stage, f"process   {pid} python")
        await stage.until(lambda: f"{pid} python" in stage.text() and " sleeps" in stage.text())
        os.kill(pid, signal.SIGSTOP)
        await stage.see("is stopped: a signal has suspended it")
        os.kill(pid, signal.SIGCONT)
        await stage.see(" sleeps")

    play(act, path, size=(120, 30))
    session.close_stdin()
    session.end()
