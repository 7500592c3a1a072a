"""`mcpproxy stats`: figures of any number of captures, and what is reported where captures are incomplete."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from analysis.store.open import sources
from analysis.store.stats import Figures, LatencySortKey, LatencySubject, figures
from mcpproxy.cli import stats as command
from mcpproxy.report.stats import as_objects, as_text, query_stats
from mcpproxy.wording.spans import Style
from tests.analysis.client_captures import LATER_TURN, TURN, write_codex, write_others
from tests.analysis.store.capture_writer import DAY, OPENED, CaptureWriter
from tests.mcpproxy.cli.typed import complaints, mcpproxy, on_terminal

CORPUS = Path(__file__).parents[2] / "corpus/captures"


def weather(path: Path) -> Path:
    """Write ten calls, one of which fails, plus one without a response and one answered with another type of id."""
    one = CaptureWriter(path, "weather", 1)
    one.handshake()
    for number in range(1, 11):
        one.call(100 * number, number, "forecast")
        if number == 5:
            one.fail(100 * number + 8, number, "\x1b[31mdown")
        else:
            one.answer(100 * number + number, number, content=[])
    one.call(2000, 20, "slow")
    one.call(2010, 21, "slow")
    one.answer(2020, "21", content=[])
    return one.close(3000)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return weather(tmp_path / "one.mcpcap")


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same capture, for tests that change nothing."""
    return weather(tmp_path_factory.mktemp("weather") / "one.mcpcap")


@pytest.fixture(scope="module")
def found(read_only: Path) -> list[dict[str, Any]]:
    """All figures of that capture."""
    return objects(read_only)


@contextmanager
def counted(*captures: Path) -> Iterator[Figures]:
    """Yields the command's figures of captures, so that not every question needs a command of its own."""
    with figures(sources(captures).readable, findings=False) as answer:
        assert answer.refused == []
        yield answer


def told(*captures: Path, width: int = 80) -> tuple[list[dict[str, Any]], str]:
    """Returns what the command prints about captures, as objects and as text."""
    with counted(*captures) as answer:
        stats = query_stats(answer, "call", has_findings=False)
    return list(as_objects(stats)), "\n".join(as_text(stats, Style.for_stream(io.StringIO(), {}), width))


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    done = mcpproxy("stats", "--json", *arguments)
    assert (done.returncode, complaints(done)) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_four_questions_are_answered(read_only: Path) -> None:
    done = mcpproxy("stats", read_only)
    assert (done.returncode, complaints(done)) == (0, b"")
    shown = done.stdout.decode()
    rows = {line[:21].strip(): re.split(r"(?<!\d) +| +(?!ms)", line[21:].strip()) for line in shown.splitlines()}
    assert rows["tools/call forecast"][:6] == ["10", "10%", "6.5 ms", "9.6 ms", "9.9 ms", "10.0 ms"]
    assert rows["ERRORS"] == ["1", "tool", "error", "1"]
    assert rows["ID MISMATCHES"][:3] == ["1", "id/type-changed", "1"]
    assert rows["UNANSWERED"][:4] == ["1", "tools/call", "slow", "(frame"]
    assert "\x1b" not in shown


def test_json_has_the_same_figures(found: list[dict[str, Any]]) -> None:
    latency = {row["what"]: row for row in found if row["figure"] == "latency"}
    assert latency["tools/call forecast"]["p50_ms"] == 6.5
    assert sum(bucket["answers"] for bucket in latency["tools/call forecast"]["histogram"]) == 10
    assert [row["what"] for row in found if row["figure"] == "id_mismatches"] == ["id/type-changed"]
    kinds = {"totals", "latency", "errors", "id_mismatches", "unanswered", "startup", "time", "tool_time", "clients"}
    assert {row["figure"] for row in found} == kinds


BY: dict[LatencySubject, list[tuple[str | None, str | None]]] = {
    "server": [("weather", None)],
    "client": [(None, "c")],
    "tool": [("weather", "forecast"), ("weather", "slow")],
    "day": [(None, "2026-11-18")],
}


def test_latencies_by_what_is_asked_for(read_only: Path) -> None:
    with counted(read_only) as answer:
        for by, rows in BY.items():
            found = answer.latency(by)
            assert [(row.server, row.what) for row in found] == rows
            assert sum(row.calls for row in found) == (12 if by == "tool" else 13), by
    shown = [row for row in objects("--by", "tool", read_only) if row["figure"] == "latency"]
    assert [(row["server"], row["what"]) for row in shown] == BY["tool"]


