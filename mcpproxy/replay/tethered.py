"""Runs mcpproxy until its stdin ends, so that it does not outlive its parent: `python -m mcpproxy.replay.tethered`.

`serve` has no use for its stdin, and would go on for ever if a replay or a mock is killed.
"""

import os
import signal
import sys
import threading

from mcpproxy.__main__ import main


def _end_with_stdin() -> None:
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_stdin, name="tether", daemon=True).start()
    sys.exit(main())
