"""Turns in a report: each opens to its calls on all servers, and the detail of a call leads to its turn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.html_report.browser import opened
from tests.mcpproxy.html_report.faults import faults
from tests.mcpproxy.html_report.parts import Parts
from tests.mcpproxy.turn_captures import LATER_TURN, THREAD, TRACE, TURN, write_turns

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.mcpproxy.html_report.browser import Opened


def reported(place: Path, *captures: Path) -> Path:
    target = place / "report.html"
    done = mcpproxy("report", "--force", "-o", target, *captures)
    assert target.exists(), done.stderr
    return target


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("turns")
    return reported(place, *write_turns(place))


def test_the_turns_of_all_captures_are_counted(file: Path) -> None:
    parts = Parts(file.read_text())
    block = parts.block("data-turns")
    first, second = block["turns"]
    assert first["text"] == "4 calls on 3 servers, 2 failed, 2.7 s of waiting"
    assert (first["id"], first["conversation"], first["client"]) == (TURN, THREAD, "Codex")
    assert first["servers"] == ["files", "search", "tickets"]
    assert (second["id"], second["text"]) == (LATER_TURN, "1 call on 1 server, 10.0 ms of waiting")
    assert first["short"] != second["short"]
    assert block["without"] == "1 call of Claude Code names no turn: it names only its calls and conversations"
    figure = next(figure for figure in parts.block("data-overview")["figures"] if figure["name"] == "turns")
    assert (figure["value"], figure["more"]) == ("2", "1 with failures")
    assert (figure["is_bad"], figure["is_more_bad"]) == (False, True)


def test_a_turn_opens_to_its_calls(report: Opened) -> None:
    turn = report.page.locator("#turns details.turn").first
    assert "4 calls on 3 servers, 2 failed, 2.7 s of waiting" in turn.locator("summary").inner_text()
    turn.locator("summary").click()
    assert turn.locator("thead th").nth(1).inner_text() == "since the turn began"
    rows = [row.split("\t") for row in turn.locator("tbody tr").all_inner_texts()]
    assert [row[1:6] for row in rows] == [
        ["+0.000", "files", "tools/call read_file", "400 ms", ""],
        ["+0.100", "search", "tools/call search", "2.5 s", ""],
        ["+3.000", "files", "tools/call write_file", "100 ms", "tool error"],
        ["+4.000", "tickets", "tools/call open_ticket", "", "unanswered"],
    ]
    turn.locator("tbody a").nth(1).click()
    report.page.wait_for_selector("aside.detail h3:has-text('search')")
    facts = report.page.inner_text("aside.detail .facts")
    assert f"turn\n{TURN} of Codex\nconversation\n{THREAD}\ncall id\ncall_2\ntrace\n{TRACE}" in facts


def test_the_detail_of_a_call_leads_to_its_turn(report: Opened) -> None:
    report.go("#capture-3-frame-4")
    report.page.click("aside.detail .facts a[href='#turn-1']")
    report.page.wait_for_selector("#turn-1[open] table")


def test_a_report_without_turns_has_no_such_part(tmp_path: Path, started: Browser) -> None:
    notes = write_turns(tmp_path)[-1]
    file = reported(tmp_path, notes)
    assert Parts(file.read_text()).block("data-turns")["turns"] == []
    with opened(started, file) as report:
        assert report.page.locator("#turns").is_hidden()
        assert report.page.locator("nav a[href='#turns']").is_hidden()
        assert not report.page.locator("#overview .figure", has_text="turns").count()


def test_the_page_has_no_faults(report: Opened) -> None:
    report.page.locator("#turns summary").first.click()
    assert not faults(report)
    assert not report.errors
    assert not report.run("window.violations")
