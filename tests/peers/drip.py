"""Writes bytes one at a time, each with its own write; ends when its stdin does.

    drip.py [--hex BYTES] [--times N] [--gap-ms N] [--end]

`--hex` gives the bytes to write (by default a notification whose text holds characters of two, three and four bytes),
`--times` how often. `--gap-ms` waits between two bytes, so that each arrives as a separate chunk. `--end` exits as soon
as everything is written, not at EOF.
"""

import argparse
import os
import select
import sys

FRAME = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"é € 𝄞"}}\n'.encode()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hex", type=bytes.fromhex, default=FRAME)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--gap-ms", type=float, default=0)
    parser.add_argument("--end", action="store_true")
    options = parser.parse_args()
    for byte in options.hex * options.times:
        os.write(1, bytes([byte]))
        if options.gap_ms:
            select.select([], [], [], options.gap_ms / 1000)
    while not options.end and os.read(0, 65536):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
