"""The plugin of pytest, in runs of its own: fixtures, marker, modes, reports."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from captures.reader import Capture
from mcpproxy.testing import pytest_plugin
from mcpproxy.testing.misses import OF_MARKER
from tests import rules
from tests.harness import DEADLINE_S, ROOT

HERE = Path(__file__).parent
HEAD = f"""
import sys
import pytest
sys.path.insert(0, {str(HERE)!r})
from notes_client import Client
from mcpproxy.testing import Capture
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
    finds_more += """
@pytest.mark.mcp(cassette="test_notes/test_find.mcpcap", ignore="/arguments/text")
def test_mock(mcp_mock):
    with mcp_mock() as server, Client(server.command) as client:
        assert client.find("train") == ["groceries"]
"""
    (cassette.parent / "test_two.mcpcap").write_bytes(cassette.read_bytes())
    counts, output = project.run(finds_more, ci="true")
    assert (counts, project.starts) == ({"failed": 2, "passed": 2}, 1)
    assert "there is no cassette" in output, "in CI, a missing cassette is not recorded"
    assert "--mcp-mode once" in output
    assert "1 request is not in test_find.mcpcap" in output
    # The miss is first and alone: no traceback.
    (report,) = re.findall(r"^_+ test_find _+\n(.*?)^-+ Captured", output, re.MULTILINE | re.DOTALL)
    assert report.splitlines() == [
        "1 request is not in test_find.mcpcap",
        "  tools/call search differs from the nearest recorded request, frame 5, at",
        '    /arguments/text: recorded "milk", now "train"',
        OF_MARKER.renewal,
        'If these values do not matter, ignore them: @pytest.mark.mcp(ignore="/arguments/text")',
    ]
    assert "mcpproxy/testing" not in output, "no frame of mcpproxy itself"


@pytest.mark.costly("a run of pytest, in which mocks and recorders start")
def test_what_the_test_raised_after_a_miss_is_below_it_unless_it_is_the_miss(project: Project) -> None:
    counts, output = project.run(
        """
class Refused(Exception): ...

class Wrapped(ExceptionGroup): ...

class Textless(Exception):
    def __str__(self):
        return 5

def test_refused(mcp_mock):
    with mcp_mock(CAPTURE) as server, Client(server.command) as client:
        answer = client.ask("tools/call", name="add", arguments={"a": 1, "b": 1})
        raise Wrapped("unhandled", [Refused(answer["error"]["message"])])

def test_own(mcp_mock):
    with mcp_mock(CAPTURE) as server, Client(server.command) as client:
        client.find("train")
        assert 1 == 2, "of the test"

def test_textless(mcp_mock):
    with mcp_mock(CAPTURE) as server, Client(server.command) as client:
        client.find("train")
        raise Textless

def test_more(mcp_mock):
    with mcp_mock(CAPTURE) as server, Client(server.command) as client:
        answer = client.ask("tools/call", name="add", arguments={"a": 1, "b": 1})
        raise Refused("out of memory: " + answer["error"]["message"])

@pytest.mark.xfail(raises=ZeroDivisionError, strict=True)
def test_expected(mcp_mock):
    with mcp_mock(CAPTURE) as server, Client(server.command) as client:
        client.find("train")
        1 / 0

def test_no_capture(mcp_mock):
    mcp_mock("missing.mcpcap")

def test_no_filter():
    Capture("missing.mcpcap").calls(only="nosuch>")

def test_nothing_to_read():
    Capture("missing.mcpcap").calls()

def test_strict(mcp_mock):
    with mcp_mock(CAPTURE, strict=True) as server, Client(server.command) as client:
        pass

@pytest.mark.mcp(ignore="arguments.text")
def test_wrong_place(mcp_record): ...
""".replace("CAPTURE", repr(str(HERE.parents[1] / "corpus/captures/demo.mcpcap")))
    )
    assert counts == {"failed": 8, "xfailed": 1, "error": 1}, output
    reports = dict(
        re.findall(
            r"^_+ (?:ERROR at setup of )?(test_\w+) _+\n(.*?)(?=^_+ test_|^=+ )", output, re.MULTILINE | re.DOTALL
        )
    )
    assert "Wrapped" not in reports["test_refused"]
    assert reports["test_own"].startswith("1 request is not in demo.mcpcap\n")
    own = reports["test_own"].partition("- raised by the test -")[2]
    assert "AssertionError: of the test" in own
    for name, text in ("test_textless", "raise Textless"), ("test_more", "Refused: out of memory: "):
        miss, _, own = reports[name].partition("- raised by the test -")
        assert miss.startswith("1 request is not in demo.mcpcap\n")
        assert text in own
    assert "mcpproxy/testing" not in output, "no frame of mcpproxy"
    assert f"{ROOT}/captures" not in output
    assert f"{ROOT}/analysis" not in output
    assert "requests that the client never sent" in reports["test_strict"]
    assert "ignore='arguments.text': expected a JSON Pointer into the params" in output


@pytest.mark.costly("a run of pytest, in which servers and recorders start")
def test_failure_shows_the_conversation_and_keeps_the_capture_and_no_cassette(project: Project) -> None:
    counts, output = project.run(
        """
@pytest.mark.mcp
def test_wrong(mcp_record):
    with mcp_record(SERVER) as server, Client(server.command) as client:
        client.find("milk\\x1b]0;owned\\x07")
    assert server.capture.calls("search")[0].text == "travel"

def test_noisy(mcp_record):
    noise = "import sys; print(*range(90), sep=chr(10), file=sys.stderr); [print(line, end='') for line in sys.stdin]"
    with mcp_record([sys.executable, "-c", noise]) as server, Client(server.command) as client:
        client.ask("noisy/method")
    assert not server.capture.stderr

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
    assert counts == {"failed": 3, "skipped": 1}, output
    assert output.count("- MCP conversation -") == 3
    assert "tools/call #2 search" in output
    assert "→  noisy/method" in output, "stderr takes no place of messages"
    assert "server exited 0\nthe last 5 of 90 lines of stderr:\n  85\n  86\n  87\n  88\n  89\n" in output
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


@pytest.mark.costly("a run of pytest, in which servers start")
def test_a_cassette_that_cannot_be_used_is_told_without_a_frame_of_mcpproxy(project: Project) -> None:
    (project.folder / "file").write_text("")
    (project.cassettes / "folder.mcpcap").mkdir(parents=True)
    (project.cassettes / "damaged.mcpcap").write_bytes(b"no capture")
    os.mkfifo(project.cassettes / "fifo.mcpcap")
    names = ("../../out.mcpcap", "a\\0b", "folder.mcpcap", "damaged.mcpcap", "fifo.mcpcap", "../file/x.mcpcap")
    text = "".join(
        FINDS.replace("mark.mcp", f'mark.mcp(cassette="{name}")').replace("test_find", f"test_{number}")
        for number, name in enumerate(names)
    )
    counts, output = project.run(text, "--tb=short")
    assert counts == {"failed": 3, "passed": 1, "errors": 3}
    for reason in (
        "is not below the rootdir of pytest",
        "is not the path of a cassette",
        "folder.mcpcap: it is not a regular file",
        "damaged.mcpcap: it contains no capture records",
        "fifo.mcpcap: it is not a regular file",
        "cannot create the folder",
    ):
        assert reason in output, output
    assert "mcpproxy/testing" not in output
    assert not (project.folder.parent / "out.mcpcap").exists()
