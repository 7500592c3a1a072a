"""Plays the servers of the zoo again: each is recorded, mocked to its own client, and sent the recorded requests again.

    python -m tests.playback_proof.zoo [--clients] [--only NAME]... [--keep FOLDER] [--workers N]

The client is the raw one of the zoo, in both eras. With the mock it must receive the bytes that it received from the
server, and the new capture must be equal to the old one under the normaliser; so must the capture of `mcpproxy replay`
to the real server. Where one is not, the conversation is recorded again, to show what the server varies by itself.
With `--clients`, the clients of the zoo are run instead, each with its server and then with the mock: they must send,
receive and print the same. It informs, and exits with 0.
"""

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from captures.listing import find_captures
from captures.reader import Capture
from tests.http_harness import free_port
from tests.playback_proof.equality import Verdict, compared, compared_sets
from tests.zoo.__main__ import fetch
from tests.zoo.alone import leave_the_network
from tests.zoo.mask import Run, differences
from tests.zoo.rows import Animal, read
from tests.zoo.talk import SCENARIOS, Scenario, Stdio, Transport, part_names
from tests.zoo.visit import WillNotStart, client_run, listening, prepared, recorded

REPLAY = (sys.executable, "-P", "-m", "mcpproxy", "replay", "--yes")
WITHIN_S = 240
RECORDINGS = 3
"""The most recordings: the first one, and those that show what a server varies by itself."""
_ENDPOINT = re.compile(rb"/[^\s]*\?session_?id=.*", re.IGNORECASE)
"""The address to which clients of 2024-11-05 post, which a server chooses."""
_STATUS = re.compile(rb"HTTP/1\.[01] \d+")


class Row(NamedTuple):
    """What became of one conversation; a reason is empty if it is equal."""

    name: str
    units: int
    """How many messages the client received."""
    received: str
    """How the bytes differ that the client received from the mock."""
    mocked: str
    """How the capture of the mock differs."""
    replayed: str
    """How the capture of the replay to the real server differs."""
    varies: str
    """What two recordings of the server differ in, if the replay differs."""
    seconds: float

    @property
    def line(self) -> str:
        """The row of the table."""
        words = [reason or "equal" for reason in (self.received, self.mocked, self.replayed)]
        told = "; ".join(f"{what}: {word}" for what, word in zip(("bytes", "mock", "replay"), words, strict=True))
        varies = f"; by itself: {self.varies or 'nothing'}" if self.replayed else ""
        return f"{self.name:36}{self.units:4}  {told}{varies} ({self.seconds:.0f} s)"


def play(animal: Animal, scenario: Scenario, root: Path, kept: Path) -> Row:
    """Record, mock and replay one conversation; the captures stay in `kept`.

    Raises:
        WillNotStart: the server does not start here, or does not answer the first request of the handshake.
    """
    began = time.monotonic()
    kept.mkdir(parents=True)
    first, real = _recording(animal, scenario, root, kept / "first.mcpcap")
    if scenario == "handshake" and not any("answer 1" in part for part in real.heard):
        raise WillNotStart("it does not answer")
    mocked, way = _recording(animal, scenario, root, kept / "mocked.mcpcap", first)
    replayed, told = _replayed(animal, root, first, kept)
    (kept / "replayed.txt").write_bytes(told)
    mock_verdict, replay_verdict = compared(first, mocked), _verdict(first, replayed)
    (kept / "mocked.txt").write_text("\n".join((*mock_verdict.sentences, *mock_verdict.failures)))
    varies: set[str] = set()
    for number in range(2, RECORDINGS + 1):
        if set(_parts(replay_verdict)) <= varies:
            break
        again, _ = _recording(animal, scenario, root, kept / f"recording-{number}.mcpcap")
        varies |= set(_parts(compared(first, again)))
    return Row(
        f"{animal.name} {scenario}",
        len(real.messages),
        _difference(real, way),
        ", ".join(_parts(mock_verdict)),
        ", ".join(_parts(replay_verdict)),
        ", ".join(sorted(varies)),
        time.monotonic() - began,
    )


def _recording(
    animal: Animal, scenario: Scenario, root: Path, to: Path, mocked: Path | None = None
) -> tuple[Path, Transport]:
    way, capture = recorded(animal, root, scenario, mocked)
    shutil.copyfile(capture, to)
    return to, way


def _replayed(animal: Animal, root: Path, capture: Path, kept: Path) -> tuple[list[Path], bytes]:
    """Replay a capture to the server; returns the new captures, and what was printed."""
    with prepared(animal, root, free_port()) as (place, command, work), contextlib.ExitStack() as stack:
        target = ["--", *command]
        if animal.transport != "stdio":
            address, _ = stack.enter_context(listening(place, command, work))
            target = [f"http://{address[0]}:{address[1]}{animal.path}"]
        new = kept / "replayed"
        try:
            done = subprocess.run(
                [*REPLAY, str(capture), "--capture", f"{new}/", *target],
                cwd=work,
                env=place.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=WITHIN_S,
                check=False,
            )
            told = done.stdout + done.stderr + b"\nexit code %d\n" % done.returncode
        except subprocess.TimeoutExpired as late:
            told = (late.stdout or b"") + (late.stderr or b"") + b"\nno end\n"
    return sorted(find_captures(new)) if new.exists() else [], told


