"""What every file of the repository has, regardless of its kind."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BINARY = {".png", ".gif", ".mcpcap", ".duckdb"}


def tracked() -> list[Path]:
    """The tracked files of the repository; skips the test if this tree is not a repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is no git repository")
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_every_text_file_ends_with_a_newline() -> None:
    wrong = []
    for path in tracked():
        data = path.read_bytes()
        if path.suffix not in BINARY and b"\0" not in data and data and not data.endswith(b"\n"):
            wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []
