"""The page about tests in other languages: its examples for Node.js run with the official TypeScript SDK."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import DEADLINE_S, ROOT
from tests.mcpproxy.cli.typed import mcpproxy
from tests.npm import installed

PAGE = (ROOT / "docs/testing-other-languages.md").read_text("utf-8")
EVERYTHING = ("@modelcontextprotocol/server-everything", "2026.8.31")
"""A server that brings the TypeScript SDK."""


@pytest.mark.costly("two programs of Node.js with the TypeScript SDK, and the mocks that they start")
def test_examples_for_node_pass_over_stdio_and_http(tmp_path: Path, secret_rules: None) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (tmp_path / "node_modules").symlink_to(installed(*EVERYTHING).parents[1])
    cassette = tmp_path / "cassettes/demo.mcpcap"
    cassette.parent.mkdir()
    done = mcpproxy("share", "--cassette", ROOT / "tests/corpus/captures/demo.mcpcap", "-o", cassette)
    assert done.returncode == 0, done.stderr
    program = tmp_path / "bin/mcpproxy"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m mcpproxy "$@"\n')
    program.chmod(0o755)
    examples = re.findall(r"^```js\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    files = []
    for number, example in enumerate(examples):
        if '"node:test"' in example:
            files.append(tmp_path / f"{number}.test.mjs")
            files[-1].write_text(example)
    assert len(files) == 2
    run = subprocess.run(
        ["node", "--test", *files],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stdout
    assert "# pass 3" in run.stdout
