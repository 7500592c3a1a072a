"""Packages in versions other than ours, which `make setup` has installed where they cannot affect anything else."""

import sys
from pathlib import Path

import pytest

from tests.fetch import WHEELS, fetched


def installed(package: str, version: str, _place: Path | None = None) -> Path:
    """A folder for PYTHONPATH that holds a package; skips the test if there is no build for this Python."""
    wanted = f"{package}=={version}"
    if wanted in WHEELS and sys.version_info[:2] > WHEELS[wanted]:
        pytest.skip(f"there is no {wanted} for Python {sys.version_info[0]}.{sys.version_info[1]}")
    (site,) = (fetched("pypi", [wanted]) / "venv/lib").glob("python*/site-packages")
    return site
