"""Which words of `mcpproxy run` are its own, and which belong to the server's command."""

import sys
from pathlib import Path

import pytest

from tests.mcpproxy.cli.typed import cold

SERVER = [sys.executable, "-c", "import sys; print(sys.argv[1:])"]


@pytest.mark.parametrize("arguments", [[], ["--", "--name", "y"]], ids=str)
@pytest.mark.parametrize(
    "own", [[], ["--"], ["--name", "x"], ["--name", "x", "--"], ["--name=x", "--summary"]], ids=str
)
def test_options_end_at_the_first_word_that_is_none(tmp_path: Path, own: list[str], arguments: list[str]) -> None:
    """A `--` cannot be relied on: Gemini CLI and Qwen Code drop the first one, and PowerShell any unquoted one."""
    capture = tmp_path / "c.mcpcap"
    done = cold("run", "--capture", capture, *own, *SERVER, *arguments, HOME=str(tmp_path))
    assert (done.returncode, done.stdout.decode()) == (0, f"{arguments}\n")
    assert capture.exists()


@pytest.mark.parametrize("own", [["--name", "x"], ["--name", "x", "--"]], ids=str)
def test_a_command_that_is_not_found_ends_with_127(tmp_path: Path, own: list[str]) -> None:
    done = cold("run", *own, "no-such-command-of-ours", HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (127, b"")
    assert b"no-such-command-of-ours" in done.stderr
