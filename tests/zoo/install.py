"""Packages of PyPI and npm, each set in a directory of its own that is kept from one run to the next.

All of them are in `mcpproxy-zoo` in the user's cache directory (XDG_CACHE_HOME). A complete directory is never changed,
as its name is derived from the versions. npm runs no scripts of packages. Node itself comes from npm, in one version
for all, so that the machine need not have a recent one. Of several processes that
want a directory, one downloads it and the others wait.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.zoo.rows import HERE, Registry

NODE_VERSION = "24.21.0"
FETCH_S = 400.0
# With its own settings, npm had not given up after 400 s without a network; with these it does within 2 s.
PATIENCE = ("--fetch-retries", "1", "--fetch-retry-mintimeout", "1000", "--fetch-retry-maxtimeout", "1000")


class Unavailable(Exception):
    """It cannot be installed here; the text says why, on one line."""


def cache() -> Path:
    """Where everything is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mcpproxy-zoo"


def place_of(registry: Registry, packages: Sequence[str]) -> Path:
    """Where these packages are, or will be."""
    name = hashlib.sha256("\n".join((registry, platform.python_version(), *packages)).encode()).hexdigest()[:16]
    return cache() / f"{registry}-{name}"


def node() -> Path:
    """The program Node, downloaded if it is not there yet.

    Raises:
        Unavailable: npm has none for this machine.
    """
    architecture = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"node-{sys.platform}-{architecture}"
    return installed("npm", [f"{package}@{NODE_VERSION}"]) / "node_modules" / package / "bin/node"


def installed(registry: Registry, packages: Sequence[str]) -> Path:
    """The directory of these packages, downloaded if they are not there yet.

    Raises:
        Unavailable: the registry's tool is missing, or cannot install them.
    """
    place = place_of(registry, packages)
    done = place / ".complete"
    with _alone_at(place):
        if not done.exists():
            if place.exists():
                shutil.rmtree(place)
            place.mkdir()
            for command in _from_npm(place, packages) if registry == "npm" else _from_pypi(place, packages):
                _fetch(command, place)
            done.touch()
    _take_programs(place)
    return place


def bin_of(registry: Registry, place: Path) -> Path:
    """Where the commands of the packages at a place are."""
    return place / ("node_modules/.bin" if registry == "npm" else "venv/bin")


@contextlib.contextmanager
def _alone_at(place: Path) -> Iterator[None]:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _from_pypi(place: Path, packages: Sequence[str]) -> Iterator[list[str]]:
    yield [sys.executable, "-m", "venv", "--without-pip", str(place / "venv")]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(place / "venv/bin/python")]
    yield [*pip, "install", "--quiet", "--no-input", *packages]


def _from_npm(place: Path, packages: Sequence[str]) -> Iterator[list[str]]:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed")
    options = ["--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", *PATIENCE]
    yield [npm, "install", *options, *packages]


def _fetch(command: list[str], place: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=place, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"not installed within {FETCH_S:.0f} s") from None
    if done.returncode:
        raise Unavailable(f"cannot be installed: {_reason(done.stderr)}")


def _reason(stderr: str) -> str:
    """The line that says why: the last error of pip, or the last of npm that does not just name its log."""
    lines = [line for line in stderr.splitlines() if "error" in line.lower() and "complete log" not in line] or [
        "no error message"
    ]
    return lines[-1].removeprefix("ERROR: ")[:160] + (" on this Python" if "from versions: none" in stderr else "")


def _take_programs(place: Path) -> None:
    """Copy the programs: Node looks for packages from the directory of the module that imports them."""
    programs = place / "programs"
    with contextlib.suppress(FileExistsError):
        programs.mkdir()
    for program in (HERE / "programs").iterdir():
        copy, text = programs / program.name, program.read_bytes()
        if program.is_file() and (not copy.exists() or copy.read_bytes() != text):
            copy.write_bytes(text)
