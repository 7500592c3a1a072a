"""Exports from the screens: the extension decides the format; a process writes, and nothing waits for it."""

import json
import os
from pathlib import Path

import pytest

from mcpproxy.tui.copies.running_exports import DocumentExport
from mcpproxy.tui.screens.file_prompt import FilePrompt
from tests.harness import ROOT, children, wait_until
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.tui.stage import Stage, captured, play

HTTP = ROOT / "tests/corpus/captures/http.mcpcap"


async def export(stage: Stage, name: str) -> None:
    """Type a name over the one that is suggested."""
    await stage.press("e")
    await stage.until(lambda: isinstance(stage.app.screen, FilePrompt))
    await stage.press("ctrl+u", *name, "enter")


@pytest.mark.costly("two processes write, one of them with the database")
def test_a_capture_becomes_a_report_and_rows_become_markdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = captured(tmp_path)
    folder = tmp_path / "here"
    (folder / "some folder").mkdir(parents=True)
    (folder / "some other").mkdir()
    monkeypatch.chdir(folder)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("e")
        await stage.see("export the whole capture to", "library-20261121T101502Z-4f2a.html")
        assert ".har" not in stage.text(), "this capture has no HTTP exchanges"
        await stage.press("enter")
        await stage.see("exported 16 frames,", "library-20261121T101502Z-4f2a.html")
        await stage.open("library")
        await stage.press("slash", *"kind:error", "enter")
        await stage.see("2 of 16 frames")
        await export(stage, "errors.md")
        await stage.see("exported 2 messages, ", "characters", "to errors.md")
        await stage.press("e", "ctrl+u")
        await stage.see("export 2 rows to")
        await stage.press(*"x.html")
        await stage.see("export the whole capture to")
        await stage.press("escape")
        await export(stage, "all.jsonl")
        await stage.see("exported 2 rows to all.jsonl")
        # Marked rows are offered, wherever they are.
        await stage.press("escape")
        await stage.until(lambda: len(stage.traffic.table.rows) > 2)
        await stage.press("g", "m", "down", "down", "m")
        await stage.until(lambda: stage.text().count("◆") == 2)
        await stage.press("e")
        await stage.see("Ctrl+T: 2 marked rows instead")
        await stage.press("ctrl+t")
        await stage.see("export 2 marked rows to", "library-20261121T101502Z-4f2a-marked.jsonl")
        await stage.press("enter")
        await stage.see("exported 2 rows to", "4f2a-marked.jsonl")
        # Tab completes folders, and the suggested name can be replaced at once.
        await stage.press("e", "ctrl+u", *"so", "tab")
        await stage.see("some folder/  some other/")
        await stage.press("f", "tab", *"x.jsonl", "enter")
        await stage.see("folder/x.jsonl")
        await stage.press("e", *"mine", "enter")
        await stage.see("exported", "to mine.jsonl")

    play(act, path)
    made = {str(found.relative_to(folder)) for found in folder.rglob("*") if found.is_file()}
    marked = "library-20261121T101502Z-4f2a-marked.jsonl"
    assert made == {
        *("library-20261121T101502Z-4f2a.html", "errors.md", "all.jsonl", marked, "some folder/x.jsonl", "mine.jsonl")
    }
    assert all((folder / name).stat().st_mode & 0o777 == 0o600 for name in made)
    assert [json.loads(line)["seq"] for line in (folder / marked).read_text().splitlines()] == [1, 3]
    assert (folder / "library-20261121T101502Z-4f2a.html").read_text().startswith("<!doctype html>")
    exported = mcpproxy("export", "--filter", "kind:error", "-o", "typed.md", str(path))
    assert exported.returncode == 0
    assert (folder / "errors.md").read_text() == (folder / "typed.md").read_text()
    assert "only those that match kind:error" in (folder / "errors.md").read_text()
    assert "### Findings in the whole capture: " in (folder / "errors.md").read_text()


def test_http_exchanges_are_exported_as_har_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    news: list[str] = []

    def document(format_: str, target: Path, frames: list[int] | None = None) -> DocumentExport:
        running = DocumentExport(HTTP, lambda: frames, format_, target, lambda: news.append(format_))
        wait_until(lambda: running.outcome or running.problem, format_)
        running.close()
        return running

    assert document("har", tmp_path / "a.har").outcome.startswith("2 entries, ")
    assert "log" in json.loads((tmp_path / "a.har").read_bytes())
    assert "exists" in document("har", tmp_path / "a.har").problem
    assert "no HTTP exchange matches" in document("har", tmp_path / "b.har", []).problem
    assert document("markdown", tmp_path / "none/b.md").problem == "No such file or directory"
    gone = DocumentExport(tmp_path / "gone.mcpcap", lambda: None, "markdown", tmp_path / "b.md", lambda: None)
    wait_until(lambda: gone.problem)
    gone.close()
    before = set(children(os.getpid()))
    closed = DocumentExport(HTTP, lambda: None, "html", tmp_path / "c.html", lambda: None)
    closed.close()
    news.clear()
    begun = DocumentExport(HTTP, lambda: None, "html", tmp_path / "d.html", lambda: news.append("html"))
    wait_until(lambda: news, "the name of the temporary file")
    begun.close()
    wait_until(lambda: set(children(os.getpid())) <= before, "the end of the process")
    assert {found.name for found in tmp_path.iterdir()} - {"d.html"} == {"a.har"}
