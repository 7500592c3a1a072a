"""Reports of captures that attack the page: nothing in them runs, loads, or becomes markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.html_report.browser import Opened, opened
from tests.mcpproxy.html_report.conversations import ATTACKS, LANDMARK, hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SECTIONS = ("overview", "findings", "startup", "latency", "waterfall", "tools", "stderr", "traffic")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of hostile captures, itself with a hostile name."""
    place = tmp_path_factory.mktemp("hostile")
    made = place / "<script>window.owned=12<script>.html"
    done = mcpproxy("report", "-o", made, *hostile(place / "captures"))
    assert made.exists(), done.stderr
    return made


def look_at_everything(report: Opened) -> None:
    """Open everything that opens: every row with its detail in both forms, every finding, every section."""
    report.run("document.querySelectorAll('details').forEach((details) => details.open = true)")
    for section in SECTIONS:
        report.run(f"void (location.hash = '#{section}')")
    count = report.run("Number(document.querySelector('table.traffic').getAttribute('aria-rowcount')) - 1")
    assert count > 200
    report.page.focus("table.traffic")
    report.page.keyboard.press("Home")
    assert len(set(report.walk("ArrowDown", count))) > count / 2
    report.go("#frame-30")
    report.page.click('button:text-is("Raw")')
    report.walk("ArrowUp", count)
    assert report.run("document.querySelector('table.traffic [aria-selected=true]').ariaRowIndex") == "2"
    report.page.fill("#filter-text", "<script>")
    report.page.keyboard.press("Enter")
    report.run("window.dispatchEvent(new Event('beforeprint'))")


@pytest.fixture(scope="module")
def seen(started: Browser, file: Path) -> Iterator[Opened]:
    """The report after everything in it has been opened."""
    with opened(started, file) as report:
        look_at_everything(report)
        yield report


@pytest.mark.costly("every row, detail and section of the report is opened before")
def test_nothing_runs_and_nothing_loads(seen: Opened, file: Path) -> None:
    report = seen
    assert report.run("typeof window.owned") == "undefined"
    assert report.run("window.violations") == []
    assert report.errors == []
    assert {url.partition("#")[0] for url in report.requests} == {file.as_uri()}
    assert report.run("Object.keys(Object.prototype).length") == 0
    assert report.run("location.href").startswith(file.as_uri())


def test_nothing_becomes_markup(seen: Opened) -> None:
    report = seen
    unwanted = (
        "img, iframe, object, embed, link, base, form:not(.tools), audio, video, input:not([id^=filter]), svg script"
    )
    assert report.run(f"document.querySelectorAll('{unwanted}').length") == 0
    names = "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
    handlers = f"{names}.filter((name) => /^on|^src|^action/.test(name))"
    assert report.run(handlers) == []
    links = "[...document.querySelectorAll('a')].map((one) => one.getAttribute('href'))"
    addresses = f"{links}.filter((href) => href && !/^#[a-z0-9-]+$/.test(href))"
    assert report.run(addresses) == []
    assert report.run("document.querySelectorAll('script:not([type])').length") == 1


def test_attacks_are_shown_as_text(report: Opened) -> None:
    text = report.run("document.body.innerText")
    assert "<script>window.owned=1</script>" in text
    assert "\\u202egnp.exe" in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08\x1b\u2028\u2029\ue000-\uf8ff]", text)
    # A payload is stored as it was sent, and escaped where it is shown.
    report.page.fill("#filter-text", "separator")
    report.page.select_option("#filter-kind", "request")
    report.page.focus("table.traffic")
    report.page.keyboard.press("Home")
    report.page.wait_for_selector("aside.detail pre")
    report.page.click('button:text-is("Raw")')
    shown = report.run("document.querySelector('aside.detail').innerText")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08\x1b\u2028\u2029]", shown)


def test_the_policy_stops_attacks_that_reach_the_markup(report: Opened) -> None:
    """Attacks that do reach the markup: the page reports the violations, and nothing runs or loads."""
    report.run(
        "void document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned = 99'}))"
    )
    report.run(f"void document.body.append(Object.assign(document.createElement('img'), {{src: '{LANDMARK}x.png'}}))")
    report.run("void document.body.setAttribute('style', 'color: red')")
    report.run("void document.body.setAttribute('onclick', 'window.owned = 98')")
    report.run("document.body.click()")
    report.run(f"fetch('{LANDMARK}').catch(() => 0)")
    assert report.run("typeof window.owned") == "undefined"
    heard = report.run("window.violations.map((line) => line.split(' ')[0])")
    assert {"script-src-elem", "script-src-attr", "img-src", "style-src-attr", "connect-src"} <= set(heard)


def test_the_file_has_only_the_markup_of_the_page(file: Path) -> None:
    text = file.read_text("utf-8")
    names = {
        name.lower()
        for name in re.findall(
            r"<([a-zA-Z!][a-zA-Z0-9]*)",
            re.sub(r"(?s)<style>.*?</style>|<script>.*?</script>\n<script", "<script", text),
        )
    }
    assert names <= {
        *("html", "head", "meta", "title", "body", "a", "header", "p", "span", "nav", "ul", "li", "button", "main"),
        *("noscript", "section", "h1", "h2", "footer", "script", "style", "!doctype"),
    }
    assert not re.search(r"\u2028|\u2029|<!--", text)
    assert text.count("<script") == text.count("</script>")
    for attack in ATTACKS:
        if "<" in attack:
            assert attack not in text
