"""Packages from PyPI and npm, each set in its own directory, which is kept between runs.

The zoo's are in `mcpproxy-zoo` in the user's cache directory (XDG_CACHE_HOME), those of the tests in the directory that
`tests.fetch` chooses. A complete directory is never changed, as its name is derived from the versions; an incomplete
one is recreated. npm runs no package scripts. Node itself comes from npm, in one version for all, so the machine does
not need a recent one. If several processes need a directory, one downloads it and the others wait.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.zoo.rows import HERE, Registry

NODE_VERSION = "24.21.0"
FETCH_S = 400.0
# With its defaults, npm did not give up within 400 s without a network; with these options, it gives up within 3 s. By
# default, it also waits 300 s for a response that never comes, which happened with Node on a new machine; these options
# let it retry after 90 s.
PATIENCE = (
    *("--fetch-retries", "2", "--fetch-retry-mintimeout", "1000", "--fetch-retry-maxtimeout", "1000"),
    *("--fetch-timeout", "90000"),
)
UV = Path(sys.executable).with_name("uv")
_COMPLETE = ".complete"


class Unavailable(Exception):
    """The packages cannot be installed here; the text is the reason, on one line."""


class ToolMissing(Unavailable):
    """This machine lacks the registry's tool, so no registry was contacted."""


def cache() -> Path:
    """The folder of the zoo's animals."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mcpproxy-zoo"


def place_of(registry: Registry, packages: Sequence[str], under: Path | None = None) -> Path:
    """The directory where these packages are or will be installed, by default below the zoo's."""
    name = hashlib.sha256("\n".join((registry, platform.python_version(), *packages)).encode()).hexdigest()[:16]
    return (under or cache()) / f"{registry}-{name}"


def node_packages() -> tuple[str, ...]:
    """The npm package of Node for this machine, with its version."""
    architecture = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return (f"node-{sys.platform}-{architecture}@{NODE_VERSION}",)


def node(place: Path | None = None) -> Path:
    """The path of Node, after downloading it if necessary.

    Args:
        place: the directory of its package; by default, the zoo's.

    Raises:
        Unavailable: npm has none for this machine.
    """
    packages = node_packages()
    return (place or installed("npm", packages)) / "node_modules" / packages[0].partition("@")[0] / "bin/node"


def is_complete(place: Path) -> bool:
    """Whether a directory is complete."""
    return (place / _COMPLETE).exists()


def installed(registry: Registry, packages: Sequence[str], under: Path | None = None) -> Path:
    """The directory of these packages, after downloading them if necessary.

    Raises:
        Unavailable: the registry's tool is missing, or cannot install them.
    """
    place = place_of(registry, packages, under)
    with exclusive(place):
        if not is_complete(place):
            if place.exists():
                shutil.rmtree(place)
            place.mkdir()
            if registry == "npm":
                _fetch(_npm(place, packages), place)
            else:
                environment(place / "venv", packages)
            (place / _COMPLETE).touch()
    if under is None:
        _take_programs(place)
    return place


def bin_of(registry: Registry, place: Path) -> Path:
    """The folder with the commands of the packages in a directory."""
    return place / ("node_modules/.bin" if registry == "npm" else "venv/bin")


@contextlib.contextmanager
def exclusive(place: Path) -> Iterator[None]:
    """Ensure that no other process is in such a block for the same directory while this one runs."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def environment(place: Path, packages: Sequence[str]) -> None:
    """Create a Python environment in a directory, with these packages but without pip.

    Raises:
        Unavailable: pip cannot install them.
    """
    venv.create(place, clear=True, with_pip=False, symlinks=True)
    python = str(place / "bin/python")
    # uv takes a tenth of pip's time. It ignores pip's settings, so where it fails, pip may succeed.
    if (
        UV.exists()
        and not subprocess.run(
            [str(UV), "pip", "install", "--quiet", "--python", python, *packages], capture_output=True, check=False
        ).returncode
    ):
        return
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    _fetch([*pip, "install", "--quiet", "--no-input", *packages], place)


def _npm(place: Path, packages: Sequence[str]) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise ToolMissing("npm is not installed")
    options = ["--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", *PATIENCE]
    return [npm, "install", "--prefer-offline", *options, *packages]


def _fetch(command: list[str], place: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=place, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"not installed within {FETCH_S:.0f} s") from None
    if done.returncode:
        raise Unavailable(f"cannot be installed: {_reason(done.stderr)}")


def _reason(stderr: str) -> str:
    """The reason: the last error line of pip, or npm's last one that does not merely name its log."""
    lines = [line for line in stderr.splitlines() if "error" in line.lower() and "complete log" not in line] or [
        "no error message"
    ]
    return lines[-1].removeprefix("ERROR: ")[:160] + (" on this Python" if "from versions: none" in stderr else "")


def _take_programs(place: Path) -> None:
    """Copy the zoo's programs, as Node looks for packages from the directory of the importing module."""
    programs = place / "programs"
    with contextlib.suppress(FileExistsError):
        programs.mkdir()
    for program in (HERE / "programs").iterdir():
        copy, text = programs / program.name, program.read_bytes()
        if program.is_file() and (not copy.exists() or copy.read_bytes() != text):
            copy.write_bytes(text)
