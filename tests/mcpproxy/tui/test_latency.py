"""Latency: the counts match the exchanges, regardless of their names, and also while the capture grows."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.call import Call, Outcome
from analysis.conversation.durations import Durations
from analysis.conversation.message import Request, messages
from analysis.filter import Facts, parse
from captures.envelope import judge
from captures.file import CaptureFile
from captures.frame import Frame
from mcpproxy.tui.data.call_kinds import MAX_CALL_KINDS, CallKind, CallKinds
from mcpproxy.tui.data.columns import OUTCOMES
from mcpproxy.tui.data.durations_over_time import SLICES, DurationsOverTime
from mcpproxy.tui.data.latencies import Distribution, KindFigures, Latencies
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.rows.latency_lines import bucket_filter, buckets_of, over_time_lines
from mcpproxy.tui.rows.latency_rows import LatencyRows
from mcpproxy.wording.blocks import blocks, compress, distribution_text
from mcpproxy.wording.units import brief_duration
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.hostile import HOSTILE_NAMES, hostile_calls
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    WRONG,
    captured,
    conversation,
    frame_record,
    record,
)

MS = 1_000_000


def counted(path: Path) -> tuple[Latencies, Reading]:
    """The latencies of a capture that was read to its end, and its reading."""
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    latencies = Latencies(reading)
    while latencies.step():
        pass
    return latencies, reading


class TestDurations:
    """How durations changed over time, and how they are drawn."""

    @given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 2**30)), min_size=1, max_size=60))
    def test_a_course_keeps_all(self, ends: list[tuple[int, int]]) -> None:
        course = DurationsOverTime()
        for t_ns, ns in ends:
            course.add(t_ns, ns)
        found = course.quantiles(1.0)
        assert len(found) <= SLICES
        last = max(t_ns for t_ns, _ in ends)
        assert len(found) == last // course.slice_ns + 1
        assert max(value or 0 for value in found) == pytest.approx(max(ns for _, ns in ends), rel=0.04, abs=1)

    def test_every_count_is_drawn(self) -> None:
        assert blocks([1, 0, None, 1000, 500]) == "▁  █▄"
        assert blocks([0, None]) == "  "
        assert compress([1, None, 3, None, None, 2], 3) == [1, 3, 2]
        assert compress([1, 2], 10) == [1, 2]
        assert distribution_text({}, 10) == ""
        assert distribution_text({3: 1, 4: 0, 30: 9}, 10) == "▁        █"

    @pytest.mark.parametrize(
        ("ns", "text"),
        [(None, "–"), (0, "0µs"), (341_000, "341µs"), (1_500_000, "1.5ms"), (410_000_000, "410ms"),
         (1_940_000_000, "1.9s"), (999_400_000_000, "16m39s"), (3_600_000_000_000, "1h00m")],
    )  # fmt: skip
    def test_durations_are_short(self, ns: int | None, text: str) -> None:
        assert brief_duration(ns) == text
        assert len(text) <= 6


class TestCounts:
    """What the screen counts."""

    def test_counts_are_those_of_the_exchanges(self, tmp_path: Path) -> None:
        latencies, reading = counted(captured(tmp_path, calls=30))
        (tool,) = (one for one in latencies.rows if one.kind.name == "search")
        assert (tool.kind.method, tool.kind.side) == ("tools/call", "client")
        assert (tool.requests, tool.answered, tool.errors) == (31, 30, 10)
        assert tool.p50_ns == pytest.approx(1_000_000, rel=0.03)
        assert tool.max_ns == 1_000_000
        (first,) = (one for one in latencies.rows if one.kind.method == "initialize")
        assert (first.requests, first.answered, first.kind.name) == (1, 1, None)
        assert sum(one.requests for one in latencies.rows) == len(reading.calls)
        reading.close()

    def test_a_cancelled_request_counts_as_no_answer(self, tmp_path: Path) -> None:
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'
        middles = [("header", header()), frame_record("c2s", CALL % (1, 1)), frame_record("c2s", cancel % 1)]
        middles += [
            frame_record("s2c", FINE % (1, 1)),
            frame_record("c2s", CALL % (2, 2)),
            frame_record("c2s", cancel % 2),
        ]
        middles += [frame_record("c2s", CALL % (3, 3)), frame_record("s2c", WRONG % 3), END]
        latencies, reading = counted(record(tmp_path / "x.mcpcap", middles))
        (only,) = latencies.rows
        assert (only.requests, only.answered, only.late, only.errors) == (3, 1, 1, 1)
        assert [OUTCOMES[code] for code in reading.calls.outcome] == [
            Outcome.RESULT, Outcome.CANCELLED, Outcome.ERROR,
        ]  # fmt: skip
        reading.close()

    def test_both_sides_ask_for_themselves(self, tmp_path: Path) -> None:
        ping = b'{"jsonrpc":"2.0","id":5,"method":"ping"}'
        pong = b'{"jsonrpc":"2.0","id":5,"result":{}}'
        middles = [
            frame_record("c2s", ping),
            frame_record("s2c", pong),
            frame_record("s2c", ping),
            frame_record("c2s", pong),
        ]
        latencies, reading = counted(record(tmp_path / "x.mcpcap", [("header", header()), *middles, END]))
        assert [one.kind.text for one in latencies.rows] == ["ping", "← ping"]
        assert [one.answered for one in latencies.rows] == [1, 1]
        reading.close()

    def test_a_file_that_grows_counts_the_same(self, tmp_path: Path) -> None:
        rng, known = random.Random(2), lines([*conversation(60), END])
        made = CaptureFile(tmp_path / "x.mcpcap")
        made.append(known[0])
        reading = Reading(tmp_path / "x.mcpcap")
        latencies = Latencies(reading)
        latencies.choose_kind(1)
        for line in known[1:]:
            made.append(line)
            for _ in range(rng.randrange(3)):
                reading.step()
                latencies.step()
        made.close()
        while not reading.has_ended or latencies.step():
            reading.step()
            latencies.step()
        again, other = counted(tmp_path / "x.mcpcap")
        again.choose_kind(1)
        while again.step():
            pass
        assert latencies.rows == again.rows
        assert latencies.distribution == again.distribution
        assert again.distribution is not None
        assert again.distribution.is_whole
        assert sum(again.distribution.parts.values()) == 60
        reading.close()
        other.close()

    def test_kinds_are_bounded(self) -> None:
        raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
        (request,) = messages(Frame(1, 0, "c2s", raw, judge(raw, "c2s")))
        assert isinstance(request, Request)

        def named(number: int) -> Call:
            call = Call(request)
            call.name = f"t{number}"
            return call

        kinds = CallKinds()
        numbers = [kinds.register(named(number)) for number in range(MAX_CALL_KINDS + 50)]
        assert len(kinds.all) == MAX_CALL_KINDS + 1
        assert set(numbers[MAX_CALL_KINDS:]) == {MAX_CALL_KINDS}
        assert kinds.register(named(3)) == 3
        assert kinds.all[MAX_CALL_KINDS].filter_expression is None

    def test_its_filter_selects_a_kind(self, tmp_path: Path) -> None:
        path = record(
            tmp_path / "x.mcpcap",
            [*hostile_calls(), frame_record("c2s", b'{"jsonrpc":"2.0","id":77,"method":"m"}'), END],
        )
        _, reading = counted(path)
        for number, call in enumerate(reading.kinds.all[: len(HOSTILE_NAMES)]):
            assert call.filter_expression is not None
            scan = Scan(reading, parse(call.filter_expression))
            while not scan.has_ended:
                scan.step()
            assert list(scan.rows) == [1 + 2 * number, 2 + 2 * number], call
            scan.close()
        reading.close()

    @pytest.mark.parametrize("method", ["and", "a(b", "tools/*", "x" * 300, 'q"', "\x00"])
    def test_any_method_has_a_filter(self, method: str) -> None:
        call = CallKind("client", method[:256], None)
        assert call.filter_expression is not None
        assert parse(call.filter_expression).text


class TestScreen:
    """What the keys of the screen do."""

    @given(st.lists(st.integers(0, 2**50), min_size=1), st.integers(0, 60))
    def test_a_buckets_filter_selects_what_it_counts(self, values: list[int], max_buckets: int) -> None:
        durations = Durations()
        for value in values:
            durations.add(value)
        buckets = buckets_of(durations.parts(), max_buckets)
        assert sum(bucket.responses for bucket in buckets) == len(values)
        assert len(buckets) <= max(max_buckets, max(durations.octaves()) - min(durations.octaves()) + 1)
        for bucket in buckets[:: len(buckets) // 5 + 1]:
            tests = parse(bucket_filter(bucket))
            assert sum(tests.matches(Facts(latency_ns=value)) for value in values) == bucket.responses

    def test_buckets_are_as_fine_as_there_is_room_and_responses(self) -> None:
        durations = Durations()
        for number in range(16):
            durations.add(MS + number * MS // 5)
        begins = [[bucket.begin_ns / MS for bucket in buckets_of(durations.parts(), room)] for room in (3, 4, 8, 90)]
        assert begins == [[1, 2, 4], [1, 2, 4], [1, 1.5, 2, 3, 4], [1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4]]

    def test_p50_is_within_p95_on_one_scale(self) -> None:
        distribution = Distribution(0, {}, 10**9, (2 * MS, None, 4 * MS), (4 * MS, None, 8 * MS), is_whole=True)
        head, *chart, times = ["".join(span.text for span in line) for line in over_time_lines(distribution, 6, 4)]
        assert head == "█ p50 by time, up to 4.0ms   ⢸ p95, up to 8.0ms"
        assert chart == ["    ⢸⢸", "    ⢸⢸", "⢸⢸  ██", "██  ██"]
        assert times == "0 3.0s"
        narrow = over_time_lines(distribution, 2, 1)[1]
        assert narrow == [("⣠⣼", "plain")]
        assert over_time_lines(distribution._replace(p50_ns=(), p95_ns=()), 6, 4) == []

    @pytest.mark.parametrize("height", range(1, 9))
    def test_a_difference_of_an_eighth_between_p50_and_p95_shows(self, height: int) -> None:
        equal = Distribution(0, {}, 10**9, (height * MS, 8 * MS), (height * MS, 8 * MS), is_whole=True)
        differing = equal._replace(p50_ns=((height - 1) * MS, 8 * MS))
        (same, *_), (lower, *_) = (over_time_lines(one, 2, 1)[1] for one in (equal, differing))
        assert same.role == "accent"
        assert lower.role == "plain"
        assert lower.text not in same.text

    def test_a_single_response_is_a_mark_on_the_axis_of_the_others(self) -> None:
        rows = LatencyRows()
        call = CallKind("client", "tools/call", "x")
        often = KindFigures(0, call, 9, 0, 9, max_ns=200 * MS, octaves={0: 3, 5: 1, 7: 5})
        rows.items = [often, KindFigures(1, call, 1, 0, 1, max_ns=48 * MS, octaves={5: 1})]
        rows.axis = 0, 7
        shape = rows.fit_columns(160)[-1]
        assert (shape.title, shape.width) == ("1.0ms              256ms", 24)
        assert [line.cells["shape"][0].text for line in map(rows.line, range(2))] == [
            "▅▅▅            ▂▂▂   ███",
            "                │",
        ]
        assert rows.line(0).cells["p50"] == (("–", "dim"),)
