"""`mcpproxy check` on logins in a capture that `serve` is still writing."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from analysis.clock import MAX_WRITING_NS
from analysis.conversation.login import GIVEN_UP_NS
from captures.file import CaptureFile
from tests.mcpproxy.cli.test_follow_integration import Output
from tests.mcpproxy.cli.typed import mcpproxy, started
from tests.mcpproxy.login_captures import SERVER_METADATA, LoginCapture

FAILED = "the login failed at the token request: 400 invalid_grant"
RULES = ("--rule", "auth/login-*")


@contextmanager
def recorded(path: Path, age_ns: int) -> Iterator[CaptureFile]:
    """A capture that a recorder holds open, of a login whose request for a token failed `age_ns` ago."""
    capture = LoginCapture(path, wall_ns=time.time_ns() - age_ns)
    capture.leg("server-metadata", "GET", SERVER_METADATA, iss="https://mcp.example.org")
    capture.authorization()
    capture.token(400, error="invalid_grant")
    file = CaptureFile(path)
    try:
        for line in capture._lines:
            file.append(line)
        yield file
    finally:
        file.close()


@pytest.mark.parametrize("seconds", [11, 60])
def test_a_failed_login_is_reported_while_it_is_recorded(tmp_path: Path, seconds: int) -> None:
    with recorded(tmp_path / "c.mcpcap", seconds * 1_000_000_000 + MAX_WRITING_NS) as file:
        done = mcpproxy("check", *RULES, file.path)
        assert FAILED in done.stdout.decode()
        assert "under way" not in done.stderr.decode()


def test_a_login_that_may_still_go_on_is_said_to_be_under_way(tmp_path: Path) -> None:
    with recorded(tmp_path / "c.mcpcap", 0) as file:
        done = mcpproxy("check", *RULES, file.path)
        assert FAILED not in done.stdout.decode()
        assert "1 login is still under way" in done.stderr.decode()
    done = mcpproxy("check", *RULES, file.path)
    assert FAILED in done.stdout.decode(), "no recorder writes it any more"
    assert "under way" not in done.stderr.decode()


def test_a_failed_login_is_reported_while_it_is_followed(tmp_path: Path) -> None:
    age_ns = GIVEN_UP_NS + MAX_WRITING_NS - 300_000_000
    with ExitStack() as recording:
        file = recording.enter_context(recorded(tmp_path / "c.mcpcap", age_ns))
        with started("check", *RULES, "--follow", file.path) as process:
            output = Output(process)
            output.wait_for(FAILED)
            recording.close()
            assert output.rest().count(FAILED) == 1
