"""The benchmark's client and server in Python, for systems without a C compiler: they act like client.c and echo.c."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, Final

FRAME: Final = 400
ID: Final = re.compile(rb'"id":(\d+)')
GIANT: Final = re.compile(rb'"giant":(\d+)')


def frame(head: bytes, tail: bytes, size: int) -> bytes:
    """`head` and `tail`, padded between them to `size` bytes, newline included."""
    return head + b"x" * (size - len(head) - len(tail) - 1) + tail + b"\n"


def request(number: int) -> bytes:
    """A request of 400 bytes."""
    return frame(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"text":"' % number, b'"}}', FRAME)


def echo() -> int:
    """Answer each line with a result for its id, until the end of stdin."""
    while line := sys.stdin.buffer.readline():
        if asked := ID.search(line, 0, 256):
            giant = GIANT.search(line, 0, 256)
            size = int(giant[1]) if giant else FRAME
            sys.stdout.buffer.write(frame(b'{"jsonrpc":"2.0","id":%s,"result":{"text":"' % asked[1], b'"}}', size))
            sys.stdout.buffer.flush()
    return 0


def round_trip(there: IO[bytes], back: IO[bytes], line: bytes) -> int:
    """Send a line and wait for the answer; returns nanoseconds."""
    began = time.perf_counter_ns()
    there.write(line)
    if not back.readline():
        raise EOFError("the command closed its stdout")
    return time.perf_counter_ns() - began


def ping(there: IO[bytes], back: IO[bytes], count: int, warmup: int) -> dict[str, float]:
    """One frame in flight."""
    took = sorted([round_trip(there, back, request(i)) for i in range(warmup + count)][warmup:])
    shares = {"p50_ns": 500, "p99_ns": 990, "p999_ns": 999, "max_ns": 1000}
    found: dict[str, float] = {name: took[min(count - 1, count * share // 1000)] for name, share in shares.items()}
    return found | {"frames": 2 * (warmup + count)}


def flood(there: IO[bytes], back: IO[bytes], count: int, window: int) -> dict[str, float]:
    """Keep at most `window` frames unanswered: half a window goes out, half a window comes back.

    At most 128, too: what is unanswered must fit into one pipe, since one thread writes and reads in turn.
    """
    window = min(window, 128)
    round_trip(there, back, request(0))
    began = time.perf_counter_ns()
    made = 0
    for answered in range(count):
        if made < count and made - answered <= window // 2:
            more = min(count - made, window - window // 2)
            there.write(b"".join(request(made + i) for i in range(more)))
            made += more
        back.readline()
    seconds = (time.perf_counter_ns() - began) / 1e9
    return {"per_s": count / seconds, "seconds": seconds, "frames": 2 * (count + 1)}


def giant(there: IO[bytes], back: IO[bytes], size: int, _: int) -> dict[str, float]:
    """Send a frame of `size` bytes, then receive one."""
    long = round_trip(there, back, frame(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"', b'"}}', size))
    ask = b'{"jsonrpc":"2.0","id":2,"method":"x","params":{"giant":%d}}\n' % size
    return {"there_ns": long, "back_ns": round_trip(there, back, ask), "frames": 4}


MODES: Final[dict[str, Callable[[IO[bytes], IO[bytes], int, int], dict[str, float]]]] = {
    "ping": ping,
    "flood": flood,
    "giant": giant,
}


def client(arguments: Sequence[str]) -> int:
    """Run the same measurements as client.c."""
    mode, count, extra, _, *argv = arguments
    began = time.perf_counter_ns()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as command:
        there, back = command.stdin, command.stdout
        assert there is not None
        assert back is not None
        with os.fdopen(back.fileno(), "rb", 65536, closefd=False) as lines:
            if mode == "start":
                round_trip(there, lines, request(0))
                seen: dict[str, float] = {"start_ns": time.perf_counter_ns() - began, "frames": 2}
            else:
                seen = MODES[mode](there, lines, int(count), int(extra))
            print(json.dumps(seen | {"pid": command.pid}), flush=True)
            sys.stdin.buffer.read()
            there.close()
            return command.wait()


if __name__ == "__main__":
    sys.exit(echo() if sys.argv[1] == "echo" else client(sys.argv[2:]))
