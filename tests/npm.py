"""npm packages that tests need, which `make setup` has installed where they cannot affect anything else."""

import shutil
from pathlib import Path

import pytest

from tests.fetch import fetched

DEADLINE_S = 90


def installed(package: str, version: str, _place: Path | None = None) -> Path:
    """The folder of an installed package, none of whose scripts has run; skips the test if npm is not installed."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    return fetched("npm", [f"{package}@{version}"]) / "node_modules" / package
