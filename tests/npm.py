"""Packages of npm that tests need, installed where they cannot touch anything else."""

import shutil
import subprocess
from pathlib import Path

import pytest

DEADLINE_S = 90


def installed(package: str, version: str, place: Path) -> Path:
    """The folder of a package, installed in `place` without running anything of it; skips the test where npm cannot."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    install = [npm, "install", "--prefix", str(place), "--cache", str(place / "cache"), "--ignore-scripts"]
    try:
        done = subprocess.run(
            [*install, "--no-audit", f"{package}@{version}"], capture_output=True, cwd=place, timeout=DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install {package} within {DEADLINE_S} s")
    if done.returncode:
        pytest.skip(f"npm cannot install {package}: {done.stderr.decode()[-300:]}")
    return place / "node_modules" / package
