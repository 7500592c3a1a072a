"""A file is replaced completely or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.clients.replace import FileChanged, NotWritable, replace_content, write_private
from mcpproxy.clients.state import lock_state, state_folder
from tests.harness import DEADLINE_S

KILLED = """
import os, signal, sys
from pathlib import Path
from mcpproxy.clients.replace import replace
home, steps = sys.argv[1], int(sys.argv[2])
def count(event, arguments):
    global steps
    if event in ("open", "os.rename", "os.remove", "os.chmod", "os.chown", "os.listdir", "os.listxattr") and any(
        home in str(word) for word in arguments
    ):
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
replace(Path(home, "config.json"), b"old", b"new")
"""


def test_a_kill_between_any_two_steps_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    outcomes = []
    for steps in range(30):
        home = tmp_path / str(steps)
        home.mkdir()
        path = home / "config.json"
        path.write_bytes(b"old")
        code = subprocess.run([sys.executable, "-c", KILLED, str(home), str(steps)], timeout=DEADLINE_S).returncode
        outcomes.append((code, path.read_bytes()))
        if code == 0:
            break
    assert outcomes[-1] == (0, b"new")
    assert {code for code, _ in outcomes[:-1]} == {-9}
    assert {content for _, content in outcomes} == {b"old", b"new"}
    assert len(outcomes) > 4


def test_mode_link_and_place_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles/real.json", tmp_path / "config.json"
    real.parent.mkdir()
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    replace_content(link, b"old", b"new")
    assert (link.readlink(), real.read_bytes(), real.stat().st_mode & 0o777) == (real, b"new", 0o640)
    assert [path.name for path in real.parent.iterdir()] == ["real.json"]


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system has no extended attributes in Python")
def test_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.mine", b"1")
    except OSError as error:
        pytest.skip(f"this file system takes no attributes: {error.strerror}")
    replace_content(path, b"old", b"new")
    assert os.getxattr(path, "user.mine") == b"1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"old")
    os.chown(path, 12345, 12346)
    replace_content(path, b"old", b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_what_was_left_by_a_kill_goes_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"old")
    (tmp_path / ".config.json.0123abcd.mcpproxy").write_bytes(b"half")
    (tmp_path / ".config.json.mine").write_bytes(b"theirs")
    replace_content(path, b"old", b"new")
    assert sorted(one.name for one in tmp_path.iterdir()) == [".config.json.mine", "config.json"]


def test_a_file_that_changed_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"newer")
    with pytest.raises(FileChanged):
        replace_content(path, b"old", b"new")
    assert path.read_bytes() == b"newer"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("spoil", ["read-only", "hard links", "gone"])
def test_what_cannot_be_replaced_stays_and_says_why(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"old")
    if spoil == "read-only":
        path.chmod(0o444)
    elif spoil == "hard links":
        os.link(path, tmp_path / "other")
    else:
        path.unlink()
    with pytest.raises(NotWritable, match={"gone": "No such file"}.get(spoil, spoil)):
        replace_content(path, b"old", b"new")
    assert not path.exists() or path.read_bytes() == b"old"


def test_files_of_ours_are_private(tmp_path: Path) -> None:
    path = tmp_path / "a/b/state.json"
    write_private(path, b"1")
    write_private(path, b"2")
    assert (path.read_bytes(), path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (b"2", 0o600, 0o700)


def test_what_a_kill_left_in_our_folder_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    folder = state_folder()
    (folder / "backups").mkdir(parents=True)
    left = [folder / ".install.json.0123abcd", folder / "backups/.20261124T112807Z-x-98b4-mcp.json.0123abcd"]
    kept = folder / "backups/20261124T112807Z-x-98b4-mcp.json"
    for path in (*left, kept):
        path.write_text("x")
    with lock_state():
        assert not any(path.exists() for path in left)
    assert kept.exists()
