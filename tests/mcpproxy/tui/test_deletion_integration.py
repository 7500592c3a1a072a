"""Deleting a capture: after a question, as a whole or with an error, and never a live one."""

from pathlib import Path

from analysis import output_cache, tally
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
        *output_cache.files_of(path),
        sql / f"{cache_files.owner_of(path, id_)}-{'0' * 32}.duckdb",
    ]:
        assert file is not None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return path


def left(*folders: Path) -> list[str]:
    """The names of all files below the folders."""
    return sorted(path.name for folder in folders for path in folder.rglob("*") if path.is_file())


def test_all_of_it_goes_once_the_user_says_so_or_stays_with_a_reason(tmp_path: Path) -> None:
    place = tmp_path / "captures"
    path, other = segmented(place), captured(place, "other", stamp="20261121T101501Z-4f2a")
    evil, held = captured(place, "h\x1b]0;EVIL\x07"), captured(place, "held")
    live = place / "x" / "live.mcpcap"
    live.parent.mkdir()
    made = CaptureFile(live)
    for line in lines(conversation(2, "living")):
        made.append(line)
    paths = [path, other, evil, held, live]

    async def asked(stage: Stage, folder: str) -> None:
        await stage.choose(folder)
        await stage.press("d")
        await stage.see("[y/N]")

    async def act(stage: Stage) -> None:
        await asked(stage, "library")
        await stage.see("Delete library/20261121T101502Z-4f2a? [y/N]", "2 files", "cached", "marks", str(path)[:40])
        for key in ("n", "enter", "escape", "Y"):
            await stage.press(key)
            await stage.until(lambda: not isinstance(stage.app.screen, ConfirmScreen))
            assert path.exists(), key
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
        await stage.until(lambda: not any("library" in line for line in stage.text().splitlines()[2:8]))
        await stage.until(lambda: len(stage.app.capture_list.captures) == 4)
        await stage.see("other")
        await stage.choose("x")
        await stage.press("d")
        await stage.see("x/live cannot be deleted: it is still being recorded")
        # Nothing in a name acts on the terminal.
        await asked(stage, evil.parent.name)
        await stage.see("\\x1b]0;EVIL\\x07")
        assert not {"\x1b", "\x07"} & set(stage.text())
        await stage.press("escape")
        # An error is shown, and the capture stays in the list.
        await asked(stage, "held")
        held.rename(held.with_suffix(".away"))
        held.mkdir()
        await stage.press("y")
        await stage.see("cannot delete held/20261121T101502Z-4f2a", "directory")
        await stage.see("○ held")

    play(act, find=lambda: list(paths), size=(120, 30))
    made.close()
    assert left(place) == sorted([other.name, evil.name, "live.mcpcap", held.with_suffix(".away").name])
    assert left(path.parent) == []
    assert not [name for name in left(tmp_path / "cache") if name.endswith(".duckdb")]
    caches = [file_of(path), tally.file_of(path), *output_cache.files_of(path)]
    assert not [file for file in caches if file is not None and file.exists()]
