"""One browser per module, and its report opened in it for each test; a module provides the report as `file`.

Modules do not share one: while Playwright runs, its thread has an event loop, and nothing else can run one there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mcpproxy.html_report.browser import Opened, browser, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def window(started: Browser, file: Path) -> Iterator[Opened]:
    with opened(started, file) as made:
        yield made


@pytest.fixture
def report(window: Opened) -> Opened:
    """The report in its initial state; opening a window for each test would cost a second."""
    window.restart()
    return window
