"""Writes a lot to stderr, then one frame to stdout; ends when its stdin does.

    stderr_flood.py [--bytes N] [--line N] [--status N]

`--line` is the length of a line including its newline; 0 means no newlines. In the frame, `params.data.stderr` is the
number of bytes written.
"""

import argparse
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--line", type=int, default=80)
    parser.add_argument("--status", type=int, default=0)
    options = parser.parse_args()
    piece = b"e" * (options.line - 1) + b"\n" if options.line else b"e" * 4096
    block = piece * max(1, 65536 // len(piece))
    left = options.bytes
    while left > 0:
        left -= os.write(2, block[:left])
    done = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"stderr":%d}}}\n'
    os.write(1, done % options.bytes)
    while os.read(0, 65536):
        pass
    return int(options.status)


if __name__ == "__main__":
    sys.exit(main())
