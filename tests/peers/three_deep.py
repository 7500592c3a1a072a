"""A shell that runs a Python that runs a Python; all three ignore TERM and the end of stdin.

    three_deep.py [--lifetime S]

Once all three run, one frame has their pids in `params.data.pids`, the shell (the started process) first. They end by
KILL, or after `--lifetime` seconds (default 120).
"""

import argparse
import json
import os
import signal
import subprocess
import sys


def deeper(pids: list[int], options: argparse.Namespace) -> None:
    words = ["--lifetime", str(options.lifetime), "--pids", ",".join(map(str, pids))]
    argv = [sys.executable, "-I", os.path.abspath(__file__), *words]
    if len(pids) == 1:
        # The trap of '' is inherited; the colon keeps the shell from replacing itself with the command.
        os.execv("/bin/sh", ["sh", "-c", 'trap "" TERM; "$@"; :', "sh", *argv])
    subprocess.run(argv, check=False)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lifetime", type=int, default=120)
    parser.add_argument("--pids", default="")
    options = parser.parse_args()
    pids = [*(int(pid) for pid in options.pids.split(",") if pid), os.getpid()]
    if len(pids) > 1:
        signal.alarm(options.lifetime)
    if len(pids) < 3:
        deeper(pids, options)
        return 0
    frame = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": {"pids": pids}}}
    os.write(1, json.dumps(frame).encode() + b"\n")
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
