"""The records of `install`: which copy counts, and what a single copy does not know."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.listeners import Listener, NotRoutable, server_url, split_origin
from mcpproxy.clients.state import InstallState

FAR = {"name": "far", "port": 16001, "upstream": "https://far.example", "users": ["[]"]}
NEAR = {"name": "near", "port": 16002, "upstream": "https://near.example", "users": ["[]"]}
WRITTEN = {"base": "b", "backup": "x", "after": ["a"], "routed": []}


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    for folder in ("state", "config"):
        (tmp_path / folder).mkdir()
    return tmp_path / "state/install.json", tmp_path / "config/install.json"


def store(path: Path, serial: Any = 1, listeners: Any = (), files: Any = None) -> None:
    path.write_text(json.dumps({"version": 1, "serial": serial, "files": files or {}, "listeners": listeners}))


def read(copies: tuple[Path, Path]) -> InstallState:
    return InstallState(copies[0].parent, copies[1].parent)


def names(state: InstallState) -> list[str]:
    return [listener.name for listener in state.listeners]


def test_the_copy_that_was_written_last_counts(copies: tuple[Path, Path]) -> None:
    for newer, older in (copies, copies[::-1]):
        store(newer, 2, [FAR])
        for serial in (1, 0, None, -1, "3", True, 1 << 80):
            store(older, serial, [NEAR])
            assert (names(read(copies)), read(copies).is_complete) == (["far"], True), serial


def test_a_copy_that_could_not_be_written_is_the_older_one(copies: tuple[Path, Path]) -> None:
    for full in copies:
        state = read(copies)
        state.listeners = [Listener("first", 16003, "https://x.example", users=["[]"])]
        state.save()
        kept = full.read_bytes()
        full.unlink()
        full.mkdir()  # no file can replace a folder
        state.listeners[0].name = "second"
        state.save()
        full.rmdir()
        full.write_bytes(kept)
        assert names(read(copies)) == ["second"]


def test_a_clock_that_was_put_back_makes_no_copy_older(copies: tuple[Path, Path]) -> None:
    ahead = time.time_ns() + 10**18
    for path in copies:
        store(path, ahead, [FAR])
    read(copies).save()
    assert json.loads(copies[0].read_text())["serial"] == ahead + 1


def test_what_the_newer_copy_cannot_tell_comes_from_the_older_one(copies: tuple[Path, Path]) -> None:
    store(copies[0], 2, [NEAR, {**FAR, "port": "16001"}], {"/a": 1, "/b": WRITTEN})
    store(copies[1], 1, [FAR, {**NEAR, "name": "older"}], {"/a": WRITTEN})
    state = read(copies)
    assert (names(state), sorted(state.files), state.is_complete) == (["near", "far"], ["/a", "/b"], False)


def test_of_two_equal_copies_the_whole_one_counts(copies: tuple[Path, Path]) -> None:
    for whole, odd in (copies, copies[::-1]):
        store(whole, 1, [FAR])
        store(odd, 1, [FAR, None])
        assert (names(read(copies)), read(copies).is_complete) == (["far"], True)


def test_more_listeners_than_there_are_ports_are_not_read(copies: tuple[Path, Path]) -> None:
    store(copies[0], 1, [1] * 1_000_000)
    began_s = time.process_time()
    assert not read(copies).is_complete
    assert time.process_time() - began_s < 5


def test_what_we_have_not_written_is_not_restored_by_guess() -> None:
    listener = Listener("far", 16001, "https://far.example")
    assert server_url(listener, "http://127.0.0.1:16001/mcp?k=1") == "https://far.example/mcp?k=1"
    for url in ("http://u:p@127.0.0.1:16001/mcp", "http://${U}@127.0.0.1:16001/", "http://127.0.0.1:16\t001/"):
        with pytest.raises(NotRoutable, match=r"; write https://far\.example in place of http://127\.0\.0\.1:16001$"):
            server_url(listener, url)
    with pytest.raises(NotRoutable, match="malformed"):
        split_origin("http://\ud800x/mcp")
