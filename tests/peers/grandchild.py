"""Starts a child in the background that keeps stdout (and stdin) open, then exits at once.

    grandchild.py [--status N] [--frames N] [--ignore-term] [--session] [--lifetime S]

Sends the pids in one frame before it ends: `params.data` has `parent` and `child`. Once the parent is gone, the child
writes `--frames` numbered frames, then lives until TERM or for `--lifetime` seconds (default 120). `--ignore-term`
makes it ignore TERM; `--session` puts it in its own session. `--status` is the exit status of the parent.
"""

import argparse
import json
import os
import signal
import sys


def tell(data: dict[str, int]) -> None:
    frame = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}}
    os.write(1, json.dumps(frame).encode() + b"\n")


def child(parent_alive: int, options: argparse.Namespace) -> None:
    if options.session:
        os.setsid()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(options.lifetime)
    os.read(parent_alive, 1)
    for number in range(options.frames):
        tell({"n": number, "pid": os.getpid()})
    while True:
        signal.pause()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--frames", type=int, default=0)
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--session", action="store_true")
    parser.add_argument("--lifetime", type=int, default=120)
    options = parser.parse_args()
    parent_alive, held_by_parent = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(held_by_parent)
        child(parent_alive, options)
    tell({"parent": os.getpid(), "child": pid})
    return int(options.status)


if __name__ == "__main__":
    sys.exit(main())
