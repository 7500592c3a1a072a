"""Programs that read exports, from the environment that `make readers` makes: they pin what they need themselves."""

import os
import shutil
from pathlib import Path

import pytest

from tests.harness import ROOT

PLACE = ROOT / ".venv/readers/bin"


def program(name: str) -> Path:
    """A program; skips the test where it is not installed."""
    path = os.pathsep.join((str(PLACE), os.environ.get("PATH", "")))
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed; `make readers` installs it")
    return Path(found)
