"""What `verify` prints for a capture in which nothing was recorded."""

from pathlib import Path

import orjson
import pytest

from tests.harness import ROOT
from tests.mcpproxy.cli.typed import complaints, mcpproxy

TOLD = """\
{path}: incomplete, 0 records
  it contains no whole record: the recorder was probably killed as it started, or the file was cut
"""


def test_an_empty_capture_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "x.mcpcap"
    path.touch()
    done = mcpproxy("verify", path)
    assert (done.returncode, done.stdout.decode(), complaints(done)) == (3, TOLD.format(path=path), b"")


def test_so_is_one_that_was_cut_in_its_first_record(tmp_path: Path) -> None:
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b'{"seq":0,"rec":"header","t_ns":0,"for')
    done = mcpproxy("verify", "--json", path)
    found = orjson.loads(done.stdout)
    assert done.returncode == 3
    assert (found["state"], found["records"], found["torn"], found["damage"][0]["size"]) == ("incomplete", 0, True, 37)


@pytest.mark.parametrize("data", [b"\n", b"PK\x03\x04", b'{"id":1}\n'])
def test_what_was_never_a_capture_is_not(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.mcpcap"
    path.write_bytes(data)
    done = mcpproxy("verify", path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert complaints(done).decode() == f"mcpproxy: cannot read {path}: it contains no capture records\n"


@pytest.mark.parametrize("command", ["verify", "info"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_stdin_is_called_stdin(command: str, form: str) -> None:
    damaged = (ROOT / "tests/corpus/captures/damaged.mcpcap").read_bytes()
    done = mcpproxy(command, "--format", form, "-", stdin=damaged)
    assert done.returncode == 2
    assert b"stdin: 217 bytes" in done.stdout or b'"file":"stdin"' in done.stdout
    assert b"private" not in done.stdout + done.stderr
