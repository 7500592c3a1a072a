"""Runs a server, and logs every byte in both directions: tap.py FOLDER COMMAND [ARGUMENT ...].

For each start, FOLDER gets a folder named after the time and the pid, with the files `c2s` and `s2c`. Bytes are logged
before they are passed on.
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def pump(source: int, target: int, note: Path) -> None:
    """Copy a stream up to its end, then close the target."""
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
