"""Calls that hang, on the screens: abandoned ones show how long they waited, open ones a waiting time that grows."""

import re
import time
from pathlib import Path

from captures.file import CaptureFile
from captures.record import seal
from mcpproxy.tui.data.columns import NONE
from tests.captures.samples import header
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    Act,
    Stage,
    conversation,
    frame_record,
    play,
    play_each,
    record,
    timed,
)

CANCELLED = (
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"Request timed out"}}'
)
HUNG = [
    *conversation(1),
    frame_record("c2s", CANCELLED % 99),
    frame_record("c2s", CALL % (7, 7)),
    frame_record("c2s", CANCELLED % 7),
    frame_record("s2c", FINE % (7, 7)),
    END,
]


def hung(folder: Path) -> Path:
    return record(folder / "library" / "20261121T101502Z-4f2a.mcpcap", HUNG)


def line_with(text: str, shown: str) -> str:
    return next((line for line in shown.splitlines() if text in line), "")


def waited_s(shown: str) -> int:
    found = re.search(r"(\d+)m(\d\d)s", line_with("waiting", shown))
    return 0 if found is None else 60 * int(found[1]) + int(found[2])


async def an_abandoned_call_is_told_in_every_list(stage: Stage) -> None:
    await stage.listed()
    await stage.see("2 abandoned")
    # The bars get the room that the names leave, unless there is none.
    await stage.pilot.resize_terminal(80, 24)
    await stage.see("2 abandoned")
    await stage.pilot.resize_terminal(72, 24)
    await stage.until(lambda: re.search("2 aband(?!oned)", stage.text()))
    await stage.pilot.resize_terminal(140, 40)
    await stage.open("library")
    await stage.see("abandoned")
    assert "99" in line_with("abandoned", stage.text())
    assert re.search(r"\d+(\.\d+)?(ms|µs)", line_with("abandoned", stage.text()))
    abandoned = [waited_ns for waited_ns in stage.traffic.reading.calls.abandoned_ns if waited_ns >= 0]
    assert len(abandoned) == 2, "the one with a late answer, too"
    await stage.see("ok, late")
    await stage.press("T")
    await stage.see("✗ ", ", late")
    await stage.press("L")
    await stage.see("aband", "in time, 1 late  by n", " requests, 1 late, 2 abandoned")
    await stage.pilot.resize_terminal(80, 24)
    assert re.search(r"tools/call search +3 +0 +2 ", stage.text())
    await stage.press("O")
    await stage.until(lambda: re.search(r"search .* 3 +0 +2 ", line_with("search ", stage.text())))
    await stage.press("escape", "T")
    await stage.see("✗ abandoned", ", late")


async def a_call_that_was_abandoned_is_sorted_by_how_long_it_waited(stage: Stage) -> None:
    await stage.open("library")
    await stage.press("s")
    await stage.see("by latency ▼")
    reading, rows = stage.traffic.reading, stage.traffic.listing.rows.view
    calls = range(len(reading.calls))
    (number,) = (one for one in calls if reading.abandoned_ns(one) is not None and reading.calls.response[one] == NONE)
    waited_ns = reading.calls.abandoned_ns[number]
    place = [*rows].index(reading.calls.request[number])
    answered = dict(zip(reading.calls.response, reading.calls.latency_ns, strict=True))
    assert all(answered[row] >= waited_ns for row in rows[:place] if answered.get(row, -1) >= 0)
    assert all(answered[row] <= waited_ns for row in rows[place:] if answered.get(row, -1) >= 0)


async def a_cancelled_call_says_how_long_it_had_waited_and_a_late_one_what_became_of_it(stage: Stage) -> None:
    await stage.open("cancelled")
    await stage.see("cancelled", "abandoned")
    rows = [line for line in stage.text().splitlines() if "call search" in line]
    wanted = ("search +1 +cancelled +301ms", "search +2 +abandoned +6.0s", "search +2 +ok, late +6.5s")
    assert all(sum(bool(re.search(words, row)) for row in rows) == 1 for words in wanted), rows
    await stage.press("exclamation_mark")
    await stage.see("has:failure")
    assert re.search("abandoned +6.0s", stage.text())
    await stage.press("exclamation_mark", "s")
    await stage.see("by latency ▼")
    reading, view = stage.traffic.reading, stage.traffic.listing.rows.view
    assert [reading.index.kind(row) for row in view[:3]] == ["response", "request", "request"]
    await stage.press("s", "s")
    await stage.see("by status ▼")


async def errors_only_includes_the_calls_that_got_no_response(stage: Stage) -> None:
    await stage.open("unanswered")
    await stage.press("exclamation_mark")
    await stage.see("has:failure  3 of 11 frames")
    assert [line.split()[-1] for line in stage.text().splitlines() if "tools/call" in line] == [
        '{"n":99}',
        '{"n":7}',
        '{"n":8}',
    ]
    await stage.press("exclamation_mark")
    await stage.see("found 1")


def test_a_call_that_hangs_grows_older(tmp_path: Path) -> None:
    path = tmp_path / "library" / "20261121T101502Z-4f2a.mcpcap"
    path.parent.mkdir()
    live = CaptureFile(path)
    began_ns = time.time_ns() - 60_000_000_000
    middles = [("header", header(name="library", wall_ns=began_ns)), *conversation(1)[1:]]
    for number, (rec, middle) in enumerate(middles):
        live.append(seal(number, number * 1_000_000, rec, middle))

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.until(lambda: re.search(r"1 wait \d+m\d\ds", stage.text()))
        await stage.press("enter")
        await stage.see("waiting")
        before = waited_s(stage.text())
        assert before >= 60
        await stage.until(lambda: waited_s(stage.text()) > before)

    play(act, path, size=(140, 40))
    live.close()


def test_calls_that_were_abandoned(tmp_path: Path) -> None:
    unanswered = record(tmp_path / "unanswered/x.mcpcap", [*HUNG[:-1], frame_record("c2s", CALL % (8, 8)), END])
    sent = [*conversation(1)[:4], *(frame_record("c2s", CALL % (n, n)) for n in (1, 2))]
    gone = [frame_record("c2s", CANCELLED.replace(b"Request timed out", b"") % n) for n in (1, 2)]
    middles = [*sent, *gone, frame_record("s2c", FINE % (2, 2)), END]
    cancelled = timed(tmp_path / "cancelled/x.mcpcap", middles, [0, 1, 2, 3, 10, 10, 311, 6010, 6500, 6501])
    acts: tuple[Act, ...] = (
        a_cancelled_call_says_how_long_it_had_waited_and_a_late_one_what_became_of_it,
        an_abandoned_call_is_told_in_every_list,
        a_call_that_was_abandoned_is_sorted_by_how_long_it_waited,
        errors_only_includes_the_calls_that_got_no_response,
    )
    play_each(acts, hung(tmp_path), unanswered, cancelled, size=(140, 40))
