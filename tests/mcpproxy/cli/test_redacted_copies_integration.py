"""`--redact` of commands that pass captures on: no user or temporary file is named, and damage is counted."""

from pathlib import Path

import pytest

from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.sharing.written import written
from tests.parquet import parquet_rows

FORMATS = ("otlp", "perfetto", "markdown", "parquet", "csv", "duckdb")
ARGUMENTS = {"path": "/home/marta/x"}
LINES = written([("c2s", {"id": 2, "method": "tools/call", "params": {"name": "x", "arguments": ARGUMENTS}})])


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A capture whose file and server carry the name of a user."""
    path = tmp_path / "traffic" / "marta-acme.mcpcap"
    path.parent.mkdir()
    path.write_bytes(b"".join(written([], name="marta-notes", cwd="/home/marta")))
    return path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "broken.mcpcap"
    path.write_bytes(b"".join((LINES[0], b"no record\n", *LINES[1:])))
    return path


def held(path: Path) -> bytes:
    """Returns all text in a file, or in the files of a folder."""
    if path.is_dir():
        return b"".join(held(inner) for inner in path.iterdir())
    if path.suffix == ".parquet":
        return repr(parquet_rows([path])).encode()
    return path.read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_neither_the_user_nor_a_temporary_place_is_in_the_file(form: str, named: Path, tmp_path: Path) -> None:
    place = tmp_path / "marta-tmp"
    place.mkdir()
    out = tmp_path / "out"
    done = mcpproxy("export", "--redact", "--format", form, "-o", out, named, TMPDIR=str(place))
    assert done.returncode == 0, done.stderr
    text = held(out)
    assert text
    assert b"marta" not in text.lower()
    assert list(place.iterdir()) == []


def test_neither_is_in_the_report(named: Path, tmp_path: Path) -> None:
    done = mcpproxy("report", "--redact", "-o", tmp_path / "r.html", named, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    text = held(tmp_path / "r.html")
    assert b"marta" not in text.lower()
    assert str(tmp_path).encode() not in text


@pytest.mark.parametrize(
    "words",
    [
        ["report"],
        *(["export", "--format", form] for form in FORMATS[:-2]),
        *(pytest.param(["export", "--format", form], marks=pytest.mark.soak) for form in FORMATS[-2:]),
    ],
    ids=" ".join,
)
def test_damage_counts_and_messages_name_the_original(words: list[str], damaged: Path, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    done = mcpproxy(*words, "--redact", "-o", tmp_path / "out", damaged, TMPDIR=str(place))
    assert (tmp_path / "out").exists()
    assert done.returncode == 2
    assert f"{damaged} is damaged: the copy has only what is intact".encode() in complaints(done)
    assert str(place).encode() not in done.stderr


def test_an_error_names_the_original(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    path = tmp_path / "not\x1ba.mcpcap"
    path.write_bytes(b"x")
    done = mcpproxy("export", "--redact", "--format", "har", "-o", tmp_path / "o", path, TMPDIR=f"{tmp_path}/spool")
    assert done.returncode == 2
    assert b"spool" not in done.stderr
    stdio = tmp_path / "stdio.2024.mcpcap"
    stdio.write_bytes(b"".join(LINES))
    done = mcpproxy(
        "export", "--redact", "--format", "har", "-o", tmp_path / "o", stdio, stdio, TMPDIR=f"{tmp_path}/spool"
    )
    assert done.returncode == 2
    assert f"{stdio}: 1 replacement;".encode() in done.stderr
    assert f"{stdio} was recorded over stdio".encode() in done.stderr
    assert b"spool" not in done.stderr


@pytest.mark.parametrize("name", ["a.2.mcpcap", "no-suffix", "ü \x1b.mcpcap", "-x.mcpcap"])
def test_a_capture_may_have_any_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"".join(LINES))
    done = mcpproxy("export", "--redact", "--format", "markdown", "-o", "out.md", f"./{name}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.md").stat().st_size
