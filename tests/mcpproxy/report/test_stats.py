"""The screen of `stats`: it fits, hides nothing bad, and shows untrusted text safely."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.store.stats import (
    AbandonedRequests,
    Count,
    DeclaredExtension,
    Latency,
    LatencySortKey,
    SessionTime,
    Startup,
    ToolCost,
    ToolTime,
    Totals,
    UnansweredRequests,
)
from analysis.store.turn_figures import ClientFigures
from mcpproxy.report.stats import MIN_WIDTH, SHAPE_CELLS, TrafficStats, as_objects, as_text
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.blocks import BLOCKS, distribution_text
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Style

TOTALS = Totals(3, 2, 1, 4, 4812, 1_000_000, 362_000_000_000, 0, 0, 0, 0, 0, 0)


def stats(name: str = "search", **changes: object) -> TrafficStats:
    """Returns one of everything, with the given name in each place for untrusted text."""
    took = 120.0, 410.0, 1920.0, 4100.0, 134_000.0
    row = Latency("server", f"tools/call {name}", 812, 800, 24, 0.03, *took, {6: 3, 7: 9, 11: 1})
    made = TrafficStats(
        TOTALS,
        "call",
        [row, row._replace(server=name, errors=0, error_share=0.0)],
        [Count("-32602 Invalid params", 3, name), Count("tool error", 21, name)],
        True,
        [Count("id/type-changed", 1, name)],
        [],
        [AbandonedRequests(f"tools/call {name}", 2, 1, 35_012.0, 38, name, 1500.0, 1, f"/a/{name}.mcpcap", 40, name)],
        [
            UnansweredRequests(
                f"tools/call {name}", 12, [411, 412, 413, 414], 1, 2, 3, 1, f"/a/{name}.mcpcap", 12_000.0, None, None
            )
        ],
        [ToolCost("server", name, 9100, 2275, 0), ToolCost("server", "b", 2200, 550, 3)],
        Startup(3, 1210.0, 880.0, 40.0, None, 290.0, 0, 3, 3, 0, 3, 0),
        SessionTime(320_000.0, 12_300.0, 307_700.0, 9_000.0, 0.0, 12),
        [ToolTime("server", name, 8200.0), ToolTime("server", "b", 2100.0)],
    )
    return made._replace(**changes)  # type: ignore[arg-type]  # named as in the class


def text(what: TrafficStats, width: int = 80) -> str:
    return "\n".join(as_text(what, Style(), width))


def test_everything_is_on_the_screen() -> None:
    shown = text(stats())
    assert shown.splitlines()[0] == "3 captures · 2 servers · 1 client · 4,812 frames · 1.0 MB · 6 min 02 s"
    for row in (
        "  tools/call search         812   3%  120 ms  410 ms   1.9 s   4.1 s  ▃█   ▁",
        "ERRORS                         24   -32602 Invalid params 3 · tool error 21",
        "ID MISMATCHES                   1   id/type-changed 1 (search)",
        "LIFECYCLE VIOLATIONS            0",
        "UNANSWERED                     12   tools/call search (frames 411, 412, 413, …",
        "DEFINITIONS COST          11.3 kB   ≈ 2,825 tokens (estimate) · search 9.1 kB ·",
        "START-UP                    1.2 s   process 880 ms · initialize 40.0 ms · first",
        "TIME                   5 min 20 s   server 12.3 s (4%, 12 requests unanswered) ·",
        "TOOL TIME                  10.3 s   search 8.2 s · b 2.1 s",
    ):
        assert row in shown.splitlines(), (row, shown)
    words = " ".join(shown.split())
    assert "ABANDONED 2 tools/call search 2 (1 answered late), the longest after 35.0 s (frame 38 of search" in words
    assert "client 5 min 08 s (the server waited for 9.0 s of it) · stalled 0 ms" in words


def test_logins_are_counted_if_there_are_any() -> None:
    assert "LOGINS" not in text(stats())
    logins = [Count("granted", 1200, None), Count("failed", 2, "token 400 invalid_\x1b[0mgrant")]
    shown = text(stats(logins=logins), 120)
    assert "LOGINS                      1,202   granted 1,200 · failed 2 (token 400 invalid_\\x1b[0mgrant)" in shown
    totals, *figures = as_objects(stats(logins=logins))
    assert (totals["logins"], totals["failed_logins"]) == (1202, 2)
    assert [figure["times"] for figure in figures if figure["figure"] == "logins"] == [1200, 2]


def test_turns_and_conversations_are_counted_if_clients_name_any() -> None:
    assert "TURNS" not in text(stats())
    clients = [ClientFigures("c\x1b[0m", 20, 3, 12, 0), ClientFigures(None, 2, 0, 0, 2)]
    assert "TURNS                          12   c\\x1b[0m: 12 in 3 conversations" in text(stats(clients=clients))


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (79, ["n", "err", "p50", "p95", "p99", "max"]),
        (60, ["n", "err", "p50", "p95", "max"]),
        (52, ["n", "err", "p50", "max"]),
        (44, ["n", "err", "p50"]),
        (36, ["n", "err"]),
        (MIN_WIDTH, ["n"]),
    ],
)
def test_names_stay_readable_where_there_is_little_room(width: int, columns: list[str]) -> None:
    row = stats().latency[0]._replace(what="tools/call forecast_daily")
    lines = text(stats(latency=[row]), width).splitlines()
    head, line = lines[lines.index("") + 1 :][:2]
    assert head.split() == ["LATENCY", *columns]
    assert line.split()[1][:8] == "forecast"
    assert not set(line) & set(BLOCKS)
    assert "3%" in line or "err" not in columns


@pytest.mark.parametrize(
    ("sort", "column"), [("n", "n"), ("errors", "err"), ("p95", "p95"), ("max", "max"), ("total", "total")]
)
@pytest.mark.parametrize("width", [MIN_WIDTH, 44, 60, 79])
def test_the_column_by_which_rows_are_sorted_is_never_left_out(sort: LatencySortKey, column: str, width: int) -> None:
    lines = text(stats(sort=sort), width).splitlines()
    assert column in lines[lines.index("") + 1].split()
    assert max(map(cells, lines)) <= width


def test_totals_take_the_room_that_shapes_leave() -> None:
    row = stats().latency[0]._replace(what="ping")
    for width, has_total in ((72, False), (80, True)):
        head, line = text(stats(latency=[row]), width).splitlines()[2:4]
        assert set(line) & set(BLOCKS)
        assert (head.split()[-1] == "total", "2 min 14 s" in line) == (has_total, has_total)


def test_a_session_without_requests_has_no_share() -> None:
    shown = text(stats(time=SessionTime(0.0, 0.0, 0.0, 0.0, 0.0, 0), tool_times=[])).splitlines()
    assert f"{'TIME':<22}{'0 ms':>11}   server 0 ms · client 0 ms · stalled 0 ms" in shown
    assert not [line for line in shown if line.startswith("TOOL TIME")]


def test_short_names_leave_room_for_columns_and_shapes() -> None:
    row = stats().latency[0]._replace(what="ping")
    head, line = text(stats(latency=[row]), 72).splitlines()[2:4]
    assert head.split() == ["LATENCY", "n", "err", "p50", "p95", "p99", "max"]
    assert set(line) & set(BLOCKS)


@pytest.mark.parametrize("width", [MIN_WIDTH, 40, 60, 80, 120])
def test_names_that_begin_alike_are_told_apart(width: int) -> None:
    row = stats().latency[0]
    rows = [row._replace(what=f"resources/read memory://library/shelf/{name}") for name in ("one", "two")]
    shown = text(stats(latency=rows), width)
    assert "elf/one " in shown
    assert "elf/two " in shown


def test_the_shape_goes_before_a_name_is_cut() -> None:
    row = stats().latency[0]._replace(what="tools/call forecast_of_next_week")
    line = text(stats(latency=[row])).splitlines()[3]
    assert line.startswith("tools/call forecast_of_next_week ")
    assert not set(line) & set(BLOCKS)
    assert set(text(stats(latency=[row]), 100).splitlines()[3]) & set(BLOCKS)


def test_no_line_tells_of_one_row_that_would_fit_as_well() -> None:
    row = stats().latency[0]
    shown = text(stats(latency=[row._replace(what=f"call {number}") for number in range(21)]))
    assert "call 20 " in shown
    assert "more row" not in shown


def test_on_a_narrow_screen_details_stand_below() -> None:
    shown = text(stats(), 40).splitlines()
    at = shown.index(f"{'ERRORS':<22}{24:>14}")
    assert shown[at + 1] == "  -32602 Invalid params 3 · tool error"


def test_a_busy_server_leaves_room_for_the_others() -> None:
    row = stats().latency[0]
    rows = [row._replace(server="busy", what=f"call {number}") for number in range(30)] + [row._replace(server="idle")]
    shown = text(stats(latency=rows)).splitlines()
    assert shown.index("busy") < shown.index("idle")
    assert sum(line.startswith("  call ") for line in shown) == 10
    assert "  and 20 more rows (show them with --json)" in shown
    assert "  and 11 more rows (show them with --json)" in text(stats(latency=[*rows[:30], rows[0]])).splitlines()


def test_what_nobody_looked_for_is_not_called_none() -> None:
    shown = text(stats(has_findings=False, id_mismatches=[], lifecycle_violations=[]))
    assert "ID MISMATCHES                   ?   the rules did not run" in shown
    assert "LIFECYCLE VIOLATIONS            ?   the rules did not run" in shown
    assert "ID MISMATCHES                 1 +" in text(stats(has_findings=False))


@pytest.mark.parametrize(("share", "shown"), [(None, "–"), (0.0, "0%"), (0.0001, "1%"), (0.9999, "99%"), (1.0, "100%")])
def test_an_error_is_never_rounded_away(share: float | None, shown: str) -> None:
    row = stats().latency[0]._replace(error_share=share)
    (line,) = (line for line in text(stats(latency=[row])).splitlines() if "tools/call search" in line and "ms" in line)
    assert line.split()[3] == shown


@given(st.dictionaries(st.integers(-10, 40), st.integers(1, 10**6), min_size=1, max_size=20))
def test_a_shape_fits_and_shows_every_answer(buckets: dict[int, int]) -> None:
    drawn = distribution_text(buckets, SHAPE_CELLS)
    assert len(drawn) <= SHAPE_CELLS
    assert set(drawn) <= {*BLOCKS, " "}
    assert BLOCKS[-1] in drawn
    assert drawn[0] != " "
    assert drawn[-1] != " "


@given(st.text(max_size=200), st.integers(MIN_WIDTH, 200))
def test_foreign_text_neither_acts_nor_breaks_a_line(name: str, width: int) -> None:
    for line in text(stats(name), width).split("\n"):
        assert cells(line) <= width
        assert sanitise(line, None) == line


def test_what_may_hold_an_answer_is_called_what_it_is() -> None:
    shown = " ".join(text(stats(), 200).split())
    assert "1 may still be answered · responses to 2 may be among the lost records" in shown
    assert "responses to 3 may be in frames that could not be parsed" in shown


def test_numbers_of_frames_come_with_their_capture() -> None:
    one = stats().unanswered[0]
    assert "413, … of search, waiting for 12.0 s) · 1 may" in text(stats(), 120)
    alone = stats(totals=TOTALS._replace(captures=1))
    assert "413, …, waiting for 12.0 s) · 1 may" in text(alone, 120)
    several = stats(unanswered=[one._replace(captures=3, requests=[52, 52, 52], times=3)])
    assert "tools/call search 3 in 3 captures · 1 may" in text(several, 120)


def test_the_answer_with_a_wrong_id_is_named() -> None:
    one = stats(totals=TOTALS._replace(captures=1)).unanswered[0]
    alone = one._replace(times=1, requests=[9], live=0, probable_answer=12, probable_answer_id="99")
    for row, words in (
        (alone, "(frame 9, probably answered by frame 12 with id 99)"),
        (alone._replace(probable_answer_id=None), "(frame 9, probably answered by frame 12 without an id)"),
        (
            alone._replace(times=2, requests=[9, 14]),
            "(frames 9, 14, the first probably answered by frame 12 with id 99)",
        ),
    ):
        shown = " ".join(text(stats(totals=TOTALS._replace(captures=1), unanswered=[row]), 200).split())
        assert words in shown
    assert "probably answered by frame 40 with id search)" in " ".join(text(stats(), 200).split())


def test_captures_that_do_not_end_are_told() -> None:
    head = text(stats(totals=TOTALS._replace(live=1, cut_off=2)), 140).splitlines()[0]
    assert head.endswith(" · 6 min 02 s · 1 still being recorded · 2 cut off, as if killed")


def test_a_part_of_the_start_says_of_how_many_sessions_it_is() -> None:
    some = Startup(3, 540.0, 300.0, 499.0, None, 40.0, 0, 1, 3, 0, 2, 0)
    shown = " ".join(text(stats(startup=some), 120).split())
    assert "process 300 ms (of 1 session) · initialize 499 ms · first list 40.0 ms (of 2 sessions)" in shown


def test_declared_extensions_are_listed_by_side() -> None:
    declared = [
        DeclaredExtension("client", "io.modelcontextprotocol/ui", 2),
        DeclaredExtension("server", "com.example/\x1b[1m", 1),
    ]
    shown = " ".join(text(stats()._replace(extensions=declared), 120).split())
    assert "EXTENSIONS 2 client Apps · server com.example/\\x1b[1m (unknown)" in shown


def test_a_start_without_a_handshake_names_the_request_that_was_timed() -> None:
    some = Startup(3, 540.0, None, 499.0, None, 40.0, 0, 0, 3, 0, 3, 3)
    assert "START-UP 540 ms server/discover 499 ms" in " ".join(text(stats(startup=some), 120).split())
    some = some._replace(discover_sessions=1)
    assert "initialize or server/discover 499 ms" in " ".join(text(stats(startup=some), 120).split())


def test_tools_of_several_servers_are_named_with_theirs() -> None:
    both = [ToolCost(server, "never_used", 275, 69, 0) for server in ("weather", "notes")]
    assert "never_used (weather) 275 B · never_used (notes) 275 B" in text(stats(definitions=both), 120)
    assert "· never_used 275 B" in text(stats(definitions=both[:1]), 120)


def test_where_the_process_is_in_the_answer_it_is_said_so() -> None:
    silent = Startup(1, 540.0, None, 499.0, 1.0, 40.0, 1, 0, 1, 1, 1, 0)
    assert "initialize 499 ms, including the start of the process" in text(stats(startup=silent), 120)
    some = Startup(3, 540.0, 300.0, 499.0, 1.0, 40.0, 2, 3, 3, 3, 3, 0)
    assert "initialize 499 ms, including the start of the process in 2 sessions" in text(stats(startup=some), 120)


def test_nothing_at_all_is_a_screen_as_well() -> None:
    empty = stats(latency=[], errors=[], id_mismatches=[], unanswered=[], definitions=[], startup=None)
    shown = text(empty._replace(totals=Totals(*[0] * 13)))
    assert "no request was seen" in shown
    assert "START-UP" not in shown
