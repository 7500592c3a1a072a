"""Packages in versions that mcpproxy does not use itself; `make setup` installs them where they affect nothing else."""

import sys
from pathlib import Path

import pytest

from tests.fetch import WHEELS, fetched


def installed(package: str, version: str, _place: Path | None = None) -> Path:
    """The folder of a package, for PYTHONPATH; skips the test if there is no build for this Python."""
    wanted = f"{package}=={version}"
    if wanted in WHEELS and sys.version_info[:2] > WHEELS[wanted]:
        pytest.skip(f"there is no {wanted} for Python {sys.version_info[0]}.{sys.version_info[1]}")
    (site,) = (fetched("pypi", [wanted]) / "venv/lib").glob("python*/site-packages")
    return site
