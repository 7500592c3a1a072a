"""Starts a server that inherits its pipes, then exits at once, as launchers do.

    launcher.py [--end 0|7|TERM] [--holds both|stdout|stderr] [--daemon]

Sends the pids in one frame before it ends: `params.data` has `parent` and `child`. The child echoes its stdin and exits
at its end; without stdin it waits up to two minutes for TERM. `--end` is the exit status of the parent, or the signal
that kills it. `--holds` names the pipes that the child keeps open. `--daemon` forks twice, into another session.
"""

import argparse
import json
import os
import signal
import sys

KEPT = {"both": (0, 1, 2), "stdout": (1,), "stderr": (2,)}


def child(holds: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in {0, 1, 2} - {*KEPT[holds]}:
        os.dup2(null, fd)
    signal.alarm(120)
    if holds != "both":
        signal.pause()
    while chunk := os.read(0, 65536):
        os.write(1, chunk)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--end", default="0")
    parser.add_argument("--holds", choices=KEPT, default="both")
    parser.add_argument("--daemon", action="store_true")
    options = parser.parse_args()
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        if options.daemon:
            os.setsid()
            if os.fork():
                os._exit(0)
        os.write(tell, b"%d" % os.getpid())
        os.close(tell)
        child(options.holds)
        os._exit(0)
    data = {"parent": os.getpid(), "child": int(os.read(told, 20))}
    frame = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}}
    os.write(1, json.dumps(frame).encode() + b"\n")
    if not options.end.isdigit():
        os.kill(os.getpid(), getattr(signal, f"SIG{options.end}"))
    return int(options.end)


if __name__ == "__main__":
    sys.exit(main())
