"""Names of new files: what is wrong with one, and which folders complete it."""

from pathlib import Path

import pytest

from mcpproxy.tui.copies.file_names import FileNameError, folder_completion, new_file_path


def test_a_name_is_a_new_file_in_a_folder_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there.md").touch()
    (tmp_path / "dangling.md").symlink_to(tmp_path / "nowhere")
    assert new_file_path(" ~/a.md ", [".md"]) == tmp_path / "a.md"
    assert new_file_path("a.MD", [".jsonl", ".md"]) == Path("a.MD")
    assert new_file_path("anything") == Path("anything")
    for name, problem in (
        ("there.md", "there.md exists"),
        ("dangling.md", "dangling.md exists"),
        ("no/a.md", "cannot write no/a.md: No such file"),
        ("there.md/a.md", "cannot write there.md/a.md: No such file"),
        ("a.txt", "the name must end in .jsonl or .md"),
        ("a", "the name must end in .jsonl or .md"),
        (".", "is a folder"),
        ("", "type a name"),
        ("x" * 5000 + ".md", "cannot write .*: File name too long"),
        ("~nobody-is-called-so/x.md", "cannot write"),
    ):
        with pytest.raises(FileNameError, match=problem):
            new_file_path(name, [".jsonl", ".md"])


def test_folders_complete_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("some", "somewhere", ".hidden", "evil\x1b"):
        (tmp_path / name).mkdir()
    (tmp_path / "somefile").touch()
    assert folder_completion("so") == ("so", ("some", ("some/", "somewhere/")))
    assert folder_completion("./somew") == ("somew", ("somewhere/", ()))
    assert folder_completion(".h") == (".h", (".hidden/", ()))
    assert folder_completion("evil") == ("evil", None)
    assert folder_completion("none/such/x") == ("x", None)
    assert folder_completion("a\0/x") == ("x", None)
