"""Fetching packages: it gives up soon without a registry, and one process fetches what several want."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.zoo.install import Unavailable, installed

NOWHERE = "http://127.0.0.1:1/"
SOON_S = 60
NPM = """\
#!/bin/sh
echo fetched >> "$XDG_CACHE_HOME/log"
until [ -e "$XDG_CACHE_HOME/go" ]; do :; done
"""
WANTS = """\
from tests.zoo.install import installed
print("here", flush=True)
assert (installed("npm", ["a@1"]) / ".complete").exists()
"""


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_gives_up_soon_without_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("npm_config_registry", NOWHERE)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    begin = time.monotonic()
    with pytest.raises(Unavailable, match="cannot be installed"):
        installed("npm", ["anything@1.0.0"])
    assert time.monotonic() - begin < SOON_S


def test_one_process_fetches_what_several_want(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", WANTS],
            cwd=Path(__file__).parents[2],
            env={"XDG_CACHE_HOME": str(tmp_path), "PATH": f"{tmp_path}:/bin:/usr/bin"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
    (tmp_path / "go").touch()
    for process in both:
        process.communicate(timeout=SOON_S)
    assert [process.returncode for process in both] == [0, 0]
    assert (tmp_path / "log").read_text() == "fetched\n"
