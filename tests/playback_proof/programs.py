"""Plays a capture with the programs, as a user would start them: `mcpproxy replay` against `mcpproxy mock`."""

import subprocess
import sys
from pathlib import Path

from captures.listing import find_captures
from captures.reader import Capture
from tests.playback_proof.equality import compared_sets, reason_of
from tests.playback_proof.sdks import listening

PROGRAM = Path(sys.executable).with_name("mcpproxy")
WITHIN_S = 60


def replay(capture: Path, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Replay a capture to its own mock, over the transport of the capture.

    Returns:
        Why the new captures differ, in short, and the details; both are empty if they do not.
    """
    command = [str(PROGRAM), "replay", str(capture), "--yes", "--capture", f"{folder / 'new'}/"]
    mock = [str(PROGRAM), "mock", str(capture)]
    if Capture(capture).header.members.get("transport") == "http":
        with listening([*mock, "--listen", "127.0.0.1:0"], folder / "mock.log") as url:
            return _judged(capture, folder, [*command, url])
    return _judged(capture, folder, [*command, "--", *mock])


def _judged(capture: Path, folder: Path, command: list[str]) -> tuple[str, tuple[str, ...]]:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S, check=False)
    except subprocess.TimeoutExpired as late:
        return f"no end within {WITHIN_S} s", ((late.stderr or b"").decode(errors="replace")[-1_500:],)
    told = (done.stderr.decode(errors="replace")[-1_500:], done.stdout.decode(errors="replace")[-1_500:])
    if b"Traceback" in done.stderr:
        return "traceback", told
    new = find_captures(folder / "new")
    if b"no message of a client to send" in done.stderr:
        return "(nothing to send)", ()
    if not new:
        return f"no capture, exit code {done.returncode}", told
    verdict = compared_sets([capture], sorted(new))
    return reason_of(verdict), (f"exit code {done.returncode}", *verdict.sentences, *verdict.failures, *told)
