"""A copy of the program with a made-up revision, which edits of the tables add, and nothing else.

    python -m tests.analysis.made_up_revision

prints these edits as a diff.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "tests" / "corpus" / "revisions"
VERSION: Final = "2027-01-15"
BEFORE: Final = "2026-07-28"
"""The revision that it changes."""
TABLES: Final = ("analysis/protocol/", "analysis/shapes/revision_changes.py")
"""The tables that say what a revision has; of a folder, all."""


class Edit(NamedTuple):
    """One edit of a table."""

    file: str
    old: str
    new: str


def edits() -> list[Edit]:
    """The edits that add the revision."""
    document = tomllib.loads((FOLDER / f"{VERSION}.toml").read_text())
    return [Edit(edit["file"], edit["old"], edit["new"].strip("\n")) for edit in document["edits"]]


def edited_files() -> dict[str, str]:
    """The texts of the tables with the revision, by file."""
    texts: dict[str, str] = {}
    for edit in edits():
        text = texts.get(edit.file) or (ROOT / edit.file).read_text()
        assert text.count(edit.old) == 1, f"{edit.file} has {edit.old!r} {text.count(edit.old)} times"
        texts[edit.file] = text.replace(edit.old, edit.new + "\n" * edit.old.endswith("\n"))
    return texts


def diff() -> str:
    """What the revision changes, as a unified diff."""
    lines: list[str] = []
    for file, text in sorted(edited_files().items()):
        before = (ROOT / file).read_text().splitlines(keepends=True)
        lines += unified_diff(before, text.splitlines(keepends=True), f"a/{file}", f"b/{file}", n=1)
    return "".join(lines)


def copy_with_the_revision(folder: Path) -> None:
    """Make a folder in which `analysis` has the revision, and everything else is the same."""
    copytree(ROOT / "analysis", folder / "analysis", ignore=ignore_patterns("__pycache__"))
    for package in ("captures", "mcpproxy", "tests"):
        (folder / package).symlink_to(ROOT / package)
    for file, text in edited_files().items():
        (folder / file).write_text(text)


def judged_in(folder: Path, groups: Iterable[str]) -> dict[str, Any]:
    """The mistakes of a process in such a folder: in cases of the revision, in the corpus, and in the corpus as of it.

    Args:
        folder: the copy.
        groups: the names of the files of the corpus that are judged.
    """
    command = [sys.executable, "-m", "tests.analysis.made_up_revision", "judge", *groups]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    found: dict[str, Any] = json.loads(process.stdout)
    assert found["analysis"] == str(folder / "analysis" / "__init__.py"), "it judged with another copy"
    return found


def _judge(groups: list[str]) -> None:
    """Write what `judged_in` returns, in a process that runs in the copy."""
    import analysis
    from mcpproxy.importers.case import Case
    from mcpproxy.importers.forms.trace import cases
    from tests.analysis.test_corpus_integration import mistakes
    from tests.analysis.traces import by_name, read

    def mistakes_in(judged: Iterable[Case]) -> dict[str, str]:
        return {case.name: text for case in judged if (text := mistakes(case))}

    old = [case for group in groups for case in by_name()[group]]
    lines = [json.dumps(case.members) for case in old if case.members.get("version") == BEFORE]
    moved = [case for case in cases(line.replace(BEFORE, VERSION).encode() for line in lines) if isinstance(case, Case)]
    answer = {
        "analysis": analysis.__file__,
        "counts": {"old": len(old), "moved": len(moved)},
        "made up": mistakes_in(read(FOLDER / f"{VERSION}.ndjson")),
        "old": mistakes_in(old),
        "moved": mistakes_in(moved),
    }
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    if sys.argv[1:2] == ["judge"]:
        _judge(sys.argv[2:])
    else:
        sys.stdout.write(diff())
