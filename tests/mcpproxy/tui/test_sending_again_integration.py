"""The command that sends a request again, copied from a recorded session and run against the official SDK's servers."""

import json
import subprocess
from pathlib import Path

import anyio
import pytest

from mcpproxy.tui.copies import copy_forms
from tests.harness import DEADLINE_S, Place
from tests.http_harness import serving
from tests.mcpproxy.test_sdk_integration import SERVER, recorded
from tests.mcpproxy.test_serve_sdk_integration import STATELESS, Talk, no_talk, serve_sdk
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading


def command(capture: Path) -> copy_forms.CopyForm:
    """The copied command for the last call of a tool."""
    reading = Reading(capture)
    while reading.step():
        pass
    kinds = [number for number, kind in enumerate(reading.kinds.all) if kind.method == "tools/call"]
    calls = reading.calls
    row = max(row for row, kind in zip(calls.request, calls.kind, strict=True) if kind in kinds)
    (form,) = (form for form in copy_forms.forms(reading, row) if form.key == "c")
    reading.close()
    return form


@pytest.mark.costly("two programs of the SDK are started, one of them twice")
@pytest.mark.parametrize(
    "mode", ["2026-07-28", *(pytest.param(mode, marks=pytest.mark.soak) for mode in ("legacy", "auto"))]
)
def test_a_server_of_stdio_answers_the_call_again(tmp_path: Path, mode: str) -> None:
    async def talk() -> None:
        async with recorded(SERVER, tmp_path / "x.mcpcap", mode) as client:
            await client.call_tool("count", {"steps": 3})

    anyio.run(talk)
    form = command(tmp_path / "x.mcpcap")
    assert "Ctrl-D ends it" in form.remark
    with subprocess.Popen(["sh", "-c", form.text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        answers = []
        for line in shell.stdout:
            answers.append(json.loads(line))
            if "counted to 3" in str(answers[-1]):
                break
        shell.communicate(timeout=DEADLINE_S)
    assert not [answer for answer in answers if "error" in answer]


@pytest.mark.parametrize("era", ["2025-11-25", pytest.param(STATELESS, marks=pytest.mark.soak)])
def test_a_server_of_http_answers_the_call_again(place: Place, era: str) -> None:
    with serve_sdk(place) as (url, _):
        with serving(place, url) as recorder:
            anyio.run(no_talk, Talk(recorder.url, era))
        form = command(recorder.capture)
        done = subprocess.run(["sh", "-c", form.text], capture_output=True, timeout=DEADLINE_S, check=True)
        assert b"counted to 2" in done.stdout
        assert b"error" not in done.stdout
