"""Cached output of a capture is returned unchanged until the capture or the cache file changes."""

import os
import random
import zlib
from pathlib import Path

import pytest

from analysis import output_cache
from analysis.cached import ClearedCache
from analysis.output_cache import OutputCache, Subject, clear_files, files_of
from captures.file import CaptureFile
from tests.captures.samples import every_type

MESSAGES = [
    b"",
    b"\xb7\x00",
    b'{"n":1}',
    *(bytes([n % 256]) * n for n in range(0, 70_000, 7000)),
    random.Random(1).randbytes(200_000),
]


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed capture, with its own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MCPPROXY_CACHE_SIZE", raising=False)
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(every_type()))
    return path


def file_of(path: Path) -> Path:
    """The cache file for the meaning of messages."""
    return next(file for file in files_of(path) if file.suffix == ".meaning")


def keep(path: Path, messages: list[bytes], about: Subject = "meaning") -> bool:
    telling = OutputCache(path, about, "by a test")
    for message in messages:
        telling.add(message)
    return telling.save()


def again(path: Path, about: Subject = "meaning", made_by: str = "by a test") -> list[bytes] | None:
    messages = OutputCache(path, about, made_by).cached()
    return None if messages is None else list(messages)


def test_all_messages_come_again_in_their_order(capture: Path) -> None:
    assert again(capture) is None
    for messages in (MESSAGES, [], [b"x"]):
        assert keep(capture, messages)
        assert again(capture) == messages
    assert again(capture, "findings") is None
    assert again(capture, made_by="by another test") is None
    assert keep(capture, MESSAGES, "findings")
    assert (again(capture), again(capture, "findings")) == ([b"x"], MESSAGES)
    assert [file.stat().st_mode & 0o777 for file in files_of(capture) if file.exists()] == [0o600] * 2


def test_a_file_that_is_cut_or_damaged_is_not_used(capture: Path) -> None:
    assert keep(capture, MESSAGES)
    file = file_of(capture)
    whole, rng = file.read_bytes(), random.Random(5)
    cuts = [
        whole[:length] for length in (0, 1, 15, 16, 17, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(20)))
    ]
    flips = []
    for _ in range(50):
        at = rng.randrange(len(whole))
        flips.append(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
    for spoilt in [*cuts, *flips, whole + b"\0", b"\0" * 1000]:
        file.write_bytes(spoilt)
        assert again(capture) is None, spoilt[:40]
    file.write_bytes(whole)
    assert again(capture) == MESSAGES
    file.chmod(0o666)
    assert again(capture) is None, "others can write to it"
    file.unlink()
    os.mkfifo(file)
    assert again(capture) is None
    end = os.open(file, os.O_RDWR)
    assert again(capture) is None, "a FIFO that somebody writes to"
    os.close(end)
    file.unlink()
    file.mkdir()
    assert (again(capture), keep(capture, MESSAGES)) == (None, False)


def test_what_was_forged_with_its_digest_is_an_error(capture: Path) -> None:
    telling, file = OutputCache(capture, "meaning", "by a test"), file_of(capture)
    assert keep(capture, MESSAGES)
    key = telling._key
    assert key is not None
    bomb = zlib.compress(b"\xff" * (output_cache.MAX_OUTPUT_BYTES + 1_000_000), 9)
    for packed in (b"", b"\0" * 100, zlib.compress(b"\5\0\0\0abc")[:-6], bomb):
        file.write_bytes(output_cache._digest(key, [packed]) + packed)
        with pytest.raises((ValueError, zlib.error)):
            again(capture)


def test_a_capture_that_changed_is_not_what_was_told_of(capture: Path) -> None:
    assert keep(capture, MESSAGES)
    content = capture.read_bytes()
    os.utime(capture, ns=(1, 1))
    assert again(capture) is None
    telling = OutputCache(capture, "meaning", "by a test")
    telling.add(b"x")
    capture.write_bytes(content + b"\n")
    assert not telling.save()
    assert again(capture) is None


def test_nothing_is_kept_of_a_capture_that_grows(capture: Path, tmp_path: Path) -> None:
    made = CaptureFile(tmp_path / "live.mcpcap")
    for line in every_type():
        made.append(line)
    assert not keep(tmp_path / "live.mcpcap", MESSAGES)
    assert again(tmp_path / "live.mcpcap") is None
    made.close()
    assert keep(tmp_path / "live.mcpcap", MESSAGES)


def test_files_are_bounded_and_cleared(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = random.Random(2).randbytes(50_000)
    paths = [tmp_path / f"{number}.mcpcap" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(capture.read_bytes())
        monkeypatch.setenv("MCPPROXY_CACHE_SIZE", "600K")
        assert keep(path, [noise])
        os.utime(file_of(path), ns=(number, number))
        if number == 2:
            assert again(paths[0]) == [noise], "it is used now"
    assert [again(path) is not None for path in paths] == [True, False, True, True]
    monkeypatch.setattr(output_cache, "MAX_OUTPUT_FILE_BYTES", 40_000)
    assert not keep(capture, [noise])
    assert again(paths[0]) is None, "larger than any of ours"
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(output_cache, "MAX_OUTPUT_BYTES", 100_000)
    assert not keep(capture, [bytes(60_000)] * 2)
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", "0")
    assert not keep(capture, [b"x"])
    assert again(paths[0]) is None
    left = file_of(capture).with_name(".making-left")
    left.write_bytes(b"by a process that was killed")
    freed = clear_files()
    assert not left.exists()
    assert (freed.deleted_files, freed.undeleted_files) == (3, 0)
    assert freed.deleted_bytes > 100_000
    assert clear_files() == ClearedCache(0, 0, 0)
