"""What a filter selects in a whole capture, depending on how requests ended, in bounded memory."""

from pathlib import Path

import pytest

from analysis import selection
from analysis.filter import parse
from analysis.reading import Reading
from tests.captures.samples import frame, header, lines

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'


def test_of_requests_that_wait_only_the_last_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_OPEN_REQUESTS", 3)
    path = tmp_path / "a.mcpcap"
    asked = [("frame", frame("c2s", CALL % number)) for number in range(1, 6)]
    path.write_bytes(b"".join(lines([("header", header()), *asked])))
    reading = Reading(path)
    made = selection._Selection(parse("has:waiting"))
    for step in reading.to_end("open"):
        made.on_step(step)
        assert len(made._open_requests) <= 3
    assert made.selected_keys == {(number, None) for number in (3, 4, 5)}
