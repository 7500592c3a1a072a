"""The three C programs of the benchmark, built on the spot; without a compiler, stand-ins that say so."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = ("relay", "echo", "client")
CFLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread")


class Tools(NamedTuple):
    """The commands that the measurements start: each is the beginning of an argv."""

    client: list[str]
    """Starts a command and talks to it; see client.c for its arguments and its output."""
    server: list[str]
    """Answers each line; see echo.c."""
    relay: list[str]
    """The reference relay; a file and a command follow."""
    note: str
    """What was built, or what replaces it and how that affects the figures."""


def tools() -> Tools:
    """Build what is out of date into tests/bench/.build/; returns the commands."""
    compiler = shutil.which("cc")
    if compiler is None:
        return _stand_ins()
    built = [_built(compiler, name) for name in PROGRAMS]
    relay, server, client = ([str(path)] for path in built)
    return Tools(client, server, relay, "client, server and relay in C")


def _built(compiler: str, name: str) -> Path:
    source, target = HERE / f"{name}.c", HERE / ".build" / name
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(exist_ok=True)
        subprocess.run([compiler, *CFLAGS, "-o", target, source], check=True)
    return target


def _stand_ins() -> Tools:
    plain = [sys.executable, "-I", str(HERE / "plain.py")]
    relay = ["sh", "-c", 'file=$1; shift; tee -a "$file" | "$@" | tee -a "$file"', "relay"]
    note = "no C compiler (cc): client and server in Python, tee as the relay; their own cost hides much of ours"
    return Tools([*plain, "client"], [*plain, "echo"], relay, note)
