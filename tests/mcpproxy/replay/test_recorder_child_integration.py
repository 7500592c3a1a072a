"""The recorder of a replay ends its server, whatever that ignores, and closes the capture."""

import sys
from pathlib import Path

import pytest

from analysis.reading import read
from mcpproxy.replay.recorder_child import RecorderChild

IGNORING = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(99)"


@pytest.mark.costly("starts a recorder, and waits until it has done all that ends a server")
def test_a_server_that_ignores_the_end_of_stdin_and_sigterm_leaves_a_whole_capture(tmp_path: Path) -> None:
    capture = tmp_path / "new.mcpcap"
    child = RecorderChild(["run", f"--capture={capture}", "--", sys.executable, "-c", IGNORING])
    with child.stdout:
        assert child.stdout.readline() == b"1\n"
        child.end()
    assert [step.end for step in read(capture).to_end()][-1] == "closed"
