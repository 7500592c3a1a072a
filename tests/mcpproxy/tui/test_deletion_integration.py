"""Deleting a capture: asked first, all of it or an error, never a live one."""

import os
from pathlib import Path

from analysis import tally
from analysis.store import cache_files
from analysis.summary import file_of
from captures.file import CaptureFile
from captures.reader import Capture
from mcpproxy.marks import marks_path
from mcpproxy.tui.screens.confirm import ConfirmScreen
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.stage import Stage, captured, conversation, play, record


def segmented(folder: Path) -> Path:
    """A capture of two segments with marks, and files in all caches."""
    path = captured(folder)
    record(path.with_name(path.name.replace(".mcpcap", ".2.mcpcap")), [("header", header(2)), *conversation(1)[1:]])
    marks_path(path).write_text('{"marks": 1}')
    sql, id_ = cache_files.directory(), Capture(path).header.members["capture"]
    assert sql is not None
    for file in [
        file_of(path),
        tally.file_of(path),
        sql / f"{cache_files.owner_of(path, id_)}-{'0' * 32}.duckdb",
    ]:
        assert file is not None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return path


def left(*folders: Path) -> list[str]:
    """The names of all files in folders."""
    return sorted(path.name for folder in folders for path in folder.rglob("*") if path.is_file())


def test_all_of_it_goes_once_the_user_says_so(tmp_path: Path) -> None:
    path = segmented(tmp_path / "captures")
    other = captured(tmp_path / "captures", "other", stamp="20261121T101501Z-4f2a")
    paths = [path, other]

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("d")
        await stage.see("Delete library/20261121T101502Z-4f2a? [y/N]", "2 files", "cached", "marks", str(path)[:40])
        for key in ("n", "enter", "escape", "Y"):
            await stage.press(key)
            await stage.until(lambda: not isinstance(stage.app.screen, ConfirmScreen))
            assert path.exists()
            await stage.press("d")
            await stage.see("[y/N]")
        await stage.press("escape")
        # It may have been opened before.
        await stage.press("enter")
        await stage.see("frames")
        await stage.press("escape", "d")
        await stage.see("[y/N]")
        paths.remove(path)
        await stage.press("y")
        await stage.see("deleted library/20261121T101502Z-4f2a")
        await stage.until(lambda: "library" not in stage.text().splitlines()[2])
        await stage.until(lambda: len(stage.app.capture_list.captures) == 1)
        await stage.see("other")

    play(act, find=lambda: list(paths), size=(100, 30))
    assert left(tmp_path / "captures") == [other.name]
    assert not [name for name in left(tmp_path / "cache") if name.endswith(".duckdb")]
    caches = [file_of(path), tally.file_of(path)]
    assert not [file for file in caches if file is not None and file.exists()]


def test_a_live_one_stays(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    made = CaptureFile(tmp_path / "x" / "live.mcpcap")
    for line in lines(conversation(2)):
        made.append(line)

    async def act(stage: Stage) -> None:
        await stage.see("● library")
        await stage.press("d")
        await stage.see("x/live cannot be deleted: it is still being recorded")

    play(act, tmp_path / "x" / "live.mcpcap", size=(120, 30))
    made.close()
    assert left(tmp_path / "x") == ["live.mcpcap"]


def test_an_error_is_shown_and_the_capture_stays_in_the_list(tmp_path: Path) -> None:
    path = captured(tmp_path)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("d")
        await stage.see("[y/N]")
        path.rename(path.with_suffix(".away"))
        path.mkdir()
        await stage.press("y")
        await stage.see("cannot delete library/20261121T101502Z-4f2a", "directory")
        await stage.see("library")

    play(act, path, size=(120, 30))


def test_an_empty_list_has_nothing_to_delete(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("d")
        await stage.see("nothing is selected")

    play(act)


def test_nothing_in_a_name_acts_on_the_terminal(tmp_path: Path) -> None:
    path = captured(tmp_path, "h\x1b]0;EVIL\x07")

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("d")
        await stage.see("\\x1b]0;EVIL\\x07", "[y/N]")
        assert not {"\x1b", "\x07"} & set(stage.text())

    play(act, path)
    assert os.path.exists(path)
