"""The plugin of pytest, in runs of its own: fixtures, marker, modes, reports."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from captures.reader import Capture
from mcpproxy.testing import pytest_plugin
from tests import rules
from tests.harness import DEADLINE_S, ROOT

HERE = Path(__file__).parent
HEAD = f"""
import sys
import pytest
sys.path.insert(0, {str(HERE)!r})
from notes_client import Client
SERVER = [sys.executable, "-I", "-S", {str(HERE / "notes_server.py")!r}, "starts"]
"""
FINDS = """
@pytest.mark.mcp
def test_find(mcp_record):
    with mcp_record(SERVER) as server, Client(server.command) as client:
        assert client.find("milk") == ["groceries"]
"""


class Project:
    """A folder with tests, and the runs of pytest in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cassettes = folder / "cassettes"
        self.home = folder.parent / "home"
        rules.copy_to(self.home / ".cache/mcpproxy")

    def run(self, text: str, *options: str, ci: str = "") -> "tuple[dict[str, int], str]":
        """Run tests; returns how many passed, failed and so on, and the output."""
        (self.folder / "test_notes.py").write_text(HEAD + text)
        # Without the plugins that are installed here, a run takes half the time; that of mcpproxy may not be installed.
        words = [sys.executable, "-P", "-m", "pytest", "-p", "mcpproxy.testing.pytest_plugin", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*words, "-W", "error", f"--basetemp={self.folder.parent / 'temp'}", *options],
            cwd=self.folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": ci, "HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        output = done.stdout + done.stderr
        words_of_summary = output.strip().splitlines()[-1].strip("= ").partition(" in ")[0].split(", ")
        counts = {word: int(number) for number, word in (part.split() for part in words_of_summary)}
        return counts, output

    @property
    def starts(self) -> int:
        """How often the server was started."""
        file = self.folder / "starts"
        return file.read_text().count("started") if file.exists() else 0


@pytest.fixture
def project(tmp_path: Path, secret_rules: None) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project")


@pytest.mark.costly("several runs of pytest, in each of which a server and a recorder start")
def test_modes_record_play_and_refuse(project: Project) -> None:
    cassette = project.cassettes / "test_notes/test_find.mcpcap"
    assert project.run(FINDS)[0] == {"passed": 1}
    assert Capture(cassette).header.members["redacted_by"]
    assert project.starts == 1
    finds_more = (
        FINDS.replace("milk", "train") + FINDS.replace("test_find", "test_missing") + FINDS.replace("_find", "_two")
    )
    (cassette.parent / "test_two.mcpcap").write_bytes(cassette.read_bytes())
    counts, output = project.run(finds_more, ci="true")
    assert (counts, project.starts) == ({"failed": 2, "passed": 1}, 1)
    assert "there is no cassette" in output, "in CI, a missing cassette is not recorded"
    assert "--mcp-mode once" in output
    assert "1 request is not in test_find.mcpcap" in output
    assert "tools/call search" in output
    assert "/arguments/text" in output, "the place that differs from the nearest request"


@pytest.mark.costly("a run of pytest, in which servers and recorders start")
def test_failure_shows_the_conversation_and_keeps_the_capture_and_no_cassette(project: Project) -> None:
    counts, output = project.run(
        """
@pytest.mark.mcp
def test_wrong(mcp_record):
    with mcp_record(SERVER) as server, Client(server.command) as client:
        client.find("milk\\x1b]0;owned\\x07")
    assert server.capture.calls("search")[0].text == "travel"

@pytest.fixture
def client(mcp_mock):
    with mcp_mock("other.mcpcap") as server, Client(server.command) as client:
        yield client

def test_quiet_miss(client):
    client.find("train")

@pytest.mark.mcp
def test_skipped(mcp_record):
    with mcp_record(SERVER) as server, Client(server.command) as client:
        client.find("milk")
    pytest.skip("not today")
""".replace("other.mcpcap", str(HERE.parents[1] / "corpus/captures/demo.mcpcap"))
    )
    assert counts == {"failed": 2, "skipped": 1}, output
    assert output.count("- MCP conversation -") == 2
    assert "tools/call #2 search" in output
    assert "\x1b" not in output
    assert not project.cassettes.exists()
    (path,) = {
        line.removeprefix("capture: ")
        for line in output.splitlines()
        if line.startswith("capture: ") and "wrong" in line
    }
    assert Capture(path).header
    assert "1 request is not in demo.mcpcap" in output


def test_marker_that_is_wrong_or_unused_is_an_error_with_a_hint(project: Project) -> None:
    counts, output = project.run(
        """
@pytest.mark.mcp(casette="x.mcpcap")
def test_name(mcp_record): ...

@pytest.mark.mcp(mode="onec")
def test_mode(mcp_record): ...

@pytest.mark.mcp("x.mcpcap")
def test_position(mcp_record): ...

@pytest.mark.mcp
def test_unused(): ...
""",
        "--strict-markers",
    )
    assert counts == {"errors": 4}
    for text in (
        "@pytest.mark.mcp has no argument casette (did you mean cassette?)",
        "'onec' is not a mode (did you mean once?); use once, none, new, all",
        '@pytest.mark.mcp takes keyword arguments: cassette="NAME.mcpcap"',
        "@pytest.mark.mcp does nothing without one of the fixtures mcp_record, mcp_mock",
    ):
        assert text in output


@pytest.mark.costly("runs of pytest with two workers, in which servers and recorders start")
def test_workers_share_a_cassette_and_tests_share_the_folder_of_the_setting(project: Project) -> None:
    (project.folder / "pytest.ini").write_text("[pytest]\nmcp_cassettes = kept\n")
    text = """
@pytest.mark.mcp(cassette="notes.mcpcap")
@pytest.mark.parametrize("number", range(2))
def test_find(mcp_record, number):
    with mcp_record(SERVER) as server, Client(server.command) as client:
        assert client.find("milk") == ["groceries"]
    mcp_record(SERVER, cassette="other.mcpcap")
    with pytest.raises(ValueError, match="give each a cassette"):
        mcp_record(SERVER)
"""
    assert project.run(text, "-p", "xdist", "-n", "2", "--mcp-mode", "all")[0] == {"passed": 2}
    assert [path.name for path in (project.folder / "kept").iterdir()] == ["notes.mcpcap"]
    assert Capture(project.folder / "kept/notes.mcpcap").header


def test_plugin_is_an_entry_point_of_pytest() -> None:
    (name,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"].values()
    assert name == pytest_plugin.__name__


def test_plugin_loads_nothing_of_mcpproxy_before_it_is_used() -> None:
    code = (
        "import sys, pytest; before = {*sys.modules}; import mcpproxy.testing.pytest_plugin; "
        "print(*sorted({*sys.modules} - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    assert done.stdout.split() == ["mcpproxy", "mcpproxy.testing", "mcpproxy.testing.pytest_plugin"]