def test_turns_are_put_together_from_all_servers_the_worst_first(tmp_path: Path) -> None:
    paths = [*write_codex(tmp_path), *write_others(tmp_path)]
    found = objects("--by", "turn", *paths)
    turns = [row for row in found if row["figure"] == "turns"]
    assert [(row["client"], row["turn_id"]) for row in turns] == [
        ("Codex", TURN),
        ("Qwen Code", "prompt########3"),
        ("VS Code", "request_3f2a"),
        ("Codex", LATER_TURN),
    ]
    assert {name: turns[0][name] for name in ("calls", "servers", "failed", "waited_ms", "time")} == {
        "calls": 4,
        "servers": ["files", "search", "tickets"],
        "failed": 2,
        "waited_ms": 750,
        "time": "2026-11-18 11:06:40",
    }
    assert (found[0]["turns"], found[0]["turnless_calls"]) == (4, 4)
    clients = {row["client"]: row for row in found if row["figure"] == "clients"}
    assert (clients["Codex"]["turns"], clients["Codex"]["conversations"]) == (2, 1)
    assert (clients["Claude Code"]["turns"], clients["Claude Code"]["conversations"]) == (0, 1)
    assert not [row for row in found if row["figure"] == "latency"]
    with counted(*paths) as answer:
        assert [turn.calls for turn in answer.turns("n")] == [4, 1, 1, 1]
        by_client = {row.what for row in answer.latency("client")}
        assert {"Codex", "Claude Code", "gemini-cli-mcp-client"} <= by_client
        assert by_client.isdisjoint(["codex-mcp-client", "Visual Studio Code"])
        assert [turn.waited_ms for turn in answer.turns("total")] == [750, 50, 50, 10]


def test_turns_are_on_the_screen_and_have_no_percentiles(tmp_path: Path) -> None:
    done = mcpproxy("stats", "--by", "turn", *write_codex(tmp_path))
    assert re.search(r"^turn 0199…000001 of Codex +4 +3 +2 +750 ms", done.stdout.decode(), re.MULTILINE)
    hint = b"  captures that are not read may have more calls of these turns; --all reads all\n"
    assert hint in done.stdout
    assert hint not in mcpproxy("stats", "--by", "turn", "--all", tmp_path).stdout
    refused = mcpproxy("stats", "--by", "turn", "--sort", "p95", tmp_path)
    assert refused.returncode == 2
    assert b"turns cannot be sorted by p95; choose from n, errors, total" in refused.stderr


def test_no_name_and_an_empty_one_are_one_row(tmp_path: Path) -> None:
    for number, name in enumerate(("", None)):
        one = CaptureWriter(tmp_path / f"{number}.mcpcap", name, number)  # type: ignore[arg-type]  # as a stranger writes it
        info = {} if name is None else {"clientInfo": {"name": name, "version": "1"}}
        one.ask(0, 0, "initialize", protocolVersion="2025-06-18", capabilities={}, **info)
        one.call(20, 1, "")
        one.answer(21, 1, content=[])
        one.ask(30, 2, "tools/call")
        one.answer(31, 2, content=[])
        one.close()
    wanted: dict[LatencySubject, list[tuple[str | None, str | None, int]]] = {
        "call": [(None, "tools/call", 4), (None, "initialize", 2)],
        "server": [(None, None, 6)],
        "client": [(None, None, 6)],
        "tool": [(None, None, 4)],
    }
    with counted(*tmp_path.iterdir()) as answer:
        for by, rows in wanted.items():
            assert [(row.server, row.what, row.calls) for row in answer.latency(by)] == rows, by


def test_what_was_cut_off_and_what_is_not_answered_where(tmp_path: Path) -> None:
    for number in range(2):
        one = CaptureWriter(tmp_path / f"{number}.mcpcap", "weather", number)
        one.handshake()
        one.call(100, 1, "slow")
        path = one.close(200)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    (totals, *_), shown = told(*tmp_path.iterdir(), width=120)
    assert "1 cut off, as if killed\n" in shown
    assert "tools/call slow 2 in 2 captures" in shown
    assert (totals["live"], totals["cut_off"]) == (0, 1)


def test_several_captures_are_one_screen(capture: Path) -> None:
    other = CaptureWriter(capture.with_name("two.mcpcap"), "other", 2)
    other.call(1, 1, "forecast")
    other.answer(2, 1, content=[])
    other.close()
    shown = mcpproxy("stats", capture.parent).stdout.decode()
    assert shown.startswith("2 captures · 2 servers · 1 client · ")
    assert "\nother\n  tools/call forecast " in shown
    assert "\nweather\n  tools/call forecast " in shown


