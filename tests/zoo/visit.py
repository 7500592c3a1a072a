"""Runs one animal, directly and through the recorder, in the same working directory."""

import contextlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from captures.integrity import inspect
from captures.reader import Capture
from tests.harness import Place, Session, frames, is_alive, members_of
from tests.http_harness import free_port, serving
from tests.zoo.findings import Finding, checked
from tests.zoo.install import bin_of, node, place_of
from tests.zoo.mask import Run, differences
from tests.zoo.rows import HERE, Animal, filled
from tests.zoo.talk import END_S, SCENARIOS, Http, Scenario, Sse, Stdio, Transport, converse, parsed, part_names
from tests.zoo.transformations import judged_otherwise

START_S = 40.0
"""How long a server may take until it listens."""
NOTICE_S = 0.5
"""How long a server gets to notice that its client has left; some log it, and always have time to when recorded."""
CLIENT_S = 90.0
"""How long a client may take."""
TAP, SERVER = HERE / "programs/tap.py", HERE / "programs/mcp_2_server.py"
DIRECT_RUNS = 5
"""The most direct runs; more than two are only needed if the first two were the same by chance."""


class WillNotStart(Exception):
    """The animal does not work here, even directly; the text is the reason."""


@dataclass
class Visit:
    """The result for one animal."""

    animal: Animal
    kept: bool = True
    """Whether each capture is undamaged and holds what was sent and received, byte for byte."""
    closed: bool = True
    """Whether the recorder closed every capture; a client that kills its children leaves no time for that."""
    different: dict[str, str] = field(default_factory=dict)
    """The differences from the direct runs: part → difference."""
    frames: int = 0
    findings: list[Finding] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)
    """What is reported differently if the conversations are changed in ways that must not matter."""
    seconds: float = 0.0

    def is_same(self, part: str) -> bool:
        """Whether `exit`, `stderr`, or `traffic` (all else) is the same as in a direct run."""
        parts = {key.rpartition(": ")[2] for key in self.different}
        return not (parts - {"exit", "stderr"} if part == "traffic" else parts & {part})


def places_of(animal: Animal, work: Path, port: int) -> dict[str, str]:
    """The values of the placeholders in a row."""
    place = place_of(animal.registry, animal.packages)
    return {
        "bin": str(bin_of(animal.registry, place)),
        "python": str(place / "venv/bin/python"),
        "programs": str(place / "programs"),
        "node": str(node()),
        "work": str(work),
        "port": str(port),
        "server": str(work.parent / "server"),
        "url": "{url}",
    }


@contextlib.contextmanager
def prepared(animal: Animal, root: Path, port: int) -> Iterator[tuple[Place, list[str], Path]]:
    """An empty directory, always at the same path, and the animal's command line for it."""
    if root.exists():
        shutil.rmtree(root)
    work = root / "work"
    for folder in (work, root / "home"):
        folder.mkdir(parents=True)
    place = Place(root)
    places = places_of(animal, work, port)
    path = [places["bin"], str(Path(places["node"]).parent), place.environment.get("PATH", "")]
    place.environment |= {"PATH": ":".join(path), **filled(animal.environment, places)}
    for name, text in animal.files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(filled(text, places))
    try:
        for command in animal.prepare:
            subprocess.run(filled(command, places), cwd=work, env=place.environment, check=True, capture_output=True)
        yield place, filled(animal.command, places), work
    finally:
        place.clear()


def visit_server(animal: Animal, root: Path) -> Visit:
    """Run both conversations with a server, each directly and recorded.

    Raises:
        WillNotStart: it does not answer the first request of the handshake, even directly.
    """
    started = time.monotonic()
    visit = Visit(animal)
    for scenario in SCENARIOS:
        try:
            direct = [_direct(animal, root, scenario) for _ in range(2)]
        except OSError as why:
            raise WillNotStart(str(why)) from why
        if scenario == "handshake" and not any("answer 1" in part for part in direct[0]):
            raise WillNotStart(f"it does not answer: {_last_words(direct[0]['stderr'])}")
        wrapped, capture_is_whole, capture = _wrapped(animal, root, scenario)
        visit.kept &= capture_is_whole
        visit.frames += len(frames(capture))
        visit.findings += checked(Place(root), capture)
        visit.otherwise += judged_otherwise(capture)
        while (found := differences(direct, wrapped)) and len(direct) < DIRECT_RUNS:
            direct.append(_direct(animal, root, scenario))
        visit.different |= {f"{scenario}: {part}": how for part, how in found.items()}
    visit.seconds = time.monotonic() - started
    return visit


