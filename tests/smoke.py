"""Runs every command of an installed mcpproxy once, in an empty home, and prints the result of each.

    python -m tests.smoke .venv/bin/mcpproxy

It needs only Python and, of this tree, only itself, so it shows whether a package is complete. Exit code: 1 if a
command does not do what it should.
"""

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

LONGEST_S: Final = 120
"""How long one command may take, on a machine that is busy with something else."""
ANSWERING: Final = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "smoke", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


class Job(NamedTuple):
    """One command: its arguments, what it should print, and the exit code that it should have."""

    words: tuple[str, ...]
    says: str
    status: int = 0
    ends: str = "by itself"
    """Ends `by itself`; `on SIGTERM`, after it has printed a line; or `on q`, after it has drawn on a terminal."""


JOBS: Final = (
    Job(("demo",), "framing/stdout-not-json"),
    Job(("install", "cursor"), "routed"),
    Job(("status",), "cursor"),
    Job(("doctor", "cursor"), "1 server examined, 0 not working"),
    Job(("uninstall", "cursor"), "restored"),
    Job(("up",), "no HTTP server is routed yet", ends="on SIGTERM"),
    Job(("serve", "http://127.0.0.1:9/mcp"), "http://127.0.0.1:", ends="on SIGTERM"),
    Job(("run", "--name", "files", "--", sys.executable, "-c", ANSWERING), ""),
    Job(("ls",), "files"),
    Job(("info", "demo"), "server      demo"),
    Job(("show", "demo"), "tools/call"),
    Job(("tui", "--demo"), "demo", ends="on q"),
    Job(("check", "demo"), "framing/stdout-not-json", 1),
    Job(("rule", "id/null"), "id/null"),
    Job(("compare", "demo", "demo"), "othing changed"),
    Job(("mock", "demo"), "never asked for: initialize"),
    Job(("replay", "demo", "--no-findings", "--", sys.executable, "-c", ANSWERING), "sent 23 messages", 2),
    Job(("stats", "demo"), "1 capture"),
    Job(("report", "demo", "-o", "report.html"), "report.html: 1 capture"),
    Job(("share", "demo", "-o", "shared.mcpcap"), "shared.mcpcap: "),
    Job(("scan", "demo"), "no likely secrets found"),
    Job(("export", "demo", "-o", "session.md"), "session.md: "),
    Job(("export", "demo", "-o", "tables"), "tables/captures/"),
    Job(("ship", "lake", "demo"), "shipped"),
    Job(("query", "--json", "select count(*) as answers from latency", "demo"), '{"answers":'),
    Job(("verify", "demo"), "complete, "),
    Job(("repair", "demo", "-o", "repaired.mcpcap"), "repaired.mcpcap"),
    Job(("import", "--from", "ndjson", "frames.ndjson", "-o", "imported.mcpcap"), "imported.mcpcap"),
    Job(("cache", "clear"), ""),
    Job(("prune", "--older-than", "1d", "--dry-run"), "0 captures"),
    Job(("completion", "bash"), "complete "),
    Job(("help", "run"), "usage: mcpproxy run"),
)


class Ended(NamedTuple):
    """What a command printed, on both streams, and how it ended."""

    printed: str
    status: int


def smoke(
    program: Path, jobs: Iterable[Job] = JOBS, furnish: Callable[[Path], object] = lambda home: None
) -> Iterator[tuple[Job, Ended, float]]:
    """Run the commands one after another; yields each with what it printed, how it ended, and how many seconds it took.

    Args:
        program: the installed `mcpproxy`.
        jobs: the commands, in order.
        furnish: called with the home before the first command.
    """
    with tempfile.TemporaryDirectory(prefix="mcpproxy-smoke-") as home:
        place = Path(home)
        furnish(place)
        (place / ".cursor").mkdir()
        entry = {"command": sys.executable, "args": ["-c", ANSWERING]}
        (place / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}))
        (place / "frames.ndjson").write_text('{"t":0,"dir":"c2s","raw":"{}"}\n')
        given = {"HOME": home, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        for job in jobs:
            began = time.perf_counter()
            command = [str(program), *job.words]
            ended = (_drawn if job.ends == "on q" else _ended)(command, job, place, given)
            yield job, ended, time.perf_counter() - began


def _ended(command: list[str], job: Job, place: Path, given: dict[str, str]) -> Ended:
    with subprocess.Popen(
        command,
        cwd=place,
        env=given,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        first = b""
        if job.ends == "on SIGTERM":
            first = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
        try:
            rest, _ = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Ended((first + rest).decode(), process.returncode)


def _drawn(command: list[str], job: Job, place: Path, given: dict[str, str]) -> Ended:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=place, env=given, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        drawn, has_pressed = b"", False
        # When the command has ended, reading a pty fails instead of reporting the end of file.
        with suppress(OSError):
            while piece := os.read(ours, 1 << 16):
                drawn += piece
                if not has_pressed and job.says.encode() in drawn:
                    os.write(ours, b"q")
                    has_pressed = True
        status = process.wait(LONGEST_S)
    os.close(ours)
    return Ended(drawn.decode(errors="replace"), status)


def is_right(job: Job, ended: Ended) -> bool:
    """Whether a command did what it should, without a traceback."""
    return ended.status == job.status and job.says in ended.printed and "Traceback" not in ended.printed


def main() -> int:
    """Print a line for each command, and the whole output of those that fail."""
    failed = 0
    for job, ended, seconds in smoke(Path(sys.argv[1]).absolute()):
        good = is_right(job, ended)
        failed += not good
        words = " ".join(word if "\n" not in word else "…" for word in job.words)
        sys.stdout.write(f"{'ok' if good else 'FAILED':6}  {ended.status:3}  {seconds:6.2f} s  mcpproxy {words}\n")
        if not good:
            sys.stdout.write(f"{ended.printed}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(JOBS) - failed} of {len(JOBS)} did what they should\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
