"""Writes one frame of a chosen size, piece by piece; ends when its stdin does.

    giant_frame.py [--bytes N] [--fill x|brackets|euro] [--no-newline] [--end]

The frame is a complete notification of exactly `--bytes` bytes (at least 128), not counting its newline. It is filled
with a string of `x`, an array of empty arrays (slow to parse), or a string of euro signs (three bytes each, so that a
cut at a power of two falls inside one). `--no-newline` omits the newline; `--end` exits as soon as the frame is
written, not at EOF.
"""

import argparse
import os
import sys
from collections.abc import Iterator

HEAD = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":'
FILLS = {"x": (b'"', b"x", b'"'), "brackets": (b"[", b"[],", b"[]]"), "euro": (b'"', "€".encode(), b'"')}


def pieces(size: int, fill: str) -> Iterator[bytes]:
    opening, unit, closing = FILLS[fill]
    count, left = divmod(size - len(HEAD) - len(opening) - len(closing) - 2, len(unit))
    yield HEAD + opening
    block = unit * (65536 // len(unit))
    whole, rest = divmod(count, 65536 // len(unit))
    for _ in range(whole):
        yield block
    # Whitespace between tokens has no meaning: it fills a remainder shorter than one unit.
    yield unit * rest + closing + b" " * left + b"}}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--fill", choices=FILLS, default="x")
    parser.add_argument("--no-newline", action="store_true")
    parser.add_argument("--end", action="store_true")
    options = parser.parse_args()
    for piece in [*pieces(options.bytes, options.fill), b"" if options.no_newline else b"\n"]:
        left = memoryview(piece)
        while left:
            left = left[os.write(1, left) :]
    while not options.end and os.read(0, 65536):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
