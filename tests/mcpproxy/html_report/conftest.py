"""One browser for all tests, and a module's report opened in it for each test; a module gives the report as `file`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.mcpproxy.html_report.browser import Opened, browser, opened


@pytest.fixture(scope="session")
def started() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture
def report(started: Browser, file: Path) -> Iterator[Opened]:
    with opened(started, file) as made:
        yield made
