"""`mcpproxy repair`: where the copy goes, and what is said about it."""

from pathlib import Path

import pytest

from captures.errors import CannotCreate
from mcpproxy.cli.repair import run
from tests.captures.samples import every_type

WHOLE = every_type()


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A capture with a damaged record, in a folder beside the working directory."""
    (tmp_path / "captures").mkdir(mode=0o700)
    (tmp_path / "here").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path / "here")
    path = tmp_path / "captures/x.mcpcap"
    path.write_bytes(b"".join([WHOLE[0], WHOLE[1].replace(b'"rec"', b'"rex"'), *WHOLE[2:]]))
    return path


def test_the_copy_is_in_the_working_directory_under_a_name_of_its_own(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([str(damaged)]) == 0
    count = len(WHOLE) - 1
    said = f"x-repaired.mcpcap: {count} records, 1 gap; {len(WHOLE[1])} damaged bytes left out\n"
    assert capsys.readouterr().out == said
    assert [path.name for path in Path().iterdir()] == ["x-repaired.mcpcap"]
    assert [path.name for path in damaged.parent.iterdir()] == [damaged.name]


def test_what_had_nothing_missing_says_so(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged.write_bytes(b"".join(WHOLE))
    assert run([str(damaged), "--output", "copy.mcpcap"]) == 0
    assert capsys.readouterr().out == f"copy.mcpcap: {len(WHOLE)} records, nothing missing\n"


def test_the_copy_never_becomes_a_segment_of_another_capture(damaged: Path) -> None:
    segment = Path("y.2.mcpcap")
    with pytest.raises(CannotCreate, match="without a segment number"):
        run([str(damaged), "-o", str(segment)])
    segment.write_bytes(b"")
    with pytest.raises(CannotCreate, match="an earlier capture of that name has segments there"):
        run([str(damaged), "-o", "y.mcpcap"])
    assert [path.name for path in Path().iterdir()] == [segment.name]
