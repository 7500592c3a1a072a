"""Counts the signals that reach it and reports each one; ends when its stdin does.

    signal_counter.py [--signals NAME,...] [--status N] [--lifetime S]

The first frame has `params.data.ready` (its pid); then each signal (default TERM,INT,HUP,QUIT,USR1,USR2,WINCH,CONT)
produces one frame with `signal` and `count`, and the end of stdin one with `total`. Two signals of the same kind that
arrive together may be delivered as one, as with all POSIX signals. It kills itself after `--lifetime` seconds (default
120).
"""

import argparse
import collections
import json
import os
import select
import signal
import sys

SIGNALS = "TERM,INT,HUP,QUIT,USR1,USR2,WINCH,CONT"


def tell(data: dict[str, object]) -> None:
    frame = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}}
    os.write(1, json.dumps(frame).encode() + b"\n")


def watch(names: list[str]) -> int:
    """Watch for signals; returns a descriptor that receives the number of each as a byte."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for name in names:
        signal.signal(signal.Signals[f"SIG{name}"], lambda *_: None)
    return woken


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--signals", default=SIGNALS)
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--lifetime", type=int, default=120)
    options = parser.parse_args()
    woken = watch(options.signals.split(","))
    signal.alarm(options.lifetime)
    counts: collections.Counter[str] = collections.Counter()
    tell({"ready": os.getpid()})
    while True:
        readable, _, _ = select.select([0, woken], [], [])
        for number in os.read(woken, 64) if woken in readable else b"":
            name = signal.Signals(number).name.removeprefix("SIG")
            counts[name] += 1
            tell({"signal": name, "count": counts[name]})
        if 0 in readable and not os.read(0, 65536):
            tell({"total": dict(counts)})
            return int(options.status)


if __name__ == "__main__":
    sys.exit(main())
