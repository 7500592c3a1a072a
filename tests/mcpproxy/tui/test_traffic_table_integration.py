"""The cells of the traffic's rows."""

from pathlib import Path

from tests.captures.samples import frame, header
from tests.mcpproxy.cli.typed import mcpproxy
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
