"""`mcpproxy tui --demo` records a session while it shows it, and leaves nothing behind, regardless of how it ends."""

import signal
from pathlib import Path

import pytest

from tests.harness import children, is_alive, wait_until
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.tui.terminals import Terminal, terminal


def watched(shown: Terminal) -> list[int]:
    """Wait until the demo is live; returns the processes that play it."""
    shown.until(lambda: "1 live · 1 recorded" in shown.text())
    return children(shown.process.pid)


@pytest.mark.costly("a server and a client of the demo run beside the screen")
def test_it_is_played_live_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    with terminal(tmp_path, "--demo", more={"TMPDIR": str(place)}) as shown:
        players = watched(shown)
        assert len(list(place.rglob("*.mcpcap"))) == 2
        shown.press("\r")
        shown.until(lambda: "following" in shown.text() and "tools/list" in shown.text())
        shown.press("q")
        shown.until(lambda: shown.process.poll() is not None)
        assert shown.process.returncode == 0
    assert list(place.iterdir()) == []
    assert not any(map(is_alive, players))


def test_a_kill_leaves_nothing_either(tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    with terminal(tmp_path, "--demo", more={"TMPDIR": str(place)}) as shown:
        players = watched(shown)
        assert players
        shown.process.send_signal(signal.SIGKILL)
        shown.process.wait()
        wait_until(lambda: not any(map(is_alive, players)))
        wait_until(lambda: list(place.iterdir()) == [])


def test_captures_cannot_be_named_with_it(tmp_path: Path) -> None:
    with terminal(tmp_path, "--demo", "x") as shown:
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
        assert b"--demo plays its own captures" in shown.heard
    assert mcpproxy("tui", "--demo").returncode == 2
