"""Plays the demo at the pace of a person at work: `python -P -m mcpproxy.demo.play DIRECTORY`.

One session exists from the start; then others are recorded live, one after the other, into captures below the
directory. It continues until its stdin ends for any reason, and then removes the directory.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from captures.file import choose_path
from mcpproxy.demo.client import SilentError, converse

DEMO_NAME: Final = "demo"
PACE_S: Final = 0.9
"""The pause between two messages of the client, in seconds."""
PAUSE_S: Final = 4.0
"""The pause between two sessions, in seconds."""
MAX_DEMO_SESSIONS: Final = 50
"""The maximum number of sessions: a forgotten demo must not fill the disk."""


class _ViewerGone(Exception):
    """The viewer has gone."""


def play_sessions(directory: Path, viewer_gone: threading.Event) -> None:
    """Record sessions until the viewer is gone.

    Args:
        directory: where captures are created.
        viewer_gone: set when the viewer is gone.
    """

    def wait(seconds: float) -> None:
        if viewer_gone.wait(seconds):
            raise _ViewerGone

    _record_session(directory, lambda: wait(0))
    for _ in range(MAX_DEMO_SESSIONS):
        _record_session(directory, lambda: wait(PACE_S))
        wait(PAUSE_S)
    viewer_gone.wait()


def _record_session(directory: Path, pace: Callable[[], None]) -> None:
    python = [sys.executable, "-P", "-m"]
    path = choose_path(os.path.join(directory, DEMO_NAME, ""), "", time.time_ns())
    command = [*python, "mcpproxy", "run", "--name", DEMO_NAME, "--capture", path]
    converse([*command, "--", *python, "mcpproxy.demo.server", "--faulty"], subprocess.DEVNULL, pace=pace)


def main(arguments: list[str]) -> int:
    """Play until stdin ends."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -P -m mcpproxy.demo.play DIRECTORY\n")
        return 2
    directory, viewer_gone = Path(arguments[0]), threading.Event()

    def listen() -> None:
        while os.read(0, 4096):
            pass
        viewer_gone.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        play_sessions(directory, viewer_gone)
    except _ViewerGone:
        pass
    except (SilentError, OSError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
