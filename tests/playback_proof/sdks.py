"""Has the official SDKs' clients use everything of a real server, recorded, and then the same of its mock.

    python -m tests.playback_proof.sdks [--only WORD] [--keep FOLDER] [--node NODE] [--everything FOLDER] [--ts FOLDER]

What a client prints with the mock must be what it printed with the server, apart from lines that also differ between
two runs with the server. `--ts` is a folder with the package @modelcontextprotocol/client, `--everything` one with
@modelcontextprotocol/server-everything. It informs, and exits with 0.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from captures.listing import find_captures
from tests.harness import DEADLINE_S, ROOT, wait_until
from tests.http_harness import free_port
from tests.playback_proof.equality import compared, compared_sets, reason_of

MCPPROXY = Path(sys.executable).with_name("mcpproxy")
PEERS = Path(__file__).parent / "peers"
WITHIN_S = 240
URL = re.compile(rb"http://127\.0\.0\.1:\d+[^\s\"'`]*")


class Server(NamedTuple):
    """A real server."""

    name: str
    transport: str
    """`stdio`, `http` or `sse`."""
    command: Sequence[str]
    eras: Sequence[str]
    port: bool = False
    """Whether it is told its port by the variable PORT, instead of printing its URL."""
    path: str = "/mcp"


class Run(NamedTuple):
    """What a client printed."""

    lines: list[str]
    errors: str


def servers(options: argparse.Namespace, folder: Path) -> Iterator[Server]:
    """Yields the servers that are here."""
    python = [sys.executable, "-W", "ignore"]
    both = ("legacy", "2026-07-28")
    yield Server("notebook", "stdio", [*python, str(ROOT / "tests/peers/sdk_server.py")], both)
    yield Server("library", "stdio", [*python, str(ROOT / "tests/peers/sdk_library.py")], both)
    notebook = [*python, "-m", "tests.peers.sdk_http_server", str(folder / "account")]
    yield Server("notebook", "http", notebook, both)
    yield Server("notebook-json", "http", [*notebook, "--json"], both)
    yield Server("notebook", "sse", [*notebook, "--sse"], ("legacy",))
    yield Server("demo", "stdio", [sys.executable, "-P", "-m", "mcpproxy.demo.server"], both)
    if options.everything:
        script = options.everything / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
        everything = [options.node, str(script)]
        yield Server("everything", "stdio", everything, ("legacy",))
        yield Server("everything", "http", [*everything, "streamableHttp"], ("legacy",), port=True)
        yield Server("everything", "sse", [*everything, "sse"], ("legacy",), port=True, path="/sse")


def clients(options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Yields the clients that are here, each with the beginning of its command."""
    yield "python", [sys.executable, "-W", "ignore", str(PEERS / "python_client.py")]
    if options.ts:
        # Node looks for packages from the directory of the importing module.
        program = options.ts / "typescript_client.mjs"
        shutil.copy(PEERS / "typescript_client.mjs", program)
        yield "typescript", [options.node, str(program)]


def talked(client: str, begin: Sequence[str], era: str, transport: str, target: Sequence[str], folder: Path) -> Run:
    """Run a client to its end."""
    if client == "python":
        command = [*begin, "--mode", era if era == "legacy" else "auto", "--errors", str(folder / "errors")]
        command += ["--sse"] * (transport == "sse") + ["--", *target]
    else:
        command = [*begin, era if era == "legacy" else "auto", transport, *target]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S, check=False)
    except subprocess.TimeoutExpired as late:
        out = (late.stdout or b"").decode(errors="replace").splitlines()
        return Run([*out, '["killed", null]'], (late.stderr or b"").decode(errors="replace"))
    return Run(done.stdout.decode(errors="replace").splitlines(), done.stderr.decode(errors="replace"))


@contextlib.contextmanager
def listening(command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run a program that listens while the block runs; yields the URL that it prints."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment or dict(os.environ), cwd=ROOT
        )
    try:
        wait_until(lambda: URL.search(log.read_bytes()) or process.poll() is not None, "a URL")
        found = URL.search(log.read_bytes())
        if found is None:
            raise RuntimeError(f"does not listen: {log.read_bytes()[-500:]!r}")
        yield found[0].decode().rstrip(".,;:)")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def real(server: Server, folder: Path) -> Iterator[str]:
    """Run a real server over HTTP; yields its URL."""
    if not server.port:
        with listening(server.command, folder / "server.log") as url:
            yield url
        return
    port = free_port()
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            server.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PORT": str(port)}
        )
    try:
        wait_until(lambda: _answers(port), "the server")
        yield f"http://127.0.0.1:{port}{server.path}"
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def recorded(server: Server, client: str, begin: Sequence[str], era: str, folder: Path, capture: Path) -> Run:
    """Run a client with the real server, behind the recorder."""
    if server.transport == "stdio":
        target = [str(MCPPROXY), "run", "--capture", str(capture), "--", *server.command]
        return talked(client, begin, era, "stdio", target, folder)
    with real(server, folder) as upstream:
        command = [str(MCPPROXY), "serve", upstream, "--listen", "127.0.0.1:0", "--capture", str(capture)]
        with listening(command, folder / "serve.log") as url:
            own = re.sub(r"^http://[^/]*", re.match(r"http://[^/]*", url)[0], upstream)  # type: ignore[index]
            return talked(client, begin, era, server.transport, [own], folder)


