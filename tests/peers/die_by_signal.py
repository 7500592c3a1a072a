"""Kills itself with a chosen signal, after one frame.

    die_by_signal.py [--signal NAME] [--after-line]

Before that, it unblocks the signal (default KILL) and restores its default action; no core dump is left. `--after-line`
first waits for a line on stdin.
"""

import argparse
import os
import resource
import signal
import sys


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--signal", default="KILL")
    parser.add_argument("--after-line", action="store_true")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if options.after_line:
        sys.stdin.buffer.readline()
    os.write(1, b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"last words"}}\n')
    number = signal.Signals[f"SIG{options.signal}"]
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 1


if __name__ == "__main__":
    sys.exit(main())
