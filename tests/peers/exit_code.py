"""Writes some bytes and exits with a chosen status.

    exit_code.py [--status N] [--bytes N] [--hex BYTES] [--after-line]

First writes to stdout `--bytes` bytes of `x` in lines of 100, or exactly the bytes of `--hex`; the last line may be
unfinished. `--after-line` first waits for a line on stdin.
"""

import argparse
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--hex", type=bytes.fromhex, default=b"")
    parser.add_argument("--after-line", action="store_true")
    options = parser.parse_args()
    if options.after_line:
        sys.stdin.buffer.readline()
    line = b"x" * 99 + b"\n"
    left = memoryview(options.hex or (line * (options.bytes // 100 + 1))[: options.bytes])
    while left:
        left = left[os.write(1, left) :]
    return int(options.status)


if __name__ == "__main__":
    sys.exit(main())
