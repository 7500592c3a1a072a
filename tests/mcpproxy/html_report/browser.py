"""A report in Debian's Chromium: what it shows, what it requests, and what its policy stops.

Playwright is loaded with the browser, as that takes half a second, and each process of a run collects all tests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
DEADLINE_MS: Final = 120_000
_LISTENER: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
_WALK: Final = """
(async () => {
  const titles = [];
  const table = document.querySelector("table.traffic");
  for (let number = 0; number < %(count)d; number++) {
    table.dispatchEvent(new KeyboardEvent("keydown", {key: "%(key)s", bubbles: true, cancelable: true}));
    await new Promise((resolve) => setTimeout(resolve));
    titles.push(document.querySelector("aside.detail h3").textContent);
  }
  return titles;
})()
"""


def chromium() -> str:
    """Returns the path of the installed browser; skips if there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    return found


@contextmanager
def browser(*reachable: str) -> Iterator[Browser]:
    """Start the browser; it can reach no hosts but those in `reachable`."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    with sync_playwright() as playwright:
        # Root in a container has no user namespace for the browser's sandbox.
        rules = ", ".join(["MAP * ~NOTFOUND", *(f"EXCLUDE {host}" for host in reachable)])
        flags = [f"--host-resolver-rules={rules}", *(["--no-sandbox"] if os.getuid() == 0 else [])]
        started = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            yield started
        finally:
            started.close()


class Opened:
    """An open report. The tests' scripts bypass its policy; everything in the page is subject to it."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.set_default_timeout(DEADLINE_MS)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        self._cdp = page.context.new_cdp_session(page)
        self.file = file

    def go(self, address: str = "") -> None:
        """Open the report at an address, as a link would."""
        self.page.goto(f"{self.file.as_uri()}{address}")
        self.wait("payloads")

    def restart(self) -> None:
        """Open the report again, without any state of an earlier visit."""
        self.run("localStorage.clear()")
        self.page.goto("about:blank")
        self.requests.clear()
        self.errors.clear()
        self.go()

    def wait(self, state: str) -> None:
        """Wait until that much of the report is read."""
        self.page.wait_for_selector(f'html[data-ready="{state}"]', state="attached")

    def run(self, expression: str) -> Any:
        """Returns the value of an expression in the page."""
        options = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self._cdp.send("Runtime.evaluate", options)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def walk(self, key: str, count: int) -> list[str]:
        """Press a key `count` times in the traffic, from within the page; returns the titles of the details shown."""
        self.page.focus("table.traffic")
        titles: list[str] = self.run(_WALK % {"key": key, "count": count})
        return titles

    def work_s(self) -> float:
        """Returns the time spent on scripts, styles and layout so far, even if the machine is otherwise busy."""
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        figures = {one["name"]: one["value"] for one in self._cdp.send("Performance.getMetrics")["metrics"]}
        return float(figures["ScriptDuration"] + figures["LayoutDuration"] + figures["RecalcStyleDuration"])

    def rows(self, name: str = "traffic") -> list[str]:
        """Returns the text of the rows of a list that exist now."""
        made = f"[...document.querySelectorAll('table.{name} tbody tr:not(.space)')].map((row) => row.textContent)"
        texts: list[str] = self.run(made)
        return texts


@contextmanager
def opened(
    started: Browser, file: Path, *, scheme: Literal["light", "dark"] = "light", width: int = 1280, height: int = 860
) -> Iterator[Opened]:
    """Open a report in a window of its own."""
    context = started.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
    context.add_init_script(_LISTENER)
    try:
        report = Opened(context.new_page(), file)
        report.go()
        yield report
    finally:
        context.close()
