"""The page in a browser: links, filter, keyboard, lists of any length, accessibility, print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.analysis.store.capture_writer import OPENED, CaptureWriter
from tests.harness import ROOT
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.html_report.browser import Opened, opened
from tests.mcpproxy.html_report.conversations import busy, hostile
from tests.mcpproxy.html_report.faults import faults

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FRAMES = 800
CORPUS = ROOT / "tests/corpus/captures"


def reported(target: Path, *captures: Path) -> Path:
    done = mcpproxy("report", "-o", target, *captures)
    assert target.exists(), done.stderr
    return target


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def file(place: Path) -> Path:
    """A report on two servers."""
    library = busy(place / "library.mcpcap", FRAMES)
    weather = busy(place / "weather.mcpcap", 300, "weather", OPENED + 2_000_000_000, 2)
    return reported(place / "report.html", library, weather)


def count_of(report: Opened) -> int:
    return int(report.run("Number(document.querySelector('table.traffic').getAttribute('aria-rowcount')) - 1"))


def settled(report: Opened) -> None:
    """Wait until the filter has searched everything."""
    report.page.wait_for_selector("#traffic > [role=status]:not(:has-text('searching'))")


# ---- links


def test_address_of_a_frame_opens_it(report: Opened) -> None:
    report.go("#frame-20")
    assert report.page.inner_text("aside.detail h3").startswith("Frame 20: ")
    report.run("void (location.hash = '#capture-2-frame-3')")
    report.page.wait_for_selector("aside.detail h3:has-text('Frame 3: request initialize')")
    facts = report.page.inner_text("aside.detail .facts")
    assert facts.startswith("capture\nweather")
    assert re.search(r"\nanswered\nby frame 4 after [\d.]+ ms: ok\b", facts), facts
    report.page.click("aside.detail .facts a:has-text('frame 4')")
    report.page.wait_for_selector("aside.detail h3:has-text('Frame 4: response')")
    assert re.search(r"\nanswers\nframe 3 after [\d.]+ ms: ok", report.page.inner_text("aside.detail .facts"))
    report.page.go_back()
    report.page.wait_for_selector("aside.detail h3:has-text('Frame 3: request initialize')")
    chosen = report.run("document.querySelector('table.traffic [aria-selected=true]').getBoundingClientRect().top")
    assert 0 < chosen < 860


def test_frame_that_the_filter_hides_is_shown_by_its_address(report: Opened) -> None:
    report.page.fill("#filter-text", "no such text anywhere")
    settled(report)
    report.page.wait_for_selector("#traffic > [role=status]:has-text('0 of')")
    report.run("void (location.hash = '#frame-12')")
    report.page.wait_for_selector("aside.detail h3:has-text('Frame 12: ')")
    assert count_of(report) > FRAMES


def test_address_of_a_frame_that_is_not_there_is_answered(report: Opened) -> None:
    report.run("void (location.hash = '#frame-99999999')")
    report.page.wait_for_selector("text=Frame 99999999 is not in this report.")


def test_address_of_a_finding_opens_what_hides_it(report: Opened) -> None:
    last = report.run(
        "Math.max(...[...document.querySelectorAll('#findings details')].map((one) => Number(one.dataset.last)))"
    )
    report.run(f"void (location.hash = '#finding-{last}')")
    report.page.wait_for_selector(f"#finding-{last}.shown >> nth=0")
    top = report.run(f"document.getElementById('finding-{last}').getBoundingClientRect().top")
    assert 0 <= top < 860


def test_error_on_the_first_screen_leads_to_its_first_frame(report: Opened) -> None:
    report.page.click("#overview .calls:has(h2:text-is('Errors')) li >> nth=0 >> a")
    report.page.wait_for_selector("aside.detail h3:has-text('response')")
    assert "tool error" in report.page.inner_text("aside.detail .facts")


def test_the_first_message_of_a_rule_is_not_counted_for_all(started: Browser, tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "shop.mcpcap", "shop")
    talk.handshake()
    for number, tool in enumerate(("order", "order", "pay"), 1):
        talk.call(20 * number, number, tool)
        talk.fail(20 * number + 5, number, "closed")
    with opened(started, reported(tmp_path / "report.html", talk.close())) as report:
        (first,) = report.page.locator("#overview .first li", has_text="tool/failed").all_inner_texts()
        assert "the tool 'order' has failed" in first
        assert "and 2 more" in first
        assert "×" not in first


def test_frame_and_finding_lead_to_each_other(report: Opened) -> None:
    report.page.click("#findings .finding >> nth=0 >> a >> nth=0")
    report.page.wait_for_selector("aside.detail li a[href^='#finding-']")
    report.page.click("aside.detail li a[href^='#finding-']")
    report.page.wait_for_selector(".finding.shown")


# ---- the lists


def test_only_rows_in_view_exist(report: Opened) -> None:
    assert count_of(report) > FRAMES
    assert len(report.rows()) < 100
    report.page.focus("table.traffic")
    report.page.keyboard.press("End")
    assert "server exited" in report.rows()[-1]
    assert len(report.rows()) < 100
    bottom = report.run("document.querySelector('table.traffic [aria-selected=true]').getBoundingClientRect().bottom")
    assert bottom < 860


def test_keys_move_through_the_traffic(report: Opened) -> None:
    report.page.focus("table.traffic")
    report.page.keyboard.press("Home")
    for _ in range(4):
        report.page.keyboard.press("ArrowDown")
    active = report.run(
        "document.getElementById(document.querySelector('table.traffic').getAttribute('aria-activedescendant')).ariaRowIndex"
    )
    assert active == "6"
    assert report.page.is_visible("aside.detail")
    assert report.run("location.hash").startswith("#frame-")
    report.page.keyboard.press("Escape")
    assert not report.page.is_visible("aside.detail")
    assert report.run("document.activeElement.classList.contains('traffic')")


def test_filter_searches_rows_and_payloads(report: Opened) -> None:
    everything = count_of(report)
    report.page.fill("#filter-text", "run_query")
    settled(report)
    by_name = count_of(report)
    assert 0 < by_name < everything
    # Only payloads hold this word; summaries do not.
    report.page.fill("#filter-text", "inputSchema")
    settled(report)
    assert count_of(report) == 2
    report.page.fill("#filter-text", "")
    report.page.check("#filter-bad")
    settled(report)
    assert 0 < count_of(report) < everything
    report.page.select_option("#filter-kind", "request")
    assert all("→" in row for row in report.rows())
    report.page.uncheck("#filter-bad")
    report.page.select_option("#filter-capture", "1")
    settled(report)
    assert all("weather" in row for row in report.rows())


def test_text_in_a_string_can_be_read_and_what_the_filter_found_is_marked(started: Browser, tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "texts.mcpcap", "texts")
    talk.handshake()
    talk.call(20, 1, "search")
    document = orjson.dumps({"items": [{"id": n, "name": f"item {n}"} for n in range(60)] + ["needle\u202e"]}).decode()
    talk.answer(30, 1, content=[{"type": "text", "text": document}, {"type": "text", "text": "one\ntwo needles\n"}])
    with opened(started, reported(tmp_path / "report.html", talk.close())) as report:
        report.go("#frame-5")
        body = report.page.inner_text("aside.detail pre")
        assert '│       "name": "item 7"\n' in body
        assert "│ two needles\n" in body
        assert len([line for line in body.split("\n") if line.lstrip().startswith('"text"')]) == 2
        assert "\u202e" not in body
        report.page.fill("#filter-text", "NEEDLE")
        report.page.wait_for_selector("aside.detail mark.hit")
        assert report.page.locator("aside.detail mark.hit").all_inner_texts() == ["needle"] * 3
        box = report.page.locator("aside.detail mark.hit").first.bounding_box()
        aside = report.page.locator("aside.detail").bounding_box()
        assert box is not None
        assert aside is not None
        assert aside["y"] <= box["y"] <= aside["y"] + aside["height"]
        report.page.click("aside.detail button:text-is('Raw')")
        report.page.wait_for_selector("aside.detail button:text-is('Formatted')")
        assert report.page.locator("aside.detail mark.hit").count() == 2
        assert report.page.inner_text("aside.detail pre").count("\n") == 0


def test_waterfall_has_all_servers_on_one_clock(report: Opened) -> None:
    assert report.page.inner_text("#waterfall .lanes").split() == ["library", "weather"]
    whole = report.page.inner_text("#waterfall [role=status]")
    report.page.click("#waterfall button[aria-label='Zoom in']")
    assert report.page.inner_text("#waterfall [role=status]") != whole
    report.page.click("#waterfall button[aria-label='Show all of the clock']")
    assert report.page.inner_text("#waterfall [role=status]") == whole
    rows = report.rows("waterfall")
    assert any("weather" in row for row in rows)
    assert any("library" in row for row in rows)


# ---- every kind of capture


@pytest.mark.parametrize(
    "names", [["http"], ["every-type", "giant-in-parts", "gaps", "damaged", "not-utf8", "ring.3", "killed"]]
)
def test_page_shows_every_kind_of_capture(started: Browser, place: Path, names: list[str]) -> None:
    file = reported(place / f"{names[0]}.html", *(CORPUS / f"{name}.mcpcap" for name in names))
    with opened(started, file) as report:
        assert len(report.walk("ArrowDown", count_of(report))) >= len(names)
        report.page.wait_for_selector("aside.detail h3")
        if names == ["http"]:
            report.go("#frame-8")
            report.page.wait_for_selector("aside.detail pre[aria-label='Heads of the HTTP exchange']")
            assert "POST /mcp" in report.page.inner_text("aside.detail")
        assert report.errors == []
        assert report.run("window.violations") == []


# ---- accessibility, and print


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1280),
        ("dark", 390),
        *(pytest.param(*one, marks=pytest.mark.soak) for one in (("dark", 1280), ("light", 390))),
    ],
)
def test_axe_finds_no_fault(started: Browser, file: Path, scheme: str, width: int) -> None:
    with opened(started, file, scheme="dark" if scheme == "dark" else "light", width=width) as report:
        assert faults(report) == []
        report.run("document.querySelectorAll('details').forEach((details) => details.open = true)")
        report.go("#frame-20")
        report.page.wait_for_selector("aside.detail pre")
        assert faults(report) == []


def test_axe_finds_no_fault_in_a_hostile_report(started: Browser, place: Path) -> None:
    with opened(started, reported(place / "hostile.html", *hostile(place / "hostile"))) as report:
        report.go("#frame-30")
        assert faults(report) == []


def test_theme_can_be_chosen(report: Opened) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = report.run(colour)
    report.page.click("#theme")
    report.page.click("#theme")
    assert report.page.inner_text("#theme") == "Theme: dark"
    assert report.run(colour) != light


def test_narrow_window_needs_no_scrolling_aside(started: Browser, file: Path) -> None:
    with opened(started, file, width=390, height=844) as report:
        assert report.run("document.documentElement.scrollWidth") <= 390


def test_rows_of_every_kind_have_one_size_on_paper(started: Browser, place: Path) -> None:
    with opened(started, reported(place / "demo.html", CORPUS / "demo.mcpcap")) as report:
        report.page.emulate_media(media="print")
        rows = "[...document.querySelectorAll('table.traffic tbody tr:not(.space)')]"
        assert "other" in report.run(f"{rows}.map((row) => row.className).join(' ')").split()
        assert report.run(f"new Set({rows}.map((row) => getComputedStyle(row).fontSize)).size") == 1


def test_a_bounded_part_of_each_list_is_printed(report: Opened) -> None:
    report.run("window.dispatchEvent(new Event('beforeprint'))")
    assert len(report.rows()) == 300
    assert "The first 300 of" in report.run("document.querySelector('.traffic-scroller + .print-note').textContent")
    report.run("window.dispatchEvent(new Event('afterprint'))")
    assert len(report.rows()) < 100
    assert report.page.pdf(format="A4").count(b"/Type /Page\n") < 60
