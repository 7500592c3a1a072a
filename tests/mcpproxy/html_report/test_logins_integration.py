"""Logins in a report: a row that unfolds to its legs, and the failures on the first screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.reading import Reading
from mcpproxy.html_report import limits
from mcpproxy.html_report.blocks import Payloads
from mcpproxy.html_report.traffic import CaptureTraffic, Traffic
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.html_report.browser import Opened, opened
from tests.mcpproxy.html_report.faults import faults
from tests.mcpproxy.html_report.test_page_integration import count_of
from tests.mcpproxy.login_captures import METADATA, SERVER_METADATA, LoginCapture

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LEGS = 6


def write_logins(path: Path) -> Path:
    """Write a login that succeeds, one that fails, one that is left, and metadata that nobody needs."""
    capture = LoginCapture(path)
    capture.login()
    for capture.client, capture.client_id in (("198.51.100.20:1", "hmac:2"), ("198.51.100.21:1", "hmac:3")):
        capture.discovery()
        capture.authorization()
        capture.token(400, error="invalid_grant", error_description="the code has expired")
    capture.client = "198.51.100.22:1"
    capture.discovery()
    capture.client = "198.51.100.23:1"
    capture.leg("resource-metadata", "GET", METADATA, 404)
    capture.leg("server-metadata", "GET", SERVER_METADATA, 404)
    capture.message()
    return capture.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("logins")
    target = place / "report.html"
    done = mcpproxy("report", "-o", target, write_logins(place / "x.mcpcap"))
    assert target.exists(), done.stderr
    return target


def logins_shown(report: Opened) -> list[str]:
    return [row for row in report.rows() if "login " in row]


def test_the_first_screen_says_which_logins_failed_and_leads_to_the_leg(report: Opened) -> None:
    calls = report.page.locator("#overview .calls", has_text="2 logins failed, 1 unfinished")
    first, second = calls.locator("li").all_inner_texts()
    assert "token: 400 invalid_grant ×2" in first
    assert "the code has expired · 198.51.100.20 connector/1.0" in first
    assert "the client did not go on after server metadata" in second
    assert "no registration, no authorization" in second
    figure = report.page.locator("#overview .figure", has_text="logins").inner_text()
    assert figure.split() == ["logins", "4", "2", "failed,", "1", "unfinished"]
    calls.locator("a").first.click()
    report.page.wait_for_selector("aside.detail h3:has-text('token')")
    facts = report.page.inner_text("aside.detail .facts")
    assert "outcome\n400 invalid_grant" in facts
    assert "description\nthe code has expired" in facts
    assert "grant type\nauthorization_code" in facts


def test_only_logins_that_failed_are_open_at_first(report: Opened) -> None:
    count = count_of(report)
    report.page.select_option("#filter-kind", "login leg")
    assert count_of(report) == 5 + 2 * LEGS + 3
    button = "table.traffic tr.login button[aria-label='Requests of login 1']"
    report.page.click(button)
    assert count_of(report) == 5 + 3 * LEGS + 3
    text = next(row for row in report.rows() if "authorization302" in row)
    assert "scope notes, resource https://mcp.example.org/mcp, client id hmac:1, PKCE method S256" in text
    report.page.click(button)
    report.page.select_option("#filter-kind", "")
    assert count_of(report) == count


def test_keys_open_and_close_a_login(report: Opened) -> None:
    count = count_of(report)
    report.page.click("table.traffic tr.login .content >> nth=0")
    report.page.wait_for_selector("aside.detail h3:has-text('login 1')")
    assert "token\n200  POST /token" in report.page.inner_text("aside.detail .facts")
    report.page.focus("table.traffic")
    for key, is_open in (("ArrowRight", 1), ("ArrowRight", 1), ("ArrowLeft", 0), ("Enter", 1), ("Enter", 0)):
        report.page.keyboard.press(key)
        assert count_of(report) == count + is_open * LEGS, key
    report.page.keyboard.press("ArrowRight")
    report.page.keyboard.press("ArrowDown")
    report.page.wait_for_selector("aside.detail h3:has-text('challenge')")
    report.page.keyboard.press("ArrowLeft")
    report.page.wait_for_selector("aside.detail h3:has-text('login 1')")


def test_the_address_and_the_search_find_a_leg_of_a_folded_login(report: Opened) -> None:
    count = count_of(report)
    report.page.fill("#filter-text", "/register")
    report.page.wait_for_selector("#traffic > [role=status]:has-text('3 of')")
    frame = report.run("document.querySelector('table.traffic tr.leg a').textContent")
    report.page.fill("#filter-text", "")
    report.run(f"void (location.hash = '#frame-{frame}')")
    report.page.wait_for_selector(f"aside.detail h3:has-text('Record {frame}: registration')")
    assert "POST /register" in report.page.inner_text("aside.detail pre")
    assert count_of(report) == count + LEGS


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_rows_have_one_height_and_axe_finds_no_fault(started: Browser, file: Path, scheme: str, width: int) -> None:
    with opened(started, file, scheme="dark" if scheme == "dark" else "light", width=width) as report:
        rows = "[...document.querySelectorAll('table.traffic tbody tr:not(.space)')]"
        assert report.run(f"new Set({rows}.map((row) => row.getBoundingClientRect().height)).size") == 1
        report.page.click("table.traffic tr.login .content >> nth=0")
        assert faults(report) == []
        assert report.run("document.documentElement.scrollWidth") <= width


def test_the_content_of_the_traffic_has_most_of_the_room_on_a_phone(started: Browser, file: Path) -> None:
    with opened(started, file, width=420) as report:
        cell = "document.querySelector('table.traffic tr.leg .content')"
        assert report.run(f"{cell}.getBoundingClientRect().width") >= 170
        names = "[...document.querySelectorAll('table.traffic tr.leg td.message')]"
        assert report.run(f"{names}.every((cell) => cell.scrollWidth <= cell.clientWidth)")
        assert report.run("document.documentElement.scrollWidth") <= 420


def test_a_finding_about_the_request_of_a_leg_is_in_its_row(report: Opened) -> None:
    report.page.click("#findings .finding:has-text('code_challenge') a >> nth=0")
    report.page.wait_for_selector("aside.detail h3:has-text(': authorization')")
    assert "auth/oauth-request" in report.page.inner_text("aside.detail .plain")
    assert "has-error" in str(report.page.locator("table.traffic [aria-selected=true]").get_attribute("class"))


def test_legs_beyond_the_limit_are_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LEGS", 7)
    traffic = Traffic(Payloads(), 100)
    reading = Reading(write_logins(tmp_path / "x.mcpcap"))
    rows = CaptureTraffic(traffic, 0, reading.fold)
    for step in reading.to_end():
        if step.end is None:
            rows.on_step(step)
        else:
            rows.finish(step, is_whole=True)
    kinds = traffic.columns["kind"]
    assert (kinds.count("login"), kinds.count("leg"), traffic.omitted_leg_count) == (5, 7, 16)
