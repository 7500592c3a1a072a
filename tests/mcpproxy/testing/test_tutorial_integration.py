"""The tutorial of docs/python.md, step by step, with the files that a reader pastes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rules
from tests.harness import DEADLINE_S, ROOT

PAGE = (ROOT / "docs/python.md").read_text("utf-8")


def block(mark: str, language: str = "python") -> str:
    """The first block of code after a mark in the page."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE[PAGE.index(mark) :], re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.costly("the tutorial: two runs of pytest with the official SDK")
def test_tutorial_records_refuses_and_plays_without_the_server(tmp_path: Path, secret_rules: None) -> None:
    folder, home = tmp_path / "notes", tmp_path / "home"
    folder.mkdir()
    rules.copy_to(home / ".cache/mcpproxy")
    for name in ("server.py", "finder.py", "test_finder.py"):
        (folder / name).write_text(block(f"`{name}`"))
    (folder / "test_unittest.py").write_text(block("## Without pytest"))

    def run_pytest(*files: str, ci: str = "") -> str:
        # Other plugins would take longer to load than the tutorial takes.
        plugins = ("-p", "anyio", "-p", "mcpproxy.testing.pytest_plugin")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugins, f"--basetemp={tmp_path / 'temp'}", *files],
            cwd=folder,
            env={**os.environ, "HOME": str(home), "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
        )
        return done.stdout

    assert "1 passed" in run_pytest("test_finder.py")
    cassette = folder / "cassettes/test_finder/test_find.mcpcap"
    (folder / "server.py").unlink()

    text = (folder / "test_finder.py").read_text()
    old, new = re.findall(r"`(find\(server.parameters, .*?\) == \[.*?\])`", PAGE)
    assert text.count(old) == 1
    (folder / "test_finder.py").write_text(text.replace(old, new))
    shutil.copy(cassette, folder / "cassettes/find.mcpcap")
    output = run_pytest("test_finder.py", "test_unittest.py", ci="true")
    assert "1 failed, 2 passed" in output
    shown = PAGE[PAGE.index("1 request is not in") :].partition("\n…\n")[0]
    assert shown in output
