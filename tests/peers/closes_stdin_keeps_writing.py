"""Closes its stdin at once, writes numbered frames, then exits.

    closes_stdin_keeps_writing.py [--frames N] [--gap-ms N] [--status N]

The first frame has `params.data.closed`; `--frames` more follow with `params.data.n`, `--gap-ms` apart.
"""

import argparse
import json
import os
import select
import sys


def tell(data: dict[str, object]) -> None:
    frame = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}}
    os.write(1, json.dumps(frame).encode() + b"\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=10)
    parser.add_argument("--gap-ms", type=float, default=1)
    parser.add_argument("--status", type=int, default=0)
    options = parser.parse_args()
    os.close(0)
    tell({"closed": "stdin"})
    for number in range(options.frames):
        select.select([], [], [], options.gap_ms / 1000)
        tell({"n": number})
    os._exit(options.status)


if __name__ == "__main__":
    sys.exit(main())
