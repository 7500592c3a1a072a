"""Cache files are read only if they are regular files that no other user can write to."""

import os
from pathlib import Path

from analysis.cached import read_bytes


def test_only_regular_files_of_this_user_are_read(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert read_bytes(file, 10) is None
    file.write_bytes(b"0123456789")
    assert read_bytes(file, 4) == b"0123"
    file.chmod(0o666)
    assert read_bytes(file, 4) is None
    file.unlink()
    os.mkfifo(file)
    assert read_bytes(file, 4) is None
    writer = os.open(file, os.O_RDWR)
    assert read_bytes(file, 4) is None
    os.close(writer)
    assert read_bytes(tmp_path, 4) is None
