"""Writes numbered frames as fast as the other side reads them; ends when all are written.

    flood.py [--frames N] [--size N] [--batch N] [--wait-first] [--wait]

Frame n (from 0) is a notification with `params.data.n`. `--frames 0` never ends. `--size` pads each frame to
that many bytes, newline included; `--batch` frames go out in one write. `--wait-first` waits for a line on stdin
before the first one, `--wait` for the end of stdin after the last one.
"""

import argparse
import os
import sys

HEAD = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"n":%d,"pad":"'
TAIL = b'"}}}\n'


def frame(number: int, size: int) -> bytes:
    head = HEAD % number
    return head + b"x" * (size - len(head) - len(TAIL)) + TAIL


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--wait-first", action="store_true")
    parser.add_argument("--wait", action="store_true")
    options = parser.parse_args()
    if options.wait_first:
        os.read(0, 65536)
    number = 0
    while number < options.frames or not options.frames:
        end = number + options.batch if not options.frames else min(number + options.batch, options.frames)
        chunk = memoryview(b"".join(frame(n, options.size) for n in range(number, end)))
        while chunk:
            chunk = chunk[os.write(1, chunk) :]
        number = end
    while options.wait and os.read(0, 65536):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
