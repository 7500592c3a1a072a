"""Fetching packages fails quickly without a registry; what several processes need is fetched by one of them."""

import os
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.fetch import Job, fetch
from tests.harness import DEADLINE_S
from tests.zoo.install import Unavailable, installed, is_complete, place_of

NOWHERE = "http://127.0.0.1:1/"
REFUSES = """\
#!/bin/sh
echo "npm error code E404" >&2
echo "npm error 404 Not Found - GET /a - Not found" >&2
echo "npm error A complete log of this run can be found in: /log" >&2
exit 1
"""
NPM = """\
#!/bin/sh
echo fetched >> "$XDG_CACHE_HOME/log"
until [ -e "$XDG_CACHE_HOME/go" ]; do :; done
"""
WANTS = """\
from tests.zoo.install import installed, is_complete
print("here", flush=True)
assert is_complete(installed("npm", ["a@1"]))
"""


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_gives_up_soon_without_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("npm_config_registry", NOWHERE)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with pytest.raises(Unavailable, match="cannot be installed"):  # else "not installed within 400 s"
        installed("npm", ["anything@1.0.0"])


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_asks_again_where_a_registry_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(Unavailable, match="cannot be installed"):
            installed("npm", ["anything@1.0.0"])
        silent.setblocking(False)
        asked = [silent.accept() for _ in range(3)]
    for connection, _ in asked:
        connection.close()


def test_what_a_registry_refuses_is_told_on_a_line_and_the_rest_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    npm = tmp_path / "npm"
    npm.write_text(REFUSES)
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done: list[str] = []
    jobs: list[Job] = [("a@1", partial(installed, "npm", ["a@1"], tmp_path)), ("b", partial(done.append, "b"))]
    assert fetch(jobs) == 1
    printed, complained = capsys.readouterr()
    assert (printed, done) == ("", ["b"])
    (line,) = complained.splitlines()
    assert line.startswith("set-up failed: a@1: cannot be installed: npm error 404 Not Found - GET /a - Not found; ")
    assert not is_complete(place_of("npm", ["a@1"], tmp_path))


def test_what_only_the_machine_lacks_is_told_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch([("a@1", partial(installed, "npm", ["a@1"], tmp_path))]) == 0
    assert capsys.readouterr() == ("npm is not installed, so the tests that need a@1 skip\n", "")


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
        process.communicate(timeout=DEADLINE_S)
    assert [process.returncode for process in both] == [0, 0]
    assert (tmp_path / "log").read_text() == "fetched\n"
