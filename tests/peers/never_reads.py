"""Never reads its stdin; exits when the other side closes it, unless `--stay` is given.

    never_reads.py [--stay] [--frames N] [--lifetime S]

Reports in one frame that it is ready (`params.data.ready` is its pid), then writes `--frames` numbered ones.
With `--stay`, it ignores the end of its stdin. It kills itself after `--lifetime` seconds (default 120).
"""

import argparse
import json
import os
import select
import signal
import sys


def tell(data: dict[str, int]) -> None:
    frame = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}}
    os.write(1, json.dumps(frame).encode() + b"\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--frames", type=int, default=0)
    parser.add_argument("--lifetime", type=int, default=120)
    options = parser.parse_args()
    signal.alarm(options.lifetime)
    tell({"ready": os.getpid()})
    for number in range(options.frames):
        tell({"n": number})
    while options.stay:
        signal.pause()
    hang_up = select.poll()
    hang_up.register(0, 0)
    hang_up.poll()
    return 0


if __name__ == "__main__":
    sys.exit(main())
