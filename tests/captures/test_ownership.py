"""Captures go only to directories of the user or root that no other user can write to."""

import os
import pwd
from pathlib import Path

import pytest

from captures.errors import CannotCreate
from captures.file import choose_path
from captures.ownership import is_of_user, is_readable_by_others, refusal
from tests.captures.samples import STRANGER, give_to_strangers

NAME = "x.mcpcap"


def chosen(folder: Path, wanted: str) -> list[str]:
    """The warnings when a directory, or a file in it, is chosen for a capture."""
    said: list[str] = []
    choose_path(wanted or None, folder, 0, said.append)
    return said


class TestDirectory:
    """The directory of a capture."""

    @pytest.mark.parametrize("named", ["file", "directory", "default"])
    @pytest.mark.parametrize("mode", [0o722, 0o702, 0o720, 0o777, 0o770])
    def test_one_that_others_can_write_to_is_refused(self, tmp_path: Path, mode: int, named: str) -> None:
        give_to_strangers(tmp_path, mode)
        wanted = {"file": f"{tmp_path}/{NAME}", "directory": f"{tmp_path}/", "default": ""}[named]
        with pytest.raises(CannotCreate) as refused:
            chosen(tmp_path, wanted)
        assert f"it is writable by others (mode {mode:o}); choose a directory that only you" in str(refused.value)

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
    def test_one_of_another_user_is_refused(self, tmp_path: Path) -> None:
        os.chown(tmp_path, pwd.getpwnam("nobody").pw_uid, -1)
        with pytest.raises(CannotCreate, match=f"cannot record into {tmp_path}: it belongs to nobody;"):
            chosen(tmp_path, f"{tmp_path}/{NAME}")

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
    def test_a_link_counts_as_its_target(self, tmp_path: Path) -> None:
        for name, owner in (("own", -1), ("foreign", STRANGER)):
            (tmp_path / name).mkdir(mode=0o700)
            os.chown(tmp_path / name, owner, -1)
            (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
        assert chosen(tmp_path, f"{tmp_path}/to-own/") == []
        with pytest.raises(CannotCreate, match=f"it belongs to user {STRANGER}"):
            chosen(tmp_path, f"{tmp_path}/to-foreign/")

    @pytest.mark.parametrize("mode", [0o755, 0o704, 0o744])
    def test_one_that_others_can_read_is_told(self, tmp_path: Path, mode: int) -> None:
        give_to_strangers(tmp_path, mode)
        warning = (
            f"others can list the captures in {tmp_path}, but not read them; to prevent that: chmod 700 {tmp_path}"
        )
        assert chosen(tmp_path, "") == [warning]
        assert chosen(Path("x"), str(tmp_path)) == [warning]

    def test_the_mode_of_a_file_protects_it_in_a_directory_for_all_sorts_of_things(self, tmp_path: Path) -> None:
        give_to_strangers(tmp_path, 0o755)
        assert chosen(tmp_path, f"{tmp_path}/{NAME}") == []

    def test_one_where_everybody_keeps_what_is_theirs_is_fine(self, tmp_path: Path) -> None:
        give_to_strangers(tmp_path, 0o1777)
        assert chosen(tmp_path, f"{tmp_path}/{NAME}") == []
        assert chosen(tmp_path, f"{tmp_path}/") == []

    def test_a_private_one_is_fine(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        assert chosen(tmp_path, "") == []


@pytest.mark.parametrize(("mode", "is_fine"), [(0o777, False), (0o702, False), (0o1777, True), (0o775, True)])
def test_a_directory_that_everyone_can_replace_is_refused(tmp_path: Path, mode: int, *, is_fine: bool) -> None:
    folder = tmp_path / "above" / "one" / "two"
    folder.mkdir(parents=True, mode=0o700)
    (tmp_path / "above").chmod(mode)
    folder.chmod(0o700)
    if is_fine:
        assert chosen(folder, "") == []
        return
    with pytest.raises(CannotCreate, match=f"cannot record into {folder}: {tmp_path}/above is writable by everyone"):
        chosen(folder, "")


class TestGroup:
    """A group whose only member is the user counts as the user."""

    @pytest.mark.parametrize("mode", [0o770, 0o740, 0o775 & ~0o005])
    def test_what_a_group_of_ones_own_may_do_is_no_matter(self, tmp_path: Path, mode: int) -> None:
        user = pwd.getpwuid(os.getuid())
        tmp_path.chmod(mode)
        is_private = user.pw_gid == tmp_path.stat().st_gid and _is_alone(user)
        if not is_private:
            pytest.skip("this user shares the group that files get")
        assert refusal(tmp_path.stat()) is None
        assert not is_readable_by_others(tmp_path.stat())


def _is_alone(user: pwd.struct_passwd) -> bool:
    import grp

    group = grp.getgrgid(user.pw_gid)
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def test_root_is_a_friend() -> None:
    assert is_of_user(os.stat("/"))
