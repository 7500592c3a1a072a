"""The page of a comparison in a browser: filter, keyboard, details, accessibility, and texts that attack it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.comparison.change import Change, Comparison
from mcpproxy.html_report.comparison import ComparisonPage
from tests.mcpproxy.html_report.browser import Opened, opened
from tests.mcpproxy.html_report.conversations import ATTACKS
from tests.mcpproxy.html_report.faults import faults
from tests.mcpproxy.report.comparisons import FAILED, HARD, NOTHING, ORDINARY, VALUE_CHANGED, place

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DIFFERENT = Change(
    VALUE_CHANGED,
    "tools/call search",
    "values changed",
    "/structuredContent",
    {"title": "old \U0001f600 title", "gone": 1, **{f"same{number}": number for number in range(20)}, "last": 1},
    {"title": "old \U0001f603 title", "added": [True], **{f"same{number}": number for number in range(20)}, "last": 2},
    place(12),
    place(14, "new.mcpcap"),
)
ATTACKED = HARD._replace(
    changes=(
        *HARD.changes,
        *(
            Change(
                VALUE_CHANGED, text, text, f"/{text}", {text: [text, 1]}, {text: [text, 2], "new": text}, place(1, text)
            )
            for text in ATTACKS
        ),
    )
)


def page_of(folder: Path, comparison: Comparison) -> Path:
    file = folder / "comparison.html"
    file.write_text("".join(ComparisonPage(comparison).pieces()), "utf-8")
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an ordinary comparison, and of one more change."""
    folder = tmp_path_factory.mktemp("comparison")
    return page_of(folder, ORDINARY._replace(changes=(*ORDINARY.changes, DIFFERENT)))


def rows_of(report: Opened) -> list[str]:
    return report.rows("changes")


def test_the_worst_comes_first_and_leads_to_its_detail(report: Opened) -> None:
    assert report.page.inner_text("h1").startswith("2 breaking, 2 worse, 2 may break, 3 notes")
    assert report.page.title() == "old.mcpcap → new.mcpcap – mcpproxy compare"
    assert rows_of(report)[0].startswith("breakingtool fetch")
    report.page.click("#overview .ranked a >> nth=1")
    report.page.wait_for_selector("aside.detail h3:has-text('tool search')")
    text = report.page.inner_text("aside.detail")
    assert "frame 4 · session 1 · old.mcpcap" in text
    assert "This value, created by mcpproxy, was valid before and is not now." in text
    assert "Calls without it are refused from now on." in text
    assert report.page.inner_text("aside.detail pre[aria-label=Witness]") == '{\n  "query": "a"\n}\n'
    assert report.page.locator("aside.detail ins").all_inner_texts() == ['"limit"']


def test_what_differs_is_marked_on_both_sides(report: Opened) -> None:
    report.go("#change-9")
    report.page.wait_for_selector("aside.detail table.difference")
    assert report.page.locator("aside.detail del").all_inner_texts() == ["\U0001f600", '"gone": 1,', "1"]
    added = report.page.locator("aside.detail ins").all_inner_texts()
    assert added[:2] == ["\U0001f603", "2"]
    assert "".join(added[2:]).replace(" ", "") == '"added":[true]'
    assert re.search(r"… \d+ equal lines", report.page.inner_text("aside.detail"))


def test_the_filter_selects_by_severity_kind_and_words(report: Opened) -> None:
    report.page.select_option("#filter-severity", "may break")
    assert all(row.startswith("may break") for row in rows_of(report))
    assert report.page.inner_text("#changes > [role=status]") == "2 of 9 changes"
    report.page.select_option("#filter-kind", "arguments/newly-required")
    assert len(rows_of(report)) == 1
    report.page.select_option("#filter-severity", "")
    assert len(rows_of(report)) == 2
    report.page.fill("#filter-text", "CURSOR required")
    assert len(rows_of(report)) == 1
    report.run("void (location.hash = '#change-1')")
    report.page.wait_for_selector("aside.detail h3:has-text('tool fetch')")
    assert len(rows_of(report)) == 9
    report.run("void (location.hash = '#change-99')")
    report.page.wait_for_selector("text=Change 99 is not in this comparison.")


