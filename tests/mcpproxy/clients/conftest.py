"""A fixture that runs commands in the process of the test."""

import pytest

from tests.mcpproxy.clients.here import Here


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    return Here(monkeypatch, capfd)