def _verdict(old: Path, new: list[Path]) -> Verdict:
    return compared_sets([old], new) if new else Verdict((), ("no capture",), ())


def _parts(verdict: Verdict) -> list[str]:
    return [*dict.fromkeys(verdict.changes), *dict.fromkeys(re.sub(r"\d+", "N", text) for text in verdict.failures)]


def _difference(real: Transport, mock: Transport) -> str:
    """Returns the first part that a client did not receive alike; empty if it received the same bytes."""
    if isinstance(real, Stdio) and isinstance(mock, Stdio) and real.stdout == mock.stdout:
        return ""
    one, other = (_received(way) for way in (real, mock))
    different = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    if different:
        name = different[0]
        shown = [repr(side[name][:160]) if name in side else "nothing" for side in (one, other)]
        return f"{len(different)} parts, such as {name}: {shown[0]} became {shown[1]}"
    kinds = [[name for name in part_names(way.messages) if "not a" not in name] for way in (real, mock)]
    return "the order" if kinds[0] != kinds[1] else ""


def _received(way: Transport) -> Run:
    parts = part_names([message for message in way.messages if not _ENDPOINT.fullmatch(message)])
    heads = {name: _STATUS.findall(text)[0] for name, text in way.heard.items() if name.endswith(" head") and text}
    return {**parts, **heads}


def rows(animal: Animal, root: Path, kept: Path) -> Iterator[Row]:
    """Yields the rows of an animal."""
    for scenario in SCENARIOS:
        yield play(animal, scenario, root, kept / scenario)


class ClientRow(NamedTuple):
    """What became of a client of the zoo; a text is empty if all is equal."""

    name: str
    starts: int
    """How often it started its server; each start has a recording, and then the mock of it."""
    different: str
    """What it sent, received or printed otherwise with the mock."""
    mocked: str
    """How the capture of the mock differs."""
    varies: str
    """How another recording with the server differs, if that of the mock does."""
    seconds: float

    @property
    def line(self) -> str:
        """The row of the table."""
        varies = f"; by itself: {self.varies or 'nothing'}" if self.mocked else ""
        told = f"run: {self.different or 'equal'}; mock: {self.mocked or 'equal'}"
        return f"{self.name:36}{self.starts:4} starts  {told}{varies} ({self.seconds:.0f} s)"


def play_client(animal: Animal, root: Path, kept: Path) -> ClientRow:
    """Run a client twice with its server, then with the mock of the first recording; the captures stay in `kept`."""
    began = time.monotonic()
    first, real = _client_recording(animal, root, kept / "first")
    again, other = _client_recording(animal, root, kept / "again")
    if not first:
        raise WillNotStart("it starts no server")
    mocked, run = _client_recording(animal, root, kept / "mocked", first)
    found = differences([real, other], run)
    (kept / "different.txt").write_text("\n".join(f"{part}: {how}" for part, how in found.items()))
    verdict = compared_sets(first, mocked) if mocked else Verdict((), ("no capture",), ())
    (kept / "mocked.txt").write_text("\n".join((*verdict.sentences, *verdict.failures)))
    varies = _parts(compared_sets(first, again)) if _parts(verdict) else []
    return ClientRow(
        animal.name,
        len(first),
        "; ".join(f"{part} {how}"[:200] for part, how in [*found.items()][:2]),
        ", ".join(_parts(verdict)),
        ", ".join(varies),
        time.monotonic() - began,
    )


def _client_recording(animal: Animal, root: Path, to: Path, mocked: Sequence[Path] = ()) -> tuple[list[Path], Run]:
    run, _ = client_run(animal, root, root / "captures", mocked)
    shutil.copytree(root / "captures", to)
    captures = sorted(find_captures(to), key=lambda path: int(Capture(path).header.members["wall_ns"]))
    # What a mock writes to stderr is not what the server writes there.
    return captures, {part: text for part, text in run.items() if part not in {"stderr", "server"}}


def main() -> None:
    """Play, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    animals = read("client" if options.clients else "server")
    animals = [animal for animal in animals if (animal.name in options.only if options.only else not animal.slow)]
    missing = fetch(animals)
    if why_not := leave_the_network():
        print(f"warning: what is started can reach the network: {why_not}")
    found: list[Row | ClientRow] = []
    with tempfile.TemporaryDirectory() as name:
        keep = (options.keep or Path(name)).resolve() / "kept"

        def one(animal: Animal) -> None:
            root, kept = Path(name) / animal.name, keep / animal.name
            if animal.name in missing:
                return
            try:
                for row in [play_client(animal, root, kept)] if options.clients else rows(animal, root, kept):
                    print(row.line, flush=True)
                    found.append(row)
            except (WillNotStart, AssertionError, OSError, subprocess.SubprocessError) as why:
                missing[animal.name] = f"{type(why).__name__}: {why}"

        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(one, animals))
    for animal_name, reason in sorted(missing.items()):
        print(f"not played: {animal_name}: {reason}")
    print(f"{len({row.name.partition(' ')[0] for row in found})} animals, {len(found)} conversations")
    for what in ("received", "different", "mocked", "replayed"):
        told = [getattr(row, what) for row in found if hasattr(row, what)]
        if told:
            print(f"{what}: {told.count('')} of {len(told)} equal")


if __name__ == "__main__":
    main()