def test_keys_move_through_the_changes(report: Opened) -> None:
    report.page.focus("table.changes")
    for _ in range(3):
        report.page.keyboard.press("ArrowDown")
    assert report.run("location.hash") == "#change-3"
    assert "error -32602" in report.page.inner_text("aside.detail")
    assert report.run("document.querySelector('table.changes [aria-selected=true]').ariaRowIndex") == "4"
    report.page.keyboard.press("End")
    assert report.run("location.hash") == "#change-9"
    report.page.keyboard.press("Escape")
    assert not report.page.is_visible("aside.detail")
    assert report.run("document.activeElement.classList.contains('changes')")


def test_intervals_are_drawn_on_one_scale(report: Opened) -> None:
    assert report.page.locator(".intervals-chart").count() == 4
    slower, faster, same = (
        report.page.locator(f"#latency tbody tr >> nth={number}").locator(".intervals-chart") for number in range(3)
    )
    assert slower.get_attribute("aria-label") == "p50 ×2.3–2.8, p95 ×2.3–2.8"
    middle = float(slower.locator("line").get_attribute("x1") or 0)
    assert float(slower.locator("rect").first.get_attribute("x") or 0) > middle
    assert float(faster.locator("rect").first.get_attribute("x") or 0) < middle
    assert same.locator("rect").first.get_attribute("class") == "unchanged"
    assert report.page.inner_text("#latency tbody tr >> nth=3").startswith("tools/call fetch\tcannot tell")


def test_failed_comparison_looks_failed(started: Browser, tmp_path: Path) -> None:
    with opened(started, page_of(tmp_path, FAILED._replace(changes=()))) as report:
        text = report.page.inner_text("main")
        assert "This comparison failed: it must not be read as one without changes" in text
        assert "No change was found in what could be compared." in text
        assert "Nothing changed" not in text
        assert report.page.get_attribute("h1", "class") == "bad"
        assert faults(report) == []


def test_comparison_without_changes_says_so(started: Browser, tmp_path: Path) -> None:
    with opened(started, page_of(tmp_path, NOTHING)) as report:
        assert report.page.inner_text("h1") == "Nothing changed in 14 tools, 120 calls"
        assert "Nothing changed in what was compared." in report.page.inner_text("#changes")
        assert report.page.locator("table.changes").count() == 0
        assert faults(report) == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_axe_finds_no_fault_and_nothing_is_too_wide(started: Browser, file: Path, scheme: str, width: int) -> None:
    with opened(started, file, scheme="dark" if scheme == "dark" else "light", width=width) as report:
        assert faults(report) == []
        report.go("#change-9")
        report.page.wait_for_selector("aside.detail table.difference")
        assert faults(report) == []
        assert report.run("document.documentElement.scrollWidth") <= width


def test_list_and_detail_are_whole_on_paper(report: Opened) -> None:
    report.go("#change-9")
    report.page.emulate_media(media="print")
    report.run("window.dispatchEvent(new Event('beforeprint'))")
    for part in (".changes-scroller", "aside.detail"):
        hidden = f"document.querySelector('{part}').scrollHeight - document.querySelector('{part}').clientHeight"
        assert report.run(hidden) <= 1, part
    boxes = [report.page.locator(part).bounding_box() for part in (".changes-scroller", "aside.detail")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[1]["y"] > boxes[0]["y"] + boxes[0]["height"]
    report.page.emulate_media(media="screen")


@pytest.mark.costly("the detail of each of the changes is drawn")
def test_texts_that_attack_the_page_are_shown_and_do_nothing(started: Browser, tmp_path: Path) -> None:
    file = page_of(tmp_path, ATTACKED)
    with opened(started, file, width=400) as report:
        report.page.focus("table.changes")
        for _ in ATTACKED.changes:
            report.page.keyboard.press("ArrowDown")
        assert report.run("location.hash") == f"#change-{len(ATTACKED.changes)}"
        report.go("#change-61")
        report.page.wait_for_selector("aside.detail h3:has-text('<script>window.owned=1</script>')")
        assert report.run("typeof window.owned") == "undefined"
        assert report.run("window.violations") == []
        assert report.errors == []
        assert {url.partition("#")[0] for url in report.requests} == {file.as_uri()}
        assert report.run("Object.keys(Object.prototype).length") == 0
        unwanted = "img, iframe, object, embed, link, base, form:not(.tools), input:not([id^=filter]), svg script"
        assert report.run(f"document.querySelectorAll('{unwanted}').length") == 0
        hidden = "[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08\x1b\u2028\u2029\ue000-\uf8ff]"
        assert not re.search(hidden, report.run("document.body.innerText"))
        assert report.run("document.documentElement.scrollWidth") <= 400
        assert faults(report) == []
