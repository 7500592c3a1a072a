"""The file of a capture: private, never shared with another capture, and only whole lines even if the disk fails."""

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import file as file_module
from captures.errors import CannotCreate
from captures.file import (
    FLOOR_CHECK_BYTES,
    RESERVE_BYTES,
    AppendError,
    CaptureFile,
    choose_path,
    create_directory,
    is_live,
)
from captures.listing import segments
from tests.captures.samples import Disk, Full, at

NAME = "x.mcpcap"
LINE = b'{"seq":0,"rec":"x_line","t_ns":0,"crc":"00000000"}\n'


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def failing(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, code: int, *calls: int) -> None:
    """Make a function fail with `code` at the given calls, counted from 1; at every call if none are given."""
    real, count = getattr(module, name), iter(range(1, 1 << 30))

    def call(*arguments: Any, **more: Any) -> Any:
        if next(count) in calls or not calls:
            raise OSError(code, os.strerror(code))
        return real(*arguments, **more)

    monkeypatch.setattr(module, name, call)


def obstacles() -> dict[str, Callable[[Path], None]]:
    """Creators of the objects that may exist where a capture is to be created."""
    return {
        "file": lambda path: path.write_bytes(b"precious"),
        "empty file": lambda path: path.touch(),
        "symlink": lambda path: (path.with_name("victim").write_bytes(b"precious"), path.symlink_to("victim"))[1],
        "dangling symlink": lambda path: path.symlink_to("nowhere"),
        "symlink to a device": lambda path: path.symlink_to("/dev/null"),
        "hard link": lambda path: (
            path.with_name("victim").write_bytes(b"precious"),
            path.hardlink_to(path.with_name("victim")),
        )[1],
        "fifo": lambda path: os.mkfifo(path),
        "directory": lambda path: path.mkdir(),
    }


