"""Ignores the end of its stdin and the signals that ask it to end; only KILL works.

    stubborn.py [--ignore NAME,...] [--lifetime S]

Reports in one frame that it is ready: `params.data.ready` is its pid. `--ignore` names the signals (default
TERM,INT,HUP). It kills itself after `--lifetime` seconds (default 120), so that a failed test leaves no process
running.
"""

import argparse
import json
import os
import signal
import sys


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ignore", default="TERM,INT,HUP")
    parser.add_argument("--lifetime", type=int, default=120)
    options = parser.parse_args()
    for name in filter(None, options.ignore.split(",")):
        signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_IGN)
    signal.alarm(options.lifetime)
    ready = {
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {"level": "info", "data": {"ready": os.getpid()}},
    }
    os.write(1, json.dumps(ready).encode() + b"\n")
    while os.read(0, 65536):
        pass
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
