"""`mcpproxy run` compared with a direct run and the C relay: round trips, flood, start-up, memory.

The subjects take turns within each round, so that a slow minute of the machine slows all of them; a figure is
the median over the rounds. After every recorded run the frames in the capture are counted against the frames
that crossed: a relay that records nothing cannot win.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.build import Tools

Seen = dict[str, float]
"""What the client measured in one run, and the memory of the command's process, in KiB."""

MIB: Final = 1 << 20
GIVE_UP_S: Final = 400


class Plan(NamedTuple):
    """How much is measured."""

    rounds: int = 7
    pings: int = 5_000
    warmup: int = 500
    flood: int = 60_000
    window: int = 512
    starts: int = 21
    giant: int = 64 * MIB


class Subject(NamedTuple):
    """One way to reach the server."""

    name: str
    argv: Callable[[Path], list[str]]
    """The command, given a fresh directory for what it records."""
    recorded: Callable[[Path], int] | None
    """Returns how many frames that directory holds; None for a direct run."""


class MiscountError(Exception):
    """A recorded run did not keep as many frames as crossed it, so its figures mean nothing."""


class Samples(NamedTuple):
    """All measurements, by subject: one entry per round (or start)."""

    ping: dict[str, list[Seen]]
    flood: dict[str, list[Seen]]
    start: dict[str, list[Seen]]
    giant: dict[str, list[Seen]]

    def median(self, kind: str, subject: str, figure: str) -> float:
        """The median of one figure, or NaN if the system does not provide it."""
        found = [seen[figure] for seen in getattr(self, kind).get(subject, []) if figure in seen]
        return statistics.median(found) if found else float("nan")


class Cores(NamedTuple):
    """Which processor each process runs on: if they are not pinned, the scheduler's luck outweighs what is measured."""

    peers: Sequence[str] = ()
    """Command words in front of the client and the server."""
    between: Sequence[str] = ()
    """Command words in front of the relay or recorder between them."""

    @classmethod
    def apart(cls) -> "Cores":
        """Client and server on one processor, the relay on another; pins nothing if the machine does not allow that."""
        taskset = shutil.which("taskset")
        if taskset is None or (os.cpu_count() or 1) < 2:
            return cls()
        return cls((taskset, "-c", "1"), (taskset, "-c", "0"))


def subjects(tools: Tools, cores: Cores) -> list[Subject]:
    """Direct, relay and, if it is installed next to this interpreter, run."""
    server = [*cores.peers, *tools.server]

    def relay(place: Path) -> list[str]:
        return [*cores.between, *tools.relay, str(place / "file"), *server]

    found = [Subject("direct", lambda _: server, None), Subject("relay", relay, _lines)]
    program = Path(sys.executable).with_name("mcpproxy")
    if program.exists():

        def run(place: Path) -> list[str]:
            # A ring that holds everything: frames deleted with old segments could not be counted.
            options = ["--name", "bench", "--ring-size", "16G", "--capture", f"{place}/"]
            return [*cores.between, str(program), "run", *options, "--", *server]

        found.append(Subject("run", run, _frames))
    return found


def _count(path: Path, mark: bytes) -> int:
    with path.open("rb") as lines:
        return sum(mark in line for line in lines)


def _lines(place: Path) -> int:
    return _count(place / "file", b"\n")


def _frames(place: Path) -> int:
    return sum(_count(path, b'"rec":"frame"') for path in place.rglob("*.mcpcap"))


def measure(
    tools: Tools,
    plan: Plan,
    where: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    cores: Cores = Cores(),  # noqa: B008 - frozen
) -> Samples:
    """Run everything; captures go below `where` (by default the system's temporary directory) and are removed.

    Round trips and floods run on fixed processors; start-up and giant frames where the scheduler puts them.
    """
    chosen = subjects(tools, Cores())
    placed = subjects(tools, cores)
    pinned = tools._replace(client=[*cores.peers, *tools.client])
    samples = Samples({}, {}, {}, {})
    with _workplace(where) as place:
        for subject in chosen:
            _once(tools, subject, place, "start", 1, 0)
        for number in range(plan.rounds):
            say(f"round {number + 1} of {plan.rounds}")
            for subject in placed:
                _add(samples.ping, subject, _once(pinned, subject, place, "ping", plan.pings, plan.warmup))
            for subject in placed:
                _add(samples.flood, subject, _once(pinned, subject, place, "flood", plan.flood, plan.window))
        say("start-ups")
        for _ in range(plan.starts):
            for subject in chosen:
                _add(samples.start, subject, _once(tools, subject, place, "start", 1, 0))
            _add(samples.start, Subject("python", lambda _: [], None), _interpreter())
        say(f"frames of {plan.giant // MIB} MiB")
        for subject in chosen:
            _add(samples.giant, subject, _once(tools, subject, place, "giant", plan.giant, 0))
    return samples


def _add(to: dict[str, list[Seen]], subject: Subject, seen: Seen) -> None:
    to.setdefault(subject.name, []).append(seen)


@contextmanager
def _workplace(where: Path | None) -> Iterator[Path]:
    """A temporary directory, which is also HOME, so that none of the user's files is read or written."""
    with tempfile.TemporaryDirectory(prefix="mcpproxy-bench-", dir=where) as name:
        yield Path(name)


def _once(tools: Tools, subject: Subject, home: Path, mode: str, count: int, extra: int) -> Seen:
    place = home / "recorded"
    place.mkdir(mode=0o700)
    try:
        seen = _talk([*tools.client, mode, str(count), str(extra), "--", *subject.argv(place)], home)
        kept = subject.recorded(place) if subject.recorded else seen["frames"]
        if kept != seen["frames"]:
            raise MiscountError(
                f"{subject.name}, {mode}: {kept:.0f} frames recorded of {seen['frames']:.0f} that crossed"
            )
        return seen
    finally:
        shutil.rmtree(place)


def _environment(home: Path | None = None) -> dict[str, str]:
    """The environment without variables that move mcpproxy's folders or forbid bytecode, which would cost 150 ms."""
    strange = ("XDG_", "MCPPROXY_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    return kept if home is None else {**kept, "HOME": str(home)}


def _talk(argv: list[str], home: Path) -> Seen:
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(home), cwd=home
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        line = client.stdout.readline()
        if not line:
            raise RuntimeError(f"no answer from: {' '.join(argv)}")
        seen: Seen = json.loads(line)
        seen |= _memory(int(seen["pid"]))
        client.stdin.close()
        if client.wait(timeout=GIVE_UP_S) != 0:
            raise RuntimeError(f"failed: {' '.join(argv)}")
    return seen


def _memory(pid: int) -> Seen:
    """Peak of a process, and private memory of its children of the same program (the guard), in KiB; only on Linux."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        own = [child for child in children if os.readlink(f"/proc/{child}/exe") == program]
        guard = sum(_kib(f"/proc/{child}/smaps_rollup", ("Private_Clean:", "Private_Dirty:")) for child in own)
        return {"peak_kib": _kib(f"/proc/{pid}/status", ("VmHWM:",)), "guard_kib": guard}
    except OSError:
        return {}


def _kib(path: str, names: tuple[str, ...]) -> int:
    return sum(int(line.split()[1]) for line in Path(path).read_text().splitlines() if line.startswith(names))


def _interpreter() -> Seen:
    """Start and end of an empty Python program: the part of a start-up that mcpproxy cannot avoid."""
    began = time.perf_counter_ns()
    subprocess.run([sys.executable, "-c", "pass"], check=True, env=_environment())
    return {"start_ns": time.perf_counter_ns() - began}
