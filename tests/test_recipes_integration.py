"""Runs the recipes of docs/ci.md as a job does: with the official SDK, whose client gives a server no environment.

The lines that a job hands to a shell are run, each in a separate shell that stops at the first failure, in a folder
with a `server.py` and a `client.py`. Only installation is left out: programs come from the current environment.
"""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mcpproxy.cli.typed import program_of_forks

PAGE = Path(__file__).parents[1] / "docs/ci.md"
RUN_S = 600
"""Only catches hangs."""
CLIENT = """
import sys
import anyio
from mcp import Client, StdioServerParameters, stdio_client

async def main():
    async with Client(stdio_client(StdioServerParameters(command=sys.argv[1], args=sys.argv[2:]))) as client:
        assert (await client.call_tool("add", {"a": 19, "b": 23})).content[0].text == "42"

anyio.run(main)
"""
SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("adder", log_level="ERROR")

@server.tool()
def add(a: int, b: int) -> str:
    return str(a + b)

"""
START = "server.run()\n"
SMALL_CLIENT = """
import json, os, subprocess, sys

kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=kept)

def say(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
    server.stdin.flush()

def ask(number, method, **params):
    say(id=number, method=method, params=params)
    while not (line := server.stdout.readline()).startswith(b"{"):
        assert line
    return json.loads(line)["result"]

ask(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "small", "version": "1"})
say(method="notifications/initialized")
ask(1, "tools/list")
assert ask(2, "tools/call", name="add", arguments={"a": 19, "b": 23})["content"][0]["text"] == "42"
server.stdin.close()
server.wait()
"""
"""Gives its server as little environment as the SDK's client does, which takes a second to start."""
SMALL_SERVER = """
import json, sys

number = {"type": "integer"}
ADD = {"name": "add", "inputSchema": {"type": "object", "properties": {"a": number, "b": number}}}
INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "adder", "version": "1"}}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], **INFO}
    if method == "tools/list":
        return {"tools": [ADD]}
    return {"content": [{"type": "text", "text": str(sum(params["arguments"].values()))}]}

"""
SMALL_START = """
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked["params"])
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
FAULTY = 'print("Loaded 1 tool", flush=True)\n'
"""Prints a line that does not belong on stdout."""
RULE = "framing/stdout-not-json"


class Step(NamedTuple):
    """A line that a job hands to a shell."""

    name: str
    line: str
    always: bool
    """Whether it runs after a failure, too."""


class Job:
    """A job in its folder."""

    def __init__(self, folder: Path, *, small: bool = False) -> None:
        """If `small`, use a client and a server without the SDK."""
        self.small = small
        self.folder = folder / "checkout"
        self.folder.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
        for name, text in (("python", python), ("mcpproxy", program_of_forks())):
            program = programs / name
            program.write_text(text)
            program.chmod(0o755)
        self.environment = {
            "HOME": str(folder / "home"),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "CI": "true",
        }
        (self.folder / "client.py").write_text(SMALL_CLIENT if small else CLIENT)

    def serves(self, *, faulty: bool) -> None:
        server, start = (SMALL_SERVER, SMALL_START) if self.small else (SERVER, START)
        (self.folder / "server.py").write_text(server + FAULTY * faulty + start)

    def shell(self, text: str) -> "subprocess.CompletedProcess[str]":
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )

    def run(self, steps: list[Step]) -> "dict[str, subprocess.CompletedProcess[str]]":
        """Run the steps of a job; returns the result of each step that ran."""
        done: dict[str, subprocess.CompletedProcess[str]] = {}
        for step in steps:
            if step.always or all(one.returncode == 0 for one in done.values()):
                done[step.name] = self.shell(step.line)
        return done


def section(heading: str) -> str:
    """The code block below a heading of the page."""
    (found,) = re.findall(rf"^## {heading}\n.*?^```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert isinstance(found, str)
    return found


def github() -> list[Step]:
    block = section("GitHub Actions, step by step")
    assert " env:" not in block, "the steps are run without it"
    parts = re.findall(r"^      - name: (.*)\n(?:        if: (.*)\n)?        run: (.*)$", block, re.MULTILINE)
    assert len(parts) == block.count(" run: ")
    return [Step(name, line, condition == "always()") for name, condition, line in parts if name != "Install"]


def gitlab() -> list[Step]:
    lines = re.findall(r"^    - (.*)$", section("GitLab"), re.MULTILINE)
    return [Step(line, line, always=False) for line in lines if not line.startswith("pip install ")]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def small_job(tmp_path: Path) -> Job:
    return Job(tmp_path, small=True)


@pytest.mark.costly("one job is run with the official SDK")
def test_the_job_for_github_fails_at_the_check_and_still_reports(job: Job) -> None:
    job.serves(faulty=True)
    done = job.run(github())
    assert {name: one.returncode for name, one in done.items()} == {"Record": 0, "Check": 1, "Write the report": 0}
    annotated = rf"^::error title={RULE},file=captures/[^/]+\.mcpcap,line=\d+::"
    assert re.search(annotated, done["Check"].stdout, re.MULTILINE)
    (report,) = re.findall(r"sarif_file: (.*)", section("GitHub Actions, step by step"))
    (kept,) = re.findall(r" path: (.*)", section("GitHub Actions, step by step"))
    results = json.loads((job.folder / report).read_text())["runs"][0]["results"]
    (uri,) = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results}
    assert (job.folder / uri).parent == job.folder / kept
    assert (job.folder / uri).is_file()


def test_the_job_for_github_passes_with_a_sound_server(small_job: Job) -> None:
    small_job.serves(faulty=False)
    done = small_job.run(github())
    assert {one.returncode for one in done.values()} == {0}, done
    assert len(done) == len(github()) > 2


def test_the_job_for_gitlab_has_its_report_whether_it_fails_or_not(small_job: Job) -> None:
    (report,) = re.findall(r" junit: (.*)", section("GitLab"))
    small_job.serves(faulty=True)
    assert [one.returncode for one in small_job.run(gitlab()).values()] == [0, 1]
    root = ET.parse(small_job.folder / report).getroot()
    assert [case.attrib["name"] for case in root.iterfind("testsuite/testcase[failure]")] == [RULE]
    for capture in (small_job.folder / "captures").iterdir():
        capture.unlink()
    small_job.serves(faulty=False)
    assert [one.returncode for one in small_job.run(gitlab()).values()] == [0, 0]
    assert ET.parse(small_job.folder / report).getroot().attrib["failures"] == "0"


def test_a_baseline_accepts_what_the_next_job_finds_again_and_nothing_new(small_job: Job) -> None:
    record = github()[0].line
    small_job.serves(faulty=True)
    assert small_job.shell(record).returncode == 0
    update, check = section("A baseline").splitlines()
    assert [small_job.shell(line).returncode for line in (update, check)] == [0, 0]
    assert small_job.shell(record).returncode == 0
    assert "2 accepted by the baseline" in small_job.shell(f"{check} --rule {RULE}").stdout
    (small_job.folder / "accepted.jsonl").write_text("")
    assert small_job.shell(check).returncode == 1


def test_a_job_that_trusts_the_environment_fails_and_is_shown_the_capture(small_job: Job) -> None:
    small_job.serves(faulty=False)
    small_job.environment["MCPPROXY_CAPTURES"] = "captures"
    assert small_job.shell(github()[0].line.replace("--capture captures/ ", "")).returncode == 0
    done = small_job.shell("mcpproxy check captures")
    (capture,) = (small_job.folder.parent / "home").rglob("*.mcpcap")
    assert (done.returncode, done.stdout) == (2, "")
    assert str(capture) in done.stderr
