"""Programs that read exports, from the environment that `make setup` makes: they pin their dependencies."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.fetch import VENV
from tests.harness import DEADLINE_S

_READ_AND_KEEP = """
import json
import sys

from mitmproxy.io import FlowReader, FlowWriter

with open(sys.argv[1], "rb") as har, open(sys.argv[2], "wb") as kept:
    flows, writer = list(FlowReader(har).stream()), FlowWriter(kept)
    for flow in flows:
        writer.add(flow)
print(json.dumps([
    [flow.request.method, flow.request.pretty_url, flow.request.get_text(), flow.response.status_code,
     flow.response.get_text()]
    for flow in flows if flow.response
]))
"""


def program(name: str) -> Path:
    """The path of a program; fails the test if the set-up has not fetched it."""
    path = VENV / "readers/bin" / name
    assert path.exists(), f"{name} is not here: `make setup` fetches it"
    return path


def read_by_mitmproxy(har: Path, kept: Path) -> list[list[Any]]:
    """Returns what mitmproxy reads in a HAR file: method, URL, body, status, and body of each flow.

    Its reader and writer do so without the rest of the program: `mitmdump` takes twice as long to start as they do.

    Args:
        har: the file.
        kept: where mitmproxy writes the flows, in its own format.
    """
    python = program("mitmdump").with_name("python")
    done = subprocess.run(
        [python, "-I", "-c", _READ_AND_KEEP, har, kept], capture_output=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    flows: list[list[Any]] = json.loads(done.stdout)
    return flows