def visit_client(animal: Animal, root: Path) -> Visit:
    """Run a client, directly and with its server recorded.

    Raises:
        WillNotStart: it starts no server, even directly.
    """
    started = time.monotonic()
    visit = Visit(animal)
    try:
        direct = [client_run(animal, root, None)[0] for _ in range(2)]
    except OSError as why:
        raise WillNotStart(str(why)) from why
    if not any(part.startswith("start 1") or part == "server" for part in direct[0]):
        raise WillNotStart(f"it starts no server: {_last_words(direct[0]['stdout'] + direct[0]['stderr'])}")
    wrapped, taps = client_run(animal, root, root / "captures")
    captures = sorted((root / "captures").rglob("*.mcpcap"), key=lambda path: path.stat().st_ctime_ns)
    visit.kept = bool(captures) and not any(inspect(Capture(capture)).damage for capture in captures)
    visit.closed = all(_is_whole(capture) for capture in captures)
    if animal.transport == "stdio":
        visit.kept &= len(taps) == len(captures)
        pairs = zip(sorted(captures, key=_recorded), sorted(taps), strict=False)
        visit.kept &= all(_is_what_passed(capture, tap) for capture, tap in pairs)
    for capture in captures:
        visit.frames += len(frames(capture))
        visit.findings += checked(Place(root), capture)
        visit.otherwise += judged_otherwise(capture)
    while (found := differences(direct, wrapped)) and len(direct) < DIRECT_RUNS:
        direct.append(client_run(animal, root, None)[0])
    visit.different = found
    visit.seconds = time.monotonic() - started
    return visit


def client_run(
    animal: Animal, root: Path, captures: Path | None, mocked: Sequence[Path] = ()
) -> tuple[Run, list[tuple[bytes, bytes]]]:
    """Run a client; returns what it sent, received and printed, and the bytes to and from each server it started.

    Args:
        animal: the client.
        root: its directory, which is emptied.
        captures: a folder below `root` for the captures; None to run it directly.
        mocked: captures outside of `root`, whose mocks take the server's place: the first when the client starts its
            server for the first time, and so on.
    """
    port = free_port()
    with prepared(animal, root, port) as (place, command, work), contextlib.ExitStack() as stack:
        note = root / "tap"
        server = [sys.executable, "-I", str(TAP), str(note)]
        server += _mocks_of(mocked, note) if mocked else [sys.executable, "-P", "-m", "mcpproxy.demo.server"]
        if captures is not None:
            server = [str(word) for word in place.command(server, "--name", "zoo")]
            server[server.index("--name") : server.index("--name")] = ["--capture", f"{captures}/"]
            captures.mkdir(mode=0o700)
        program = root / "server"
        program.write_text("#!/bin/sh\nexec " + shlex.join(server) + "\n")
        program.chmod(0o755)
        end: Run = {}
        url = f"http://127.0.0.1:{port}/mcp"
        if animal.transport == "http":
            listener = [sys.executable, "-P", str(SERVER), "streamable-http", str(port)]
            listener = [*_mock_of(mocked[0]), "--listen", str(port)] if mocked else listener
            _, end = stack.enter_context(listening(place, listener, work))
            if captures is not None:
                recorder = stack.enter_context(serving(place, url))
                url = recorder.url
        command = filled(command, {"url": url})
        heard: Run = {}
        try:
            done = subprocess.run(
                command,
                cwd=work,
                env=place.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CLIENT_S,
            )
            heard |= {"stdout": done.stdout, "stderr": done.stderr, "exit": str(done.returncode).encode()}
        except subprocess.TimeoutExpired as late:
            heard |= {"stdout": late.stdout or b"", "stderr": late.stderr or b"", "exit": b"killed"}
        stack.close()
        if end:
            heard["server"] = end["stderr"]
        if captures is not None and animal.transport == "http":
            recorder.capture.rename(captures / recorder.capture.name)
        _wait_for_ends(note, captures)
        taps = [((tap / "c2s").read_bytes(), (tap / "s2c").read_bytes()) for tap in sorted(note.glob("*"))]
    for number, (said, answered) in enumerate(taps, 1):
        for way, stream in (("said", said), ("heard", answered)):
            parts = part_names(stream.splitlines(keepends=True))
            heard |= {f"start {number} {way} {part}": text for part, text in parts.items()}
    return heard, taps


def _wait_for_ends(note: Path, captures: Path | None) -> None:
    """Wait until processes that the client left running have ended and the recorder has closed its capture."""

    def is_open() -> bool:
        recording = captures.rglob("*.mcpcap") if captures is not None else ()
        pids = (int(tap.name.rpartition("-")[2]) for tap in note.glob("*"))
        return any(map(is_alive, pids)) or any(inspect(Capture(capture)).live for capture in recording)

    until = time.monotonic() + END_S
    while is_open() and time.monotonic() < until:
        time.sleep(0.05)


def _is_what_passed(capture: Path, tap: tuple[bytes, bytes]) -> bool:
    """Whether a capture holds everything that the tap saw, except what the client did not wait for."""
    said, heard = _recorded(capture)
    left = any(eof["dir"] == "s2c" and eof["by"] == "receiver" for eof in members_of(capture, "eof"))
    return said == tap[0] and (heard == tap[1] or (left and tap[1].startswith(heard)))


def _recorded(capture: Path) -> tuple[bytes, bytes]:
    said, heard = (b"".join(frame.raw + frame.delim for frame in frames(capture, way)) for way in ("c2s", "s2c"))
    return said, heard