def listing(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every entry of a folder, with its type, inode and content."""
    found = {}
    for path in folder.iterdir():
        info = path.lstat()
        found[path.name] = (info.st_mode, info.st_ino, path.read_bytes() if stat.S_ISREG(info.st_mode) else b"")
    return found


class TestCreation:
    """Nothing that exists is used, followed or overwritten, and a failure leaves nothing."""

    @pytest.mark.usefixtures("no_umask")
    def test_only_the_user_can_read_it(self, tmp_path: Path) -> None:
        folder = tmp_path / "a/b/c"
        create_directory(str(folder))
        CaptureFile(folder / NAME).close()
        assert [mode(path) for path in (tmp_path / "a", tmp_path / "a/b", folder)] == [0o700] * 3
        assert mode(folder / NAME) == 0o600
        assert mode(tmp_path / "a/b/.gitignore") == 0o600
        assert (tmp_path / "a/b/.gitignore").read_text() == "*\n"

    @pytest.mark.usefixtures("no_umask")
    def test_a_directory_that_exists_is_left_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir(mode=0o755)
        create_directory(str(tmp_path / "a"))
        assert (mode(tmp_path / "a"), list((tmp_path / "a").iterdir())) == (0o755, [])

    @pytest.mark.usefixtures("no_umask")
    def test_what_keeps_captures_out_of_git_is_completed_after_a_full_disk(self, tmp_path: Path) -> None:
        """Recorders create it in the captures folder and the one above; a full disk may have left either one empty."""
        for ignore in (tmp_path / "a/.gitignore", tmp_path / "b/c/.gitignore"):
            folder = ignore.parent if ignore.parent.name == "c" else tmp_path / "a/server"
            folder.mkdir(parents=True)
            ignore.touch(0o600)
            create_directory(str(folder))
            assert (ignore.read_text(), mode(ignore)) == ("*\n", 0o600)

    @pytest.mark.usefixtures("no_umask")
    def test_what_a_user_keeps_out_of_git_stays_as_it_is(self, tmp_path: Path) -> None:
        def given(name: str, text: str = "", bits: int = 0o600) -> Path:
            ignore = tmp_path / name / ".gitignore"
            (ignore.parent / "captures").mkdir(parents=True)
            ignore.touch(bits)
            ignore.write_text(text)
            return ignore

        written, readable, fifo, link = (
            given("written", "*.log\n"),
            given("readable", bits=0o644),
            given("fifo"),
            given("link"),
        )
        fifo.unlink()
        os.mkfifo(fifo, 0o600)
        link.unlink()
        (tmp_path / "target").touch(0o600)
        link.symlink_to(tmp_path / "target")
        repository, notes = given("repository"), given("notes")
        (repository.parent / ".git").mkdir()
        (notes.parent / "notes.txt").touch()
        before = {path.parent.name: listing(path.parent) for path in (written, readable, link, repository, notes)}
        for name in ("written", "readable", "fifo", "link", "repository", "notes"):
            create_directory(str(tmp_path / name / "captures"))
        assert {name: listing(tmp_path / name) for name in before} == before
        assert (tmp_path / "target").read_text() == ""

    @pytest.mark.parametrize("obstacle", obstacles())
    def test_an_existing_file_is_left_unchanged(self, tmp_path: Path, obstacle: str) -> None:
        obstacles()[obstacle](tmp_path / NAME)
        before = listing(tmp_path)
        with pytest.raises(CannotCreate, match="it already exists; choose another place"):
            CaptureFile(tmp_path / NAME)
        assert listing(tmp_path) == before

    def test_it_never_writes_through_a_link_that_is_set_meanwhile(self, tmp_path: Path) -> None:
        self.race(tmp_path, 300)

    @pytest.mark.soak
    def test_it_never_writes_through_a_link_however_often_one_is_set(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        made = self.race(tmp_path, 10_000)
        with capsys.disabled():
            print(f"\nattempts 10000, created {made}, overwrites 0")

    def race(self, folder: Path, attempts: int) -> int:
        victim, path, over = folder / "victim", folder / NAME, threading.Event()
        victim.write_bytes(b"precious")

        def link() -> None:
            while not over.is_set():
                try:
                    os.symlink(victim, path)
                    os.unlink(path)
                except OSError:
                    continue

        linker = threading.Thread(target=link)
        linker.start()
        made = 0
        try:
            for _ in range(attempts):
                try:
                    made_file = CaptureFile(path)
                except CannotCreate:
                    continue
                made += 1
                made_file.append(LINE)
                made_file.close()
                path.unlink(missing_ok=True)
        finally:
            over.set()
            linker.join()
        assert victim.read_bytes() == b"precious"
        return made

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENAMETOOLONG])
    @pytest.mark.parametrize("call", [1, 2])
    def test_a_refused_open_says_why_and_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: int
    ) -> None:
        failing(monkeypatch, os, "open", code, call)
        with pytest.raises(CannotCreate, match=os.strerror(code)):
            CaptureFile(tmp_path / NAME)
        assert listing(tmp_path) == {}

    @pytest.mark.parametrize("plan", [at(1, errno.ENOSPC), at(1, -1), at(1, errno.EDQUOT)])
    def test_a_disk_without_room_for_the_reserve_leaves_nothing(self, tmp_path: Path, plan: Any) -> None:
        with pytest.raises(CannotCreate, match="cannot create the capture"):
            CaptureFile(tmp_path / NAME, write=Disk(plan))
        assert listing(tmp_path) == {}

    @pytest.mark.parametrize(("module", "name"), [(os, "fchmod"), (fcntl, "flock")])
    def test_a_file_that_cannot_be_made_private_or_locked_is_not_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
    ) -> None:
        failing(monkeypatch, module, name, errno.EPERM)
        with pytest.raises(CannotCreate):
            CaptureFile(tmp_path / NAME)
        assert listing(tmp_path) == {}

    def test_a_file_system_without_locks_will_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        failing(monkeypatch, fcntl, "flock", errno.ENOLCK)
        made = CaptureFile(tmp_path / NAME)
        made.append(LINE)
        made.close()
        assert (tmp_path / NAME).read_bytes() == LINE

    def test_one_of_many_that_want_the_same_path_gets_it(self, tmp_path: Path) -> None:
        made: list[CaptureFile] = []
        start = threading.Barrier(20)

        def create() -> None:
            start.wait()
            try:
                made.append(CaptureFile(tmp_path / NAME))
            except CannotCreate:
                return

        threads = [threading.Thread(target=create) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1
        made[0].close()


class TestPaths:
    """Where a new capture goes."""

    def test_a_new_file_or_a_directory(self, tmp_path: Path) -> None:
        assert choose_path(str(tmp_path / NAME), "", 0) == str(tmp_path / NAME)
        for wanted in (str(tmp_path), f"{tmp_path}/new/"):
            path = Path(choose_path(wanted, "", 1_795_000_000_000_000_000))
            assert path.parent == Path(wanted)
            assert path.name.startswith("20261118T")
            assert path.parent.is_dir()
        assert Path(choose_path(None, tmp_path / "files", 0)).parent == tmp_path / "files"

    @pytest.mark.parametrize("name", ["x", "x.json", "x.2.mcpcap", ".mcpcap", "x.mcpcap.gz", ""])
    def test_a_name_that_no_reader_would_find_is_refused(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "d").mkdir()
        wanted = str(tmp_path / "d" / name) if name else str(tmp_path / "d" / "." / "..") + "x"
        with pytest.raises(CannotCreate, match=r"name must end in .mcpcap"):
            choose_path(wanted, "", 0)

    def test_a_name_that_is_taken_is_not_chosen(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        chances = iter([b"\0\0", b"\0\0", b"\0\0", b"\0\1"])
        monkeypatch.setattr(os, "urandom", lambda _: next(chances))
        first = Path(choose_path(None, tmp_path, 0))
        first.touch()
        second = Path(choose_path(None, tmp_path, 0))
        assert (first.name, second.name) == ("19700101T000000Z-0000.mcpcap", "19700101T000000Z-0001.mcpcap")

    @pytest.mark.parametrize("left", ["x.2.mcpcap", "x.17.mcpcap"])
    def test_segments_of_an_earlier_capture_are_not_continued(self, tmp_path: Path, left: str) -> None:
        """The ring has deleted the first segments, so the name itself is free."""
        (tmp_path / left).write_bytes(b"precious")
        with pytest.raises(CannotCreate, match="earlier capture"):
            choose_path(str(tmp_path / NAME), Path(), 0)

    def test_a_place_where_no_directory_can_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(CannotCreate, match="cannot make the directory"):
            choose_path(None, tmp_path / "file/files", 0)


class TestAppending:
    """The file holds whole lines, and the writer knows which ones were written."""

    LINES = tuple(b'{"seq":%d,"rec":"x","t_ns":0,"crc":"00000000"}\n' % n for n in range(50))

    @given(
        st.lists(st.integers(1, 6), min_size=1, max_size=6),
        st.lists(st.sampled_from([None, -1, -7, -40, -90, -1000, errno.ENOSPC, errno.EIO]), max_size=40),
    )
    def test_whatever_each_write_takes(self, tmp_path_factory: Any, batches: list[int], plan: list[int | None]) -> None:
        folder = tmp_path_factory.mktemp("append")
        disk = Disk(lambda call: plan[call - 2] if 2 <= call < len(plan) + 2 else None)
        made = CaptureFile(folder / NAME, write=disk)
        lines, taken = list(self.LINES), b""
        for size in batches:
            data = b"".join(lines.pop(0) for _ in range(size))
            try:
                made.append(data)
                taken += data
            except AppendError as error:
                taken += data[: error.written]
            assert taken.endswith(b"\n") or not taken
            assert (folder / NAME).read_bytes() == taken
            assert made.size == len(taken)
        made.close()

    def test_a_torn_line_that_cannot_be_cut_away_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plans = iter([None, -30, errno.ENOSPC])
        made = CaptureFile(tmp_path / NAME, write=Disk(lambda _: next(plans, None)))
        failing(monkeypatch, os, "ftruncate", errno.EIO)
        with pytest.raises(AppendError) as caught:
            made.append(LINE)
        assert (caught.value.errno, caught.value.written, made.size) == (errno.ENOSPC, 0, 0)
        made.append(LINE)
        assert (tmp_path / NAME).read_bytes() == LINE[:-30] + LINE
        made.close()

    def test_a_disk_that_takes_nothing_is_full(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / NAME)
        made._write = lambda _fd, _data: 0
        with pytest.raises(AppendError) as caught:
            made.append(LINE)
        assert (caught.value.errno, caught.value.written) == (errno.ENOSPC, 0)
        made.close()

    def test_the_floor_of_free_space_is_respected(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = CaptureFile(tmp_path / NAME)
        free, shown = 0, list(os.fstatvfs(made.fd))
        # f_frsize 1, f_blocks a TiB, f_bavail what is free
        monkeypatch.setattr(os, "fstatvfs", lambda _: os.statvfs_result([shown[0], 1, 1 << 40, 0, free, *shown[5:]]))
        block = LINE * (FLOOR_CHECK_BYTES // len(LINE) + 1)
        made.append(block)
        for _ in range(3):
            with pytest.raises(AppendError) as caught:
                made.append(LINE)
            assert (caught.value.errno, caught.value.written) == (errno.ENOSPC, 0)
        made.append(LINE, last=True)
        free = 17 << 20
        made.append(block)
        made.append(block)
        made.close()

    def test_a_disk_that_does_not_tell_its_space_has_no_floor(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing(monkeypatch, os, "fstatvfs", errno.ENOSYS)
        made = CaptureFile(tmp_path / NAME)
        block = LINE * (FLOOR_CHECK_BYTES // len(LINE) + 1)
        for _ in range(3):
            made.append(block)
        made.close()


class TestReserve:
    """Space reserved for the last records on a full disk."""

    def test_it_has_no_name_and_takes_space_until_it_is_released(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / NAME)
        assert list(tmp_path.iterdir()) == [tmp_path / NAME]
        assert made._reserve is not None
        assert os.fstat(made._reserve).st_blocks * 512 >= RESERVE_BYTES
        assert made.release_reserve()
        assert not made.release_reserve()
        made.renew_reserve()
        assert made.release_reserve()
        made.close()

    def test_without_space_there_is_none_again(self, tmp_path: Path) -> None:
        full = Full()
        made = CaptureFile(tmp_path / NAME, write=Disk(full))
        made.release_reserve()
        full.full = True
        made.renew_reserve()
        assert not made.release_reserve()
        full.full = False
        made.renew_reserve()
        assert made.release_reserve()
        assert list(tmp_path.iterdir()) == [tmp_path / NAME]
        made.close()


class TestSegments:
    """Either the next segment begins, or the old one continues."""

    def open(self, folder: Path, **how: Any) -> CaptureFile:
        made = CaptureFile(folder / NAME, segment_bytes=100, ring_bytes=350, **how)
        made.append(LINE)
        return made

    def test_the_oldest_go_when_the_ring_is_full(self, tmp_path: Path) -> None:
        made = self.open(tmp_path)
        for _ in range(9):
            made.append(LINE)
            assert made.size >= made.check_size
            os.close(made.begin_next_segment(LINE))
            made.append(LINE)
            if made.size >= made.check_size:
                made.trim_ring()
            assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 350
        assert [path.name for path in segments(tmp_path / NAME)] == ["x.9.mcpcap", "x.10.mcpcap"]
        assert [mode(path) for path in tmp_path.iterdir()] == [0o600] * 2
        made.close()

    @pytest.mark.parametrize(
        ("module", "name"), [(os, "open"), (os, "fchmod"), (fcntl, "flock"), (file_module, "_lock")]
    )
    def test_a_refused_beginning_leaves_nothing_and_can_be_tried_again(
        self, tmp_path: Path, module: Any, name: str
    ) -> None:
        made = self.open(tmp_path)
        for code in (errno.ENOSPC, errno.EMFILE, errno.EACCES):
            with pytest.MonkeyPatch.context() as patch:
                failing(patch, module, name, code)
                with pytest.raises(OSError, match=os.strerror(code)):
                    made.begin_next_segment(LINE)
            assert list(listing(tmp_path)) == [NAME]
            assert made.segment == 1
        os.close(made.begin_next_segment(LINE))
        assert (made.segment, sorted(listing(tmp_path))) == (2, ["x.2.mcpcap", NAME])
        made.close()

    @pytest.mark.parametrize("plan", [errno.ENOSPC, -20])
    def test_a_refused_ending_leaves_whole_lines(self, tmp_path: Path, plan: int) -> None:
        plans = iter([None, None, plan, errno.EIO])
        made = self.open(tmp_path, write=Disk(lambda _: next(plans, None)))
        with pytest.raises(AppendError):
            made.begin_next_segment(LINE)
        assert {name: data for name, (_, _, data) in listing(tmp_path).items()} == {NAME: LINE}
        made.close()

    def test_a_file_of_that_name_is_not_overwritten(self, tmp_path: Path) -> None:
        made = self.open(tmp_path)
        (tmp_path / "x.2.mcpcap").write_bytes(b"precious")
        with pytest.raises(FileExistsError):
            made.begin_next_segment(LINE)
        assert (tmp_path / "x.2.mcpcap").read_bytes() == b"precious"
        assert (tmp_path / NAME).read_bytes() == LINE
        made.close()

    def test_a_segment_that_cannot_be_deleted_is_left(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = self.open(tmp_path)
        failing(monkeypatch, os, "unlink", errno.EACCES)
        for _ in range(9):
            made.append(LINE)
            os.close(made.begin_next_segment(LINE))
        assert made.segment == 10
        made.close()


class TestWatching:
    """External changes to the file."""

    def test_nothing(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / NAME)
        made.append(LINE)
        assert made.external_change() is None
        made.close()

    def test_it_is_removed_replaced_or_truncated(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / NAME)
        made.append(LINE)
        os.truncate(tmp_path / NAME, 10)
        assert made.external_change() == "truncated"
        made.append(LINE)
        assert (tmp_path / NAME).read_bytes() == LINE[:10] + LINE
        (tmp_path / NAME).rename(tmp_path / "elsewhere")
        assert made.external_change() in ("removed", "truncated")
        made.close()
        made = CaptureFile(tmp_path / NAME)
        (tmp_path / NAME).unlink()
        assert made.external_change() == "removed"
        (tmp_path / NAME).touch()
        assert made.external_change() == "replaced"
        made.close()

    def test_it_is_live_while_somebody_has_it_open_for_writing(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / NAME)
        assert is_live(tmp_path / NAME)
        made.close()
        assert not is_live(tmp_path / NAME)

    def test_what_is_no_file_is_not_live(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "link").symlink_to("/dev/null")
        for path in (tmp_path, tmp_path / "none", tmp_path / "fifo", tmp_path / "link"):
            assert not is_live(path)
