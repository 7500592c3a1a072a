"""The script of a closed capture is kept; whatever is in the file, the script is that of the capture."""

import fcntl
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from analysis import output_cache
from analysis.playback import script as scripts
from analysis.playback.matching import Matching
from analysis.playback.script import Script
from analysis.playback.script_cache import Mark, ScriptCache, StaleScriptError, load
from analysis.playback.script_table import ScriptTable
from captures.record import stderr_members
from tests.analysis.playback.recordings import Recording, closed_scripts, grown
from tests.captures.samples import in_pieces

__all__ = ["closed_scripts"]


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed capture with a bit of everything, and its own cache, which keeps small pieces."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MCPPROXY_CACHE_SIZE", raising=False)
    for name, value in (("MIN_CAPTURE_BYTES", 0), ("FIRST_CHUNK_ITEMS", 2), ("MAX_CHUNK_ITEMS", 3)):
        monkeypatch.setattr(scripts, name, value)
    made = Recording().handshake()
    for n in range(1, 4):
        made.call(n, arguments={"q": "größer"}, _meta={"progressToken": n})
        made.server(method="notifications/progress", params={"progressToken": n, "progress": 1})
        made.server(id=n, result={})
    made.raw("c2s", b'[{"jsonrpc":"2.0","id":8,"method":"ping"},{"jsonrpc":"2.0","id":9,"method":"ping"}]')
    made.raw("s2c", b'[{"jsonrpc":"2.0","id":9,"result":{}},{"jsonrpc":"2.0","id":8,"result":{}}]')
    made.raw("c2s", b'{"jsonrpc":"2.0","id":10,"method":"x\\ud800","params":{"name":"\\ud800"}}')
    for rec, middle in in_pieces("s2c", b'{"jsonrpc":"2.0","method":"x","params":{"a":"%b"}}' % (b"y" * 99), 40):
        made.add(rec, middle)
    made.add("stderr", stderr_members(b"warning"))
    return made.write(tmp_path)


def _keep(path: Path) -> Path:
    """Keep the script of a capture; return the file."""
    assert grown(path, step=1).save()
    (file,) = (file for file in output_cache.files_of(path) if file.exists())
    return file


def _content(script: Script) -> list[Any]:
    items = [*script.items]
    return [items, [script.raw(item) for item in items], [*map(script.answer_of, range(20))], script.ending]


def test_a_file_that_is_cut_or_damaged_changes_nothing(capture: Path) -> None:
    whole = _content(grown(capture))
    file = _keep(capture)
    content = file.read_bytes()
    assert _content(grown(capture)) == whole
    assert grown(capture).is_from_cache
    rng = random.Random(5)
    for size in range(0, len(content), 41):
        file.write_bytes(content[:size])
        assert _content(grown(capture)) == whole, size
    for _ in range(30):
        place = rng.randrange(len(content))
        file.write_bytes(content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :])
        script = grown(capture)
        assert _content(script) == whole, place
        assert not script.is_from_cache


def test_a_forged_piece_never_does_harm(capture: Path) -> None:
    _keep(capture)
    payloads = [*_with(ScriptCache(capture, Matching()).chunks, StopIteration, StaleScriptError)]
    rng = random.Random(7)
    accepted = 0
    for _ in range(600):
        forged = [bytearray(payload) for payload in payloads]
        for _ in range(rng.randrange(1, 4)):
            payload = rng.choice(forged)
            payload[rng.randrange(len(payload))] = rng.randrange(256)
        table = ScriptTable()
        with suppress(StaleScriptError):
            for payload in forged:
                load(bytes(payload), table)
            accepted += 1
        for item in table:
            table.items_of_call(item.call)
            table.requests(item.session, item.key)
            table.answer_of(item.call)
    assert accepted < 600


def _with(chunks: Callable[[], Any], *ends: type[BaseException]) -> list[bytes]:
    found, pieces = [], chunks()
    with suppress(*ends):
        while True:
            found.append(next(pieces))
    return found


def test_what_http_adds_is_kept_too(capture: Path) -> None:
    session = {"accept": "text/event-stream", "mcp_session_id": "hmac:0123456789abcdef"}
    made = Recording("http")
    for number in range(1, 9):
        made.http(number, **session)
        made.call(number, exchange=number)
        made.answer(number, 200 if number % 2 else 503, content_type="text/event-stream")
        if number % 2:
            made.server(number, f"e{number}", id=number, result={})
        made.end(number, response_text="" if number % 2 else "busy")
    made.http(9, "GET", **session)
    made.answer(9, 405, allow="POST")
    made.end(9)
    made.http(10**12, "DELETE", **session)
    made.answer(10**12)
    path = made.write(capture.parent, "http.mcpcap")
    read = grown(path, step=1)
    assert read.save()
    kept = grown(path)
    assert kept.is_from_cache
    assert _content(kept) == _content(read)
    assert kept.transport == read.transport == "http"
    for exchange in (*range(1, 11), 10**12):
        assert kept.http_answer(exchange) == read.http_answer(exchange), exchange
    for number in range(8):
        assert kept.is_over(number)
    assert [answer.exchange for answer in kept.http_answers_of(1)] == [9, 10**12]
    assert [*kept.http_answers_of(1)] == [*read.http_answers_of(1)]
    assert {item.event_id for item in kept.items} == {None, "e1", "e3", "e5", "e7"}


def test_another_capture_matching_or_growing_one_is_read(capture: Path) -> None:
    _keep(capture)
    assert grown(capture).is_from_cache
    assert not grown(capture, Matching("exact")).is_from_cache
    os.utime(capture, ns=(1, 1))
    assert not grown(capture).is_from_cache
    with capture.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        script = grown(capture)
        assert script.ending is not None
        assert script.ending.is_growing
        assert not script.is_from_cache
        assert not script.save()


def test_clearing_the_cache_deletes_it(capture: Path) -> None:
    file = _keep(capture)
    assert output_cache.clear_files().deleted_files == 1
    assert not file.exists()


def test_too_much_is_not_kept(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", "100")
    assert not grown(capture).save()
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", "0")
    assert not grown(capture).save()
    assert not grown(capture).is_from_cache


def test_marks_count_what_a_table_has() -> None:
    assert Mark.of(ScriptTable()) == Mark()
