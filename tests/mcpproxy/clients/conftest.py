"""A fixture that runs commands in the process of the test."""

import pytest

from tests.mcpproxy.clients.command_runner import CommandRunner


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(monkeypatch, capfd)
