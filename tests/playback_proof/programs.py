"""Plays a capture with the programs, as a user would start them: `mcpproxy replay` against `mcpproxy mock`."""

import subprocess
import sys
from pathlib import Path

from tests.playback_proof.equality import compared, reason_of

PROGRAM = Path(sys.executable).with_name("mcpproxy")
WITHIN_S = 120


def replay(capture: Path, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Replay a capture to its own mock.

    Returns:
        Why the new capture differs, in short, and the details; both are empty if it does not.
    """
    new = folder / "new.mcpcap"
    command = [str(PROGRAM), "replay", str(capture), "--yes", "--capture", str(new)]
    done = subprocess.run(
        [*command, "--", str(PROGRAM), "mock", str(capture)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WITHIN_S,
        check=False,
    )
    told = (done.stderr.decode(errors="replace")[-1_500:], done.stdout.decode(errors="replace")[-1_500:])
    if b"Traceback" in done.stderr:
        return "traceback", told
    if not new.exists():
        return f"no capture, exit code {done.returncode}", told
    verdict = compared(capture, new)
    return reason_of(verdict), (*verdict.sentences, *verdict.failures, *told)
