"""Leftovers of killed processes are removed; files that are in use, young or not mcpproxy's stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from captures.stale_files import lock_temporary, remove_stale

HOLDS = (
    "import sys; from captures.stale_files import lock_temporary; lock_temporary(sys.argv[1]); "
    "print(flush=True); sys.stdin.read()"
)


def old(path: Path) -> Path:
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


def test_only_what_a_killed_process_has_left_goes(tmp_path: Path) -> None:
    folder, file, other = tmp_path / "p-folder", tmp_path / "p-file", tmp_path / "q-file"
    folder.mkdir()
    (folder / "traffic").write_text("x")
    file.touch()
    old(folder)
    old(file)
    other.touch()
    old(other)
    (tmp_path / "p-young").touch()
    (tmp_path / "p-link").symlink_to(other)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        remove_stale(tmp_path, "p-")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["p-folder", "p-link", "p-young", "q-file"]
        assert (folder / "traffic").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    remove_stale(tmp_path, "p-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p-link", "p-young", "q-file"]


def test_what_is_claimed_here_stays(tmp_path: Path) -> None:
    file = tmp_path / "p-file"
    file.touch()
    lock = lock_temporary(old(file))
    remove_stale(tmp_path, "p-")
    assert file.exists()
    os.close(lock)
    remove_stale(tmp_path, "p-")
    assert not file.exists()
