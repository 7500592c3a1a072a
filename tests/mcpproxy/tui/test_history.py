"""Filters are kept for the next run, readable only by their user; if they cannot be kept, the program goes on."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.history import filters_of, history_path, remember_filter
from tests.captures.samples import STRANGER


def kept() -> Path:
    """The file that keeps the filters."""
    path = history_path("filter_history")
    assert path is not None
    return path


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    remember_filter("traffic", "has:error")
    theirs = tmp_path / "theirs"
    kept().rename(theirs)
    os.chown(theirs, STRANGER, -1)
    kept().symlink_to(theirs)
    before = theirs.read_bytes()
    remember_filter("traffic", "kind:request")
    assert filters_of("traffic") == []
    assert (theirs.read_bytes(), theirs.stat().st_uid) == (before, STRANGER)


def hinder(what: str) -> None:
    """Put something in the place of the file with the filters, or of its folder."""
    if what == "folder":
        kept().parent.parent.mkdir(parents=True)
        kept().parent.write_text("no folder")
        return
    kept().parent.mkdir(parents=True)
    if what == "pipe":
        os.mkfifo(kept())
    elif what == "directory":
        kept().mkdir()
    else:
        kept().write_bytes(b"\xff\x00 \x1b[2J\ntraffic \x1b]0;x\x07 \xff\ntraffic \ntraffic " + b"x" * 9000 + b"\n")


def test_other_than_regular_files_take_no_descriptor() -> None:
    hinder("directory")
    filters_of("traffic")
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    for _ in range(20):
        filters_of("traffic")
    again = os.open(os.devnull, os.O_RDONLY)
    os.close(again)
    assert again == free


def test_of_a_file_that_is_too_large_the_newest_are_kept() -> None:
    kept().parent.mkdir(parents=True)
    kept().write_text("".join(f"traffic {number:04} {'é' * 5000}\n" for number in range(600)))
    found = filters_of("traffic")
    assert found[-1].startswith("0599 ")
    assert all(one.endswith("é") and len(one) == 5005 for one in found)
    remember_filter("traffic", "id:1")
    assert filters_of("traffic")[-2:] == [found[-1], "id:1"]


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    kept().parent.mkdir(parents=True)
    kept().symlink_to(tmp_path / "elsewhere")
    remember_filter("traffic", "id:1")
    assert kept().is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "traffic id:1\n"


def test_what_takes_its_place_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    replace = Path.replace

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_size)

    def replaced(path: Path, target: Path) -> Path:
        assert synced == [path.stat().st_size] != [0]
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replaced)
    remember_filter("traffic", "id:1")
    assert filters_of("traffic") == ["id:1"]


@given(st.lists(st.text(max_size=20), max_size=8))
def test_what_was_typed_comes_back(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", os.path.join(os.environ["XDG_STATE_HOME"], f"{abs(hash(tuple(texts)))}"))
        wanted: list[str] = []
        for text in texts:
            remember_filter("traffic", text)
            remember_filter("sessions", "other")
            if text.splitlines() == [text]:
                wanted = [*(one for one in wanted if one != text), text]
        assert filters_of("traffic") == wanted
        remember_filter("traffic", "\ud800")
        assert filters_of("traffic") == wanted
        assert [path.name for path in kept().parent.iterdir()] == ["filter_history"] * bool(texts)
