"""The layout: list and detail side by side, in full, of any size, and restored at the next start."""

import stat
from pathlib import Path

import pytest

from mcpproxy.history import history_path
from mcpproxy.tui.details.detail import detail
from mcpproxy.tui.layout_state import Layout, save_layout, save_theme, saved_layout, saved_theme
from mcpproxy.tui.widgets.detail_box import tab_spans
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import captured


def state() -> Path:
    path = history_path("tui_layout")
    assert path is not None
    return path


def test_the_views_that_are_needed_most_keep_their_names() -> None:
    for width, shown in (
        (68, "1 text  2 pretty  3 raw  4 hex  5 headers  6 exchange  7 findings"),
        (60, "1 text 2 pretty 3 raw 4 hex 5 headers 6 exchange 7 findings"),
        (53, "1 text 2 pretty 3 raw 4 hex 5 6 exchange 7 findings"),
        (14, "1 2 3 4 hex 5 6 7"),
    ):
        assert "".join(span.text for span in tab_spans("hex", width)).rstrip() == shown


class TestState:
    """What is kept for the next start."""

    def test_it_is_kept_for_the_user_alone(self) -> None:
        assert saved_layout() == Layout(45, 40, is_full=False)
        save_layout(Layout(60, 35, is_full=True))
        assert saved_layout() == Layout(60, 35, is_full=True)
        assert stat.S_IMODE(state().stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"\xff\0\n",
            b"below\nbeside x\nfull yes\n",
            b"below -5\nbeside 99999999999\n",
            b"below \xd9\xa3\n",
            b"theme \xff\x1b[31m\n",
        ],
    )
    def test_what_is_damaged_is_ignored(self, text: bytes) -> None:
        state().parent.mkdir(parents=True)
        state().write_bytes(text)
        assert saved_layout() == Layout()

    def test_the_theme_is_kept_beside_the_sizes(self) -> None:
        assert saved_theme() == ""
        save_theme("mcpproxy-light")
        save_layout(Layout(60, 35, is_full=True))
        assert saved_theme() == "mcpproxy-light"
        save_theme("mcpproxy-dark")
        assert (saved_theme(), saved_layout()) == ("mcpproxy-dark", Layout(60, 35, is_full=True))

    def test_sizes_out_of_range_come_back_into_it(self) -> None:
        state().parent.mkdir(parents=True)
        state().write_bytes(b"below 1\nbeside 100\n")
        assert saved_layout() == Layout(20, 80)


class TestScreen:
    """What the traffic screen shows."""

    def test_a_row_without_an_exchange_says_so(self, tmp_path: Path) -> None:
        reading = Reading(captured(tmp_path))
        while reading.step():
            pass
        row = reading.stderr_rows[0]
        lines = ["".join(span.text for span in line) for line in detail(reading, row, "exchange", width=120).lines]
        assert lines[1] == "not part of an exchange"
        reading.close()
