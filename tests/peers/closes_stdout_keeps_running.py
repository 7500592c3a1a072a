"""Closes its stdout after one frame and keeps reading; finally reports on stderr how much it read.

    closes_stdout_keeps_running.py [--status N]

At the end of stdin it writes `read N bytes` to stderr and exits with `--status`.
"""

import argparse
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--status", type=int, default=0)
    options = parser.parse_args()
    os.write(
        1, b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"closing stdout"}}\n'
    )
    os.close(1)
    total = 0
    while chunk := os.read(0, 65536):
        total += len(chunk)
    os.write(2, b"read %d bytes\n" % total)
    # At exit, the interpreter would flush the closed descriptor.
    os._exit(options.status)


if __name__ == "__main__":
    sys.exit(main())
