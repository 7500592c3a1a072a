"""The cells of the traffic's rows."""

from pathlib import Path

from mcpproxy.tui.rows.row_text import text_of
from mcpproxy.tui.rows.traffic_table import TrafficRows
from tests.captures.samples import frame, header
from tests.harness import ROOT
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.tui.in_process_reading import InProcessReading
from tests.mcpproxy.tui.stage import END, INITIALIZE, INITIALIZED, Stage, play, record


def test_an_event_without_data_is_no_fault_on_any_screen(tmp_path: Path) -> None:
    """Servers of 2025-11-25 open a stream with an event that has an id and no data, so that a client can resume it."""
    event = {"unit": "sse_event", "exchange": 1, "conn": 1}
    path = record(
        tmp_path / "library/x.mcpcap",
        [
            ("header", header(transport="http", name="library")),
            ("frame", frame("c2s", INITIALIZE, unit="http_body", exchange=1, conn=1)),
            ("frame", frame("s2c", b"", event_id="0", **event)),
            ("frame", frame("s2c", INITIALIZED, event_id="1", **event)),
            END,
        ],
    )

    async def act(stage: Stage) -> None:
        await stage.see("1 recorded")
        await stage.press("enter")
        await stage.see("initialize", "server exited")
        assert "event without data" not in stage.text()
        await stage.press("b")
        await stage.see("all records", "event without data")
        assert "not a message" not in stage.text()
        assert "framing/" not in stage.text()
        await stage.press("b")
        await stage.until(lambda: "messages only" in stage.text() and "event without data" not in stage.text())
        await stage.press("slash", *"frame:2", "enter")
        await stage.see("1 of 3 frames", "event without data")

    play(act, path)
    shown = mcpproxy("show", path, "--color", "never").stdout.decode()
    assert "initialize" in shown
    assert "event without data" not in shown
    assert b"event without data" in mcpproxy("show", "--filter", "frame:2", path, "--color", "never").stdout
    page = mcpproxy("show", "--frame", "2", path).stdout.decode()
    assert "event without data" in page
    assert "not a message" not in page
    assert b"event without" not in mcpproxy("show", "--filter", "has:problem", path).stdout


def test_a_row_that_breaks_a_rule_has_one_sign_and_names_the_rule_where_there_is_room() -> None:
    reading = InProcessReading(ROOT / "tests/corpus/captures/demo.mcpcap", with_rules=True)
    while reading.step():
        pass
    rows = TrafficRows(reading, lambda: None)
    widths = {"time": 6, "way": 2, "findings": 4, "what": 22, "status": 12, "latency": 7, "more": 15}

    def shown(frame: int) -> dict[str, str]:
        line = reading.folded_rows.index(reading.index.entry_of_seq(frame) or 0)
        rows._texts[rows.view[line]] = text_of(reading, rows.view[line])
        return {name: "".join(span.text for span in spans) for name, spans in rows.line(line).cells.items()}

    rows.fit(widths, 30)
    converted = shown(12)
    assert (converted["way"], converted["findings"]) == ("←", "✗ 1")
    assert converted["what"].split() == ["call", "word_count"]
    assert converted["more"].startswith("id/type-changed  {")
    assert shown(6)["way"] == "←"
    rows.fit({**widths, "what": 40}, 30)
    assert shown(12)["what"] == "tools/call word_count  id/type-changed"
    rows.fit({name: width for name, width in widths.items() if name not in ("findings", "more")}, 30)
    assert shown(6)["way"] == "←✗"
    assert shown(12)["way"] == "←!"
    rows.close()
    reading.close()
