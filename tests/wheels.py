"""Packages in versions that are not ours, installed where they cannot touch anything else."""

import subprocess
import sys
from pathlib import Path

import pytest

DEADLINE_S = 90


def installed(package: str, version: str, place: Path) -> Path:
    """A folder for PYTHONPATH that holds a package without its dependencies; skips the test where pip cannot."""
    wanted = f"{package}=={version}"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    try:
        done = subprocess.run([*install, "--target", str(place), wanted], capture_output=True, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip did not install {wanted} within {DEADLINE_S} s")
    if done.returncode:
        pytest.skip(f"pip cannot install {wanted}: {done.stderr.decode()[-300:]}")
    return place
