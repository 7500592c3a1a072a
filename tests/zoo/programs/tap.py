"""Runs a server, and notes every byte that goes in and out: tap.py FOLDER COMMAND [ARGUMENT ...].

FOLDER gets a folder for each start, named by the time and the pid, with `c2s` and `s2c`. Bytes are noted before they go
on.
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def pump(source: int, target: int, note: Path) -> None:
    """Copy up to the end, and close the target."""
    with note.open("wb", buffering=0) as noted:
        while chunk := os.read(source, 1 << 16):
            noted.write(chunk)
            os.write(target, chunk)
    os.close(target)


folder = Path(sys.argv[1]) / f"{time.monotonic_ns()}-{os.getpid()}"
folder.mkdir(parents=True)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert server.stdin is not None
assert server.stdout is not None
inward = (0, os.dup(server.stdin.fileno()), folder / "c2s")
server.stdin.close()
threading.Thread(target=pump, args=inward, daemon=True).start()
pump(server.stdout.fileno(), 1, folder / "s2c")
os._exit(server.wait())
