"""npm packages that tests need, which `make setup` has installed where they cannot affect anything else."""

import shutil
from pathlib import Path

import pytest

from tests.fetch import fetched

DEADLINE_S = 90


def installed(package: str, version: str, _place: Path | None = None) -> Path:
    """The folder of a package, of which nothing has been run; skips the test if this machine has no npm."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    return fetched("npm", [f"{package}@{version}"]) / "node_modules" / package