@pytest.mark.parametrize("columns", [40, *[pytest.param(columns, marks=pytest.mark.soak) for columns in (80, 200)]])
def test_the_screen_fits_on_a_terminal(columns: int) -> None:
    shown = on_terminal("stats", str(CORPUS / "demo.mcpcap"), columns=columns, TERM="dumb").decode()
    assert max(len(line.rstrip("\r")) for line in shown.split("\n")) <= columns
    assert "\x1b" not in shown
    assert "tools/call slow_echo " in shown


def test_shapes_are_left_out_where_they_cannot_be_written(capture: Path) -> None:
    done = mcpproxy("stats", capture, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert b"\\u258" not in done.stdout
    assert b"tools/call forecast" in done.stdout


def test_damage_and_what_cannot_be_read_are_told_and_the_rest_is_counted() -> None:
    done = mcpproxy("stats", CORPUS / "damaged.mcpcap", CORPUS / "not-a-capture.mcpcap")
    assert done.returncode == 2
    unread, damage = complaints(done).decode().splitlines()
    assert "not-a-capture" in unread
    told = f"mcpproxy: ▲ {CORPUS / 'damaged.mcpcap'}: 711 B of damage, 4 records lost; figures cover the rest"
    assert damage.startswith(told)
    assert done.stdout.startswith(b"1 capture ")
    done = mcpproxy("stats", CORPUS / "not-a-capture.mcpcap")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"nothing to count" in complaints(done)


@pytest.mark.parametrize("name", ["stats", "query", "export"])
def test_a_copy_is_told_and_counts_once(name: str, capture: Path, tmp_path: Path) -> None:
    copy = capture.with_name("two.mcpcap")
    copy.write_bytes(capture.read_bytes())
    more: dict[str, list[str | Path]] = {"stats": [], "query": ["from captures"], "export": [tmp_path / "out"]}
    done = mcpproxy(name, *more[name], tmp_path)
    assert done.returncode == 0
    assert complaints(done).startswith(b"mcpproxy: 2 files contain the same capture, which counts only once: ")
    assert complaints(done).count(b"\n") == 1
    assert re.search(rb"^1 capture |1 row$|^captures +1 row ", done.stdout, re.MULTILINE)


def test_what_the_recorder_lost_is_told_and_what_a_killed_one_leaves_is_not() -> None:
    """The torn end of a capture whose recorder was killed does not count as damage either."""
    done = mcpproxy("stats", CORPUS / "gap.mcpcap", CORPUS / "torn.mcpcap")
    assert done.returncode == 0
    assert done.stdout.startswith(b"2 captures ")
    (lost,) = complaints(done).splitlines()
    assert b"gap.mcpcap: 3 records lost; figures cover" in lost


@pytest.mark.parametrize("name", ["stats", "query", "export"])
def test_damage_is_damage_where_nothing_was_closed(name: str, tmp_path: Path) -> None:
    whole = (CORPUS / "killed.mcpcap").read_bytes().splitlines(keepends=True)
    path = tmp_path / "killed.mcpcap"
    path.write_bytes(b"".join([*whole[:-1], b"rot\n", whole[-1]]))
    more: dict[str, list[str | Path]] = {"stats": [], "query": ["from captures"], "export": [tmp_path / "out"]}
    done = mcpproxy(name, *more[name], path)
    assert done.returncode == 2
    assert f"{path}: 4 B of damage; ".encode() in complaints(done)


def test_rules_are_not_asked_about_large_captures(
    capture: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "MAX_CHECKED_BYTES", 10)
    assert command.run([str(capture)]) == 0
    assert "the rules did not run" in capsys.readouterr().out
    assert command.run(["--findings", str(capture)]) == 0
    shown = capsys.readouterr().out
    assert "the rules did not run" not in shown
    assert "id/type-changed 1" in shown


SORTED: dict[LatencySortKey, list[str]] = {
    "n": ["often", "fails", "hangs", "slow"],
    "errors": ["fails", "often", "slow", "hangs"],
    "p95": ["slow", "fails", "often", "hangs"],
    "max": ["often", "slow", "fails", "hangs"],
    "total": ["hangs", "often", "slow", "fails"],
}


def test_latencies_are_sorted_by_what_is_asked_for(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "weather", 1)
    for number, (tool, ms) in enumerate(
        [*[("often", 1)] * 30, ("often", 60), ("fails", 3), ("fails", 3), ("slow", 40)]
    ):
        one.call(100 * number, number, tool)
        if tool == "fails":
            one.fail(100 * number + ms, number, "down")
        else:
            one.answer(100 * number + ms, number, content=[])
    one.call(9000, "x", "hangs")
    path = one.close(9500)
    with counted(path) as answer:
        for sort, order in SORTED.items():
            assert [row.what for row in answer.latency("tool", sort)] == order, sort
    asked: list[str | Path] = ["--by", "tool", "--sort", "total", path]
    assert [row["what"] for row in objects(*asked) if row["figure"] == "latency"] == SORTED["total"]
    shown = mcpproxy("stats", *asked).stdout.decode()
    assert re.findall(r"^(often|fails|slow|hangs) ", shown, re.MULTILINE) == SORTED["total"]


def test_days_come_in_their_order_unless_another_is_asked_for(tmp_path: Path) -> None:
    for day, calls in enumerate((1, 3, 2)):
        one = CaptureWriter(tmp_path / f"{day}.mcpcap", "weather", day, OPENED + day * DAY)
        for number in range(calls):
            one.call(number, number, "forecast")
        one.close()
    days = ["2026-11-18", "2026-11-19", "2026-11-20"]
    with counted(*tmp_path.iterdir()) as answer:
        assert [row.what for row in answer.latency("day")] == days
        assert [row.what for row in answer.latency("day", "n")] == [days[1], days[2], days[0]]


def test_whose_time_it_was(found: list[dict[str, Any]]) -> None:
    busy = 10 + sum((8 if number == 5 else number) for number in range(1, 11)) + 1000
    time = {"session_ms": 3000, "server_ms": busy, "client_ms": 3000 - busy, "waiting_ms": 0, "stalled_ms": 0}
    assert [row for row in found if row["figure"] == "time"] == [{"figure": "time", **time, "unanswered": 1}]
    tools = {row["tool"]: row["total_ms"] for row in found if row["figure"] == "tool_time"}
    assert tools == {"slow": 1010, "forecast": 58}
    assert found[0].items() >= {**time, "tool_ms": 1068}.items()
    (latency,) = (row for row in found if row["figure"] == "latency" and row["what"] == "tools/call slow")
    assert latency["total_ms"] == 1010


def test_time_in_which_a_tool_waited_for_the_client_is_not_the_tool_s(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "weather", 1)
    one.call(0, 1, "book")
    one.say(10, "s2c", id=1, method="elicitation/create", params={"message": "when?", "requestedSchema": {}})
    one.say(90, "c2s", id=1, result={"action": "decline"})
    one.answer(100, 1, content=[])
    found, shown = told(one.close())
    assert [row["total_ms"] for row in found if row["figure"] == "tool_time"] == [20]
    (latency,) = (row for row in found if row["figure"] == "latency" and row["what"] == "tools/call book")
    assert latency["total_ms"] == 100
    assert (
        "TIME 100 ms server 20.0 ms (20%) · client 80.0 ms (the server waited for 80.0 ms of it) · stalled 0 ms"
        in " ".join(shown.split())
    )


def test_durations_that_add_up_to_more_than_any_number_are_cut(tmp_path: Path) -> None:
    long_ms = 3 * 2**61 / 1e6
    captures = [CaptureWriter(tmp_path / f"{number}.mcpcap", "a", number).close(long_ms) for number in (1, 2)]
    (totals, *_), _ = told(*captures)
    assert totals["duration_ns"] == 2**63 - 1


def test_every_figure_is_there_where_nothing_was_said(tmp_path: Path) -> None:
    (totals, *rest), _ = told(CaptureWriter(tmp_path / "none.mcpcap", "weather", 1).close())
    names = ["session_ms", "server_ms", "client_ms", "waiting_ms", "stalled_ms", "tool_ms"]
    assert [totals[name] for name in names] == [0] * len(names)
    assert [row["figure"] for row in rest] == ["time"]


def test_a_name_cannot_become_a_part_of_a_statement(tmp_path: Path) -> None:
    name = "x'); drop table captures; --"
    one = CaptureWriter(tmp_path / "x.mcpcap", name, 1)
    one.call(1, 1, name)
    one.answer(2, 1, content=[])
    found, _ = told(one.close())
    assert [row["what"] for row in found if row["figure"] == "latency"] == [f"tools/call {name}"]