def _direct(animal: Animal, root: Path, scenario: Scenario) -> Run:
    with prepared(animal, root, free_port()) as (place, command, work):
        if animal.transport == "stdio":
            return _over_stdio(place, command, work, scenario, animal, None).heard
        with listening(place, command, work) as (address, end):
            way = _way(animal, address)
            converse(way, scenario, filled(animal.call, {"work": str(work)}))
        return way.heard | end


def _wrapped(animal: Animal, root: Path, scenario: Scenario) -> tuple[Run, bool, Path]:
    """Run a recorded scenario; returns what was received, whether the capture holds it all, and the capture's path."""
    way, capture = recorded(animal, root, scenario)
    kept = _kept_lines(way, capture) if isinstance(way, Stdio) else _kept_messages(way, capture)
    return way.heard, kept, capture


def recorded(animal: Animal, root: Path, scenario: Scenario, mocked: Path | None = None) -> tuple[Transport, Path]:
    """Run a recorded scenario; returns the transport at its end, and the capture's path.

    The capture is kept until the next run.

    Args:
        animal: the server.
        root: its directory, which is emptied.
        scenario: which conversation.
        mocked: a capture outside of `root`, whose mock takes the server's place.
    """
    with prepared(animal, root, free_port()) as (place, command, work):
        capture = root / "zoo.mcpcap"
        if mocked is not None:
            command = _mock_of(mocked) + ([] if animal.transport == "stdio" else ["--listen", str(free_port())])
        if animal.transport == "stdio":
            return _over_stdio(place, command, work, scenario, animal, capture), capture
        with contextlib.ExitStack() as stack:
            address, end = stack.enter_context(listening(place, command, work))
            recorder = stack.enter_context(serving(place, f"http://{address[0]}:{address[1]}{animal.path}"))
            way = _way(animal, recorder.address)
            converse(way, scenario, filled(animal.call, {"work": str(work)}))
        recorder.capture.rename(capture)
        way.heard |= end
        return way, capture


def _mock_of(capture: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "mcpproxy", "mock", str(capture)]


def _mocks_of(captures: Sequence[Path], note: Path) -> list[str]:
    """A command that runs the mock of the next capture at each start: the tap makes a folder in `note` for each."""
    mock = shlex.join(_mock_of(captures[0])[:-1])
    return ["sh", "-c", f'shift $(($(ls "$0" | wc -l) - 1)); exec {mock} "$1"', str(note), *map(str, captures)]


def _over_stdio(
    place: Place, command: Sequence[str], work: Path, scenario: Scenario, animal: Animal, capture: Path | None
) -> Stdio:
    with (place.root / "stderr").open("wb") as stderr:
        session = place.start(command, direct=capture is None, capture=capture, stderr=stderr, cwd=work)
    stdio = Stdio(session)
    converse(stdio, scenario, filled(animal.call, {"work": str(work)}))
    stdio.heard["stderr"] = (place.root / "stderr").read_bytes()
    return stdio


@contextlib.contextmanager
def listening(place: Place, command: Sequence[str], work: Path) -> Iterator[tuple[tuple[str, int], Run]]:
    """Run a server while the block runs; yields its address, and a `Run` for its stderr and exit status at the end."""
    port = next(
        int(word) for word in [*command, place.environment.get("PORT", "")] if word.isdigit() and int(word) > 1023
    )
    with (place.root / "stderr").open("wb") as stderr:
        session = place.start(command, direct=True, stdout=subprocess.DEVNULL, stderr=stderr, cwd=work)
    address = ("127.0.0.1", port)
    end: Run = {}
    try:
        _wait_for(session, address, place.root / "stderr")
        yield address, end
    finally:
        time.sleep(NOTICE_S)
        session.process.send_signal(signal.SIGTERM)
        try:
            end["exit"] = str(session.end(10)).encode()
        except subprocess.TimeoutExpired:
            session.process.kill()
            end["exit"] = b"killed"
        end["stderr"] = (place.root / "stderr").read_bytes()


def _wait_for(session: Session, address: tuple[str, int], stderr: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and session.process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(address, 1):
            return
        time.sleep(0.05)
    raise WillNotStart(f"it does not listen: {_last_words(stderr.read_bytes())}")


def _last_words(text: bytes) -> str:
    """The last line that contains `error`, else the last line."""
    lines = text.decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()] or ["it printed nothing"]
    return next((line for line in reversed(said) if "error" in line.lower()), said[-1])[:160]


def _way(animal: Animal, address: tuple[str, int]) -> Transport:
    return Http(address, animal.path) if animal.transport == "http" else Sse(address, animal.path)


def _kept_lines(stdio: Stdio, capture: Path) -> bool:
    return _recorded(capture) == (b"".join(stdio.said), stdio.stdout) and _is_whole(capture)


def _kept_messages(way: Transport, capture: Path) -> bool:
    """Whether a capture holds what was sent, and all JSON that was received; nothing else becomes a frame."""
    said = [frame.raw for frame in frames(capture, "c2s")]
    heard = Counter(frame.raw for frame in frames(capture, "s2c") if parsed(frame.raw))
    return said == way.said and heard == Counter(filter(parsed, way.messages)) and _is_whole(capture)


def _is_whole(capture: Path) -> bool:
    return inspect(Capture(capture)).state == "complete"
