"""Trace events: no registry carries Perfetto's own processor, so the rules of the format are tested one by one.

The `perfetto` package of PyPI downloads that program when it is first used, from a place that tests may not reach.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.store.capture_writer import MS, OPENED, CaptureWriter
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.exporters.recorded import (
    BY_LATE_RESPONSE,
    being_recorded,
    corpus,
    counted,
    late,
    never_answered,
)

Event = dict[str, Any]


def events(out: Path, *arguments: str | Path) -> list[Event]:
    done = mcpproxy("export", "--format", "perfetto", "--force", "-o", out, *arguments)
    assert done.returncode == 0, complaints(done)
    trace = json.loads(out.read_bytes())
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    found: list[Event] = trace["traceEvents"]
    check(found)
    return found


def check(found: list[Event]) -> None:
    """Check what the format requires of all events."""
    assert {event["ph"] for event in found} <= set("MbeXsfC")
    assert all(event["ph"] == "M" or event["ts"] >= 0 for event in found)
    check_calls(found)
    slices = check_messages(found)
    check_arrows(found, slices)
    named = {(event["name"], event["pid"], event["tid"]) for event in found if event["ph"] == "M"}
    assert {("process_name", event["pid"], 0) for event in found} <= named
    assert {("thread_name", pid, tid) for pid, tid in slices} <= named


def check_calls(found: list[Event]) -> None:
    # Async pairs: one `b` and one `e` for each id, with one name and category, in this order.
    pairs = defaultdict(list)
    for event in found:
        if event["ph"] in "be":
            pairs[event["pid"], event["cat"], event["id"]].append(event)
    for begin, end in pairs.values():
        assert (begin["ph"], end["ph"], begin["name"]) == ("b", "e", end["name"])
        assert begin["ts"] <= end["ts"]


Slices = dict[tuple[int, int], list[tuple[float, float]]]


def check_messages(found: list[Event]) -> Slices:
    # Slices of a thread must nest; these never overlap.
    slices: Slices = defaultdict(list)
    for event in found:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["dur"]))
    for of_thread in slices.values():
        until = 0.0
        for start, length in sorted(of_thread):
            assert start >= until - 0.001
            until = start + length
    return slices


def check_arrows(found: list[Event], slices: Slices) -> None:
    # An arrow is drawn only if it begins and ends in a slice of its thread.
    flows = defaultdict(list)
    for event in found:
        if event["ph"] in "sf":
            flows[event["pid"], event["id"]].append(event)
            inside = slices[event["pid"], event["tid"]]
            assert any(start <= event["ts"] <= start + length for start, length in inside)
    for begin, end in flows.values():
        assert (begin["ph"], end["ph"], end["bp"]) == ("s", "f", "e")
        assert begin["ts"] <= end["ts"]


def test_each_call_is_a_pair_and_each_message_a_slice(stdio: Path, http: Path, tmp_path: Path) -> None:
    for capture in (stdio, http):
        found = events(tmp_path / "out.json", capture)
        calls = counted(capture, folder=tmp_path / "tables")
        messages = counted(capture, folder=tmp_path / "tables", table="frames")
        counts = Counter(event["ph"] for event in found)
        assert (counts["b"], counts["e"]) == (calls, calls)
        assert counts["X"] == messages


def check_corpus(every: int, folder: Path) -> None:
    """Check that one in `every` conversations follows the format."""
    captures = corpus(folder / "captures", every)
    found = events(folder / "out.json", folder / "captures")
    assert Counter(event["ph"] for event in found)["b"] == counted(folder / "captures", folder=folder / "tables")
    assert len({event["pid"] for event in found}) > len(captures) / 2


@pytest.mark.costly("it exports a share of the corpus")
def test_conversations_of_the_corpus_follow_the_format(tmp_path: Path) -> None:
    check_corpus(40, tmp_path)


@pytest.mark.soak
def test_every_conversation_of_the_corpus_follows_the_format(tmp_path: Path) -> None:
    check_corpus(1, tmp_path)


def test_an_arrow_leads_to_what_the_server_asks_in_the_course_of_a_call(http: Path, tmp_path: Path) -> None:
    found = events(tmp_path / "out.json", http)
    begins = {event["name"]: event for event in found if event["ph"] == "b"}
    (start,) = [event for event in found if event["ph"] == "s"]
    (end,) = [event for event in found if event["ph"] == "f"]
    assert start["ts"] == begins["tools/call add"]["ts"]
    assert (end["ts"], end["tid"]) == (begins["roots/list"]["ts"], begins["roots/list"]["tid"])


def test_captures_share_one_clock_and_servers_of_one_name_one_process(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b", "a")):
        one = CaptureWriter(tmp_path / f"{number}.mcpcap", name, number, OPENED + number * 1000 * MS)
        one.handshake(5)
        one.close()
    found = events(tmp_path / "out.json", tmp_path)
    assert sorted(event["ts"] for event in found if event["ph"] == "b") == [5_000, 1_005_000, 2_005_000]
    assert {event["args"]["name"] for event in found if event["name"] == "process_name"} == {"a", "b"}
    assert len({event["pid"] for event in found}) == 2
    assert len({(event["pid"], event["tid"]) for event in found if event["ph"] == "X"}) == 6


def test_counters_say_how_much_waits(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1)
    one.handshake()
    one.call(20, 2, "a")
    one.call(21, 3, "b")
    one.answer(30, 3, content=[])
    one.answer(40, 2, content=[])
    found = events(tmp_path / "out.json", one.close())
    waiting = [(event["ts"], event["args"]["requests"]) for event in found if event["name"] == "requests waiting"]
    assert waiting == [(0, 1), (10_000, 0), (20_000, 1), (21_000, 2), (30_000, 1), (40_000, 0)]
    held = [event["args"]["bytes"] for event in found if event["name"] == "bytes waiting"]
    assert held[-1] == held[1] == 0 < held[2] < held[3]


def test_a_call_ends_with_its_cancellation_and_says_how_late_its_response_was(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1)
    one.handshake()
    one.call(100, 2, "late")
    one.call(110, 3, "left")
    one.say(503, "c2s", method="notifications/cancelled", params={"requestId": 2, "reason": "Request timed out"})
    one.say(510, "c2s", method="notifications/cancelled", params={"requestId": 3})
    one.answer(1108, 2, content=[])
    found = events(tmp_path / "out.json", one.close())
    begins = {event["name"]: event for event in found if event["ph"] == "b"}
    ends = {event["id"]: event["ts"] for event in found if event["ph"] == "e"}
    told = {}
    for name, begin in begins.items():
        arguments = begin["args"]
        lasted_us = ends[begin["id"]] - begin["ts"]
        told[name] = lasted_us, arguments["outcome"], arguments.get("cancelled"), arguments.get("late_ms")
    assert told == {
        "initialize": (10_000, "result", None, None),
        "tools/call late": (403_000, "result", "abandoned", 605),
        "tools/call left": (400_000, "cancelled", "cancelled", None),
    }


def lengths_ms(found: list[Event]) -> dict[str, float]:
    """Returns how long each call is drawn, by name."""
    ends = {event["id"]: event["ts"] for event in found if event["ph"] == "e"}
    return {event["name"]: (ends[event["id"]] - event["ts"]) / 1e3 for event in found if event["ph"] == "b"}


def test_an_unanswered_call_ends_with_its_server(tmp_path: Path) -> None:
    found = events(tmp_path / "out.json", never_answered(tmp_path / "one.mcpcap"))
    assert lengths_ms(found)["tools/call hung"] == 600


def test_a_call_that_waits_in_a_live_capture_is_drawn_until_now(tmp_path: Path) -> None:
    with being_recorded(tmp_path / "one.mcpcap") as path:
        found = events(tmp_path / "out.json", path)
    assert lengths_ms(found)["tools/call hung"] >= 59_900


def test_a_filter_selects_a_call_by_its_late_response(tmp_path: Path) -> None:
    path = late(tmp_path / "one.mcpcap")
    for text in BY_LATE_RESPONSE:
        found = events(tmp_path / "out.json", "--filter", text, path)
        assert [event["name"] for event in found if event["ph"] == "b"] == ["tools/call late"], text
        counts = [event["args"]["requests"] for event in found if event["name"] == "requests waiting"]
        assert counts[-1] == 0, text


def test_a_filter_selects_calls(stdio: Path, tmp_path: Path) -> None:
    found = events(tmp_path / "out.json", "--filter", "method:tools/call", stdio)
    begins = [event for event in found if event["ph"] == "b"]
    assert len(begins) == counted(stdio, folder=tmp_path / "tables", where="method = 'tools/call'")
    assert all(event["name"].startswith("tools/call") for event in begins)