def mocked(
    server: Server, client: str, begin: Sequence[str], era: str, folder: Path, capture: Path, new: Path, *more: str
) -> Run:
    """Run a client with the mock, which is recorded, too."""
    if server.transport == "stdio":
        target = [str(MCPPROXY), "run", "--capture", str(new), "--", str(MCPPROXY), "mock", str(capture), *more]
        return talked(client, begin, era, "stdio", target, folder)
    command = [str(MCPPROXY), "mock", str(capture), "--listen", "127.0.0.1:0", *more]
    with listening(command, folder / "mock.log") as url:
        recorder = [str(MCPPROXY), "serve", url, "--listen", "127.0.0.1:0", "--capture", str(new)]
        with listening(recorder, folder / "serve.log") as front:
            own = re.sub(r"^http://[^/]*", re.match(r"http://[^/]*", front)[0], url)  # type: ignore[index]
            return talked(client, begin, era, server.transport, [own], folder)


def replayed(server: Server, folder: Path, capture: Path) -> str:
    """Replay a recording to the real server that was recorded; returns what is different."""
    new = folder / "replayed"
    if new.exists():
        shutil.rmtree(new)
    command = [str(MCPPROXY), "replay", str(capture), "--yes", "--capture", f"{new}/"]

    def done(target: Sequence[str]) -> str:
        ended = subprocess.run(
            [*command, *target], stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S, check=False, cwd=ROOT
        )
        (folder / "replayed.out").write_bytes(ended.stdout + ended.stderr)
        found = sorted(find_captures(new)) if new.exists() else []
        reason = reason_of(compared_sets([capture], found)) if found else "no capture"
        return f"exit code {ended.returncode}, {reason or 'equal'}"

    if server.transport == "stdio":
        return done(["--", *server.command])
    with real(server, folder) as url:
        return done([url])


def differences(first: list[str], second: list[str], mock: list[str]) -> list[str]:
    """Returns the lines that both runs with the server have and the mock's run lacks, and those that only it has."""
    stable = Counter(first) & Counter(second)
    ours = Counter(mock)
    theirs = Counter(first) | Counter(second)
    varying = len(first) - stable.total()
    extra = [*(ours - theirs).elements()]
    # A line that varies from run to run may be another one with the mock, too, but it must be there.
    lacking = [*(stable - ours).elements()]
    if len(extra) <= varying and not lacking:
        extra = []
    order = [line for line in first if line in stable and line in ours]
    same = [line for line in mock if line in stable]
    found = [f"- {line}" for line in lacking] + [f"+ {line}" for line in extra]
    return found or (["the order differs"] if order != same and varying == 0 else [])


def main() -> None:
    """Run all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--node", default=shutil.which("node"))
    parser.add_argument("--everything", type=Path)
    parser.add_argument("--ts", type=Path)
    parser.add_argument("--record-only", action="store_true")
    parser.add_argument("--reuse", action="store_true", help="take the recordings in --keep")
    parser.add_argument("--speed")
    parser.add_argument("--replay", action="store_true", help="replay the recordings to the real servers instead")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True, parents=True)
    rows = []
    for server in servers(options, folder):
        for client, begin in clients(options):
            for era in server.eras:
                name = f"{server.name}-{server.transport}-{client}-{era}"
                if options.only and not re.search(options.only, name):
                    continue
                rows.append(row := one(options, server, client, begin, era, folder / name))
                print(row, flush=True)
    print(f"{sum(row.endswith(' equal') for row in rows)} of {len(rows)} equal")


def one(options: argparse.Namespace, server: Server, client: str, begin: Sequence[str], era: str, place: Path) -> str:
    """Run one combination; returns its row."""
    place.mkdir(exist_ok=True)
    captures = [place / f"{word}.mcpcap" for word in ("first", "second")]
    told = place / "told.json"
    try:
        if options.reuse and told.exists():
            runs = json.loads(told.read_text())
        else:
            for capture in captures:
                capture.unlink(missing_ok=True)
            runs = [recorded(server, client, begin, era, place, capture).lines for capture in captures]
            told.write_text(json.dumps(runs))
        varies = sum(a != b for a, b in zip(*runs, strict=False))
        if options.record_only:
            return f"{place.name:44} {len(runs[0]):4} lines, {varies} vary"
        if options.replay:
            return f"{place.name:44} {replayed(server, place, captures[0])}"
        new = place / "mock.mcpcap"
        new.unlink(missing_ok=True)
        more = ["--speed", options.speed] if options.speed else []
        run = mocked(server, client, begin, era, place, captures[0], new, *more)
    except RuntimeError as error:
        return f"{place.name:44} {error}"
    found = differences(runs[0], runs[1], run.lines)
    (place / "differences.txt").write_text("\n".join(found))
    (place / "mock.out").write_text("\n".join(run.lines) + "\n\n" + run.errors)
    reason = reason_of(compared(captures[0], new)) if new.exists() else "no capture"
    verdict = "equal" if not found else f"{len(found)} lines differ"
    return f"{place.name:44} {len(runs[0]):4} lines, {varies} vary; captures: {reason or 'equal'}; output: {verdict}"


if __name__ == "__main__":
    main()
