"""Kills the recorder during a flood, on a quiet and on busy machines: how many delivered frames does the capture lack?

    python -m tests.bench.kills [--kills N] [--condition NAME ...] [--python PATH] [--json]
    python -m tests.bench.kills --serve [--kills N]

A server writes numbered frames as fast as they are read. After a random number of bytes, the recorder alone gets
SIGKILL; what the client has received by then, and what is still in its pipe, was delivered. The budget is 0 missing
frames in every condition. `--python` names the interpreter of another installation, to compare with.

`serve` hands bytes on before it writes their records, so a kill costs it the last ones. `--serve` measures how long
before the kill the first missing answer had reached the client, with one request in flight.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from captures.file import is_live
from captures.integrity import inspect
from captures.reader import Capture
from tests.harness import Place, Session, frames, is_alive, peer, server_of, wait_until
from tests.http_harness import Upstream, answering, post, serving

FRAME: Final = 400
MOST_BYTES: Final = 24 << 20
BUSY_LOOPS: Final = 12
LAST_IN_LINE: Final = 19
STOPPED_S: Final = 0.3
"""How long SIGSTOP holds the recorder before the kill; `RESUMED_S` is how long it then runs."""
RESUMED_S: Final = 0.1
DUTY_S: Final = (0.01, 0.09)
"""How long it runs and is stopped in turn, like a container that has used up its share of the processor."""
LOOP: Final = "while True: pass"


class Condition(NamedTuple):
    """What happens to the machine, or to the recorder, while it records."""

    busy_loops: int = 0
    most_bytes: int = MOST_BYTES
    """The largest number of bytes after which the kill comes."""
    meanwhile: Callable[[Session], contextlib.AbstractContextManager[None]] | None = None
    """What is done to the recorder until it is killed."""
    last: Callable[[Session], None] | None = None
    """What is done to it just before."""


def _stop_and_resume(session: Session) -> None:
    os.kill(session.pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(session.pid, signal.SIGCONT)
    time.sleep(RESUMED_S)


@contextlib.contextmanager
def _on_duty(session: Session) -> Iterator[None]:
    """Let the recorder run a tenth of the time."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            os.kill(session.pid, signal.SIGSTOP)
            over.wait(DUTY_S[1])
            os.kill(session.pid, signal.SIGCONT)
            over.wait(DUTY_S[0])

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def _niced(session: Session) -> Iterator[None]:
    """Let everything else run before the recorder; only from now on, as its start alone would take a minute."""
    for thread in os.listdir(f"/proc/{session.pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), LAST_IN_LINE)
    yield


CONDITIONS: Final = {
    "quiet": Condition(),
    "beside 12 busy loops": Condition(BUSY_LOOPS),
    "stopped and continued": Condition(last=_stop_and_resume),
    "10 ms running, 90 ms stopped": Condition(meanwhile=_on_duty),
    "nice 19 beside 2 busy loops": Condition(2, MOST_BYTES >> 3, _niced),
}


class Outcome(NamedTuple):
    """What a number of kills cost."""

    kills: int = 0
    delivered: int = 0
    missing: int = 0
    bad: int = 0
    """Kills after which at least one frame was missing."""

    def plus(self, delivered: int, missing: int) -> "Outcome":
        """Returns the outcome with one more kill."""
        return Outcome(self.kills + 1, self.delivered + delivered, self.missing + missing, self.bad + bool(missing))


@contextlib.contextmanager
def busy_loops(count: int, cpu: int | None = None) -> Iterator[None]:
    """Run `count` processes that only use a processor: the one given, or any."""
    loops = [subprocess.Popen([sys.executable, "-I", "-S", "-c", LOOP]) for _ in range(count)]
    try:
        if cpu is not None:
            for loop in loops:
                os.sched_setaffinity(loop.pid, {cpu})
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def kill_once(place: Place, chance: random.Random, condition: Condition) -> tuple[int, int]:
    """Kill one recorder under flood; returns how many frames were delivered, and how many of them are missing."""
    session, delivered = _killed(place, chance, condition)
    recorded = [frame.raw for frame in session.frames("s2c") if frame.whole]
    differing = sum(ours != theirs for ours, theirs in zip(recorded, delivered, strict=False))
    state = inspect(Capture(_capture_of(session))).state
    assert state == "incomplete", f"a killed recorder leaves a whole capture without an end, not a {state} one"
    return len(delivered), differing + max(0, len(delivered) - len(recorded))


def _killed(place: Place, chance: random.Random, condition: Condition) -> tuple[Session, list[bytes]]:
    """Kill a recorder; returns its session, all of whose processes have ended, and the frames that it delivered."""
    batch = str(chance.choice((1, 7, 64)))
    session = place.start(peer("flood", "--frames", "0", "--size", str(FRAME), "--batch", batch))
    server = server_of(session)
    # Neither the start nor the checks after a kill need a busy machine.
    with busy_loops(condition.busy_loops):
        with condition.meanwhile(session) if condition.meanwhile is not None else contextlib.nullcontext():
            received = session.receive(chance.randrange(1, condition.most_bytes))
            reading = threading.Thread(target=lambda: received_later.append(session.rest()))
            received_later: list[bytes] = []
            if condition.last is not None:
                # If nobody read it, the flood would stop.
                reading.start()
                condition.last(session)
        session.process.kill()
        session.process.wait()
        if condition.last is not None:
            reading.join()
            received += received_later[0]
        else:
            received += session.rest()
        wait_until(lambda: not is_alive(server), "the server to be gone with its recorder", 300)
        # The guard writes what the recorder could not, and then releases the lock.
        wait_until(lambda: not is_live(_capture_of(session)), "the capture to be released", 300)
    return session, received.split(b"\n")[:-1]


def _capture_of(session: Session) -> Path:
    assert session.capture is not None
    return session.capture


def kill_often(root: Path, kills: int, condition: Condition, python: str = sys.executable) -> Outcome:
    """Kill `kills` recorders under one condition; each capture is below `root` for a moment."""
    outcome = Outcome()
    for number in range(kills):
        place = Place(root / str(number), python)
        outcome = outcome.plus(*kill_once(place, random.Random(number), condition))
        left = place.clear()
        assert not left, f"processes are left: {left}"
        shutil.rmtree(place.root)
    return outcome


def _echo_id(request: bytes) -> bytes:
    ident = int(request.rpartition(b'"id":')[2].partition(b",")[0])
    body = b'{"jsonrpc":"2.0","id":%d,"result":{}}' % ident
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def kill_serving(place: Place, chance: random.Random) -> tuple[int, int, float]:
    """Kill one `serve`; returns how many answers were delivered, how many are missing, and the age of the first."""
    arrived: list[float] = []
    with Upstream(answering(_echo_id)) as upstream, serving(place, upstream) as served, served.client() as client:
        until = time.monotonic() + chance.uniform(0.2, 1.5)
        while time.monotonic() < until:
            client.say(post(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % len(arrived)))
            client.head()
            client.through(b'"result":{}}')
            arrived.append(time.monotonic())
        os.kill(served.pid, signal.SIGKILL)
        killed = time.monotonic()
        served.session.process.wait()
        recorded = {frame.verdict.id for frame in frames(served.capture, "s2c")}
    missing = [at for number, at in enumerate(arrived) if b"%d" % number not in recorded]
    return len(arrived), len(missing), (killed - missing[0]) * 1000 if missing else 0.0


def serve_table(root: Path, kills: int) -> None:
    """Print what kills of `serve` cost."""
    print(f"{'serve':<32}{'kills':>7}{'answers':>10}{'missing':>9}{'p50':>9}{'p95':>9}{'most':>9}  ms before the kill")
    for name, loops in (("quiet", 0), ("beside 12 busy loops", BUSY_LOOPS)):
        answers = missing = 0
        ages: list[float] = []
        with busy_loops(loops):
            for number in range(kills):
                place = Place(root / f"{loops}-{number}")
                place.root.mkdir(parents=True)
                delivered, lost, age = kill_serving(place, random.Random(number))
                answers, missing = answers + delivered, missing + lost
                ages.append(age)
                place.clear()
                shutil.rmtree(place.root)
        ages.sort()
        p50, p95, most = ages[len(ages) // 2], ages[len(ages) * 95 // 100], ages[-1]
        print(f"{name:<32}{kills:>7,}{answers:>10,}{missing:>9,}{p50:>9.1f}{p95:>9.1f}{most:>9.1f}", flush=True)


def main(argv: list[str]) -> int:
    """Measure and print; returns 1 if frames are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kills", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="under each condition (default: 200)")
    parser.add_argument("--condition", action="append", choices=CONDITIONS, help="only this one; may be repeated")
    parser.add_argument("--python", default=sys.executable, help="whose mcpproxy is killed")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--serve", action="store_true", help="kill `serve` instead, and tell how much that costs")
    options = parser.parse_args(argv)
    if options.serve:
        with tempfile.TemporaryDirectory() as folder:
            serve_table(Path(folder), options.kills)
        return 0
    missing = 0
    if not options.json:
        print(f"{'condition':<32}{'kills':>7}{'delivered':>14}{'missing':>10}{'kills with loss':>18}")
    for name in options.condition or CONDITIONS:
        with tempfile.TemporaryDirectory() as folder:
            outcome = kill_often(Path(folder), options.kills, CONDITIONS[name], options.python)
        missing += outcome.missing
        if options.json:
            print(json.dumps({"condition": name, **outcome._asdict()}), flush=True)
        else:
            print(
                f"{name:<32}{outcome.kills:>7,}{outcome.delivered:>14,}{outcome.missing:>10,}{outcome.bad:>18,}",
                flush=True,
            )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
