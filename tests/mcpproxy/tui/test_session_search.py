"""A search over whole captures counts the rows that the filter for the text selects in the traffic."""

from pathlib import Path

import pytest

from analysis.filter import parse
from analysis.filter.text_search import TextSearch
from captures.errors import CaptureError
from captures.record import frame_members, members, part_members
from captures.verdict import UNJUDGED
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.data.session_search import count_messages, text_term
from tests.analysis.traces import corpus
from tests.mcpproxy.tui.in_process_reading import InProcessReading
from tests.mcpproxy.tui.stage import END, conversation, frame_record, record
from tests.mcpproxy.tui.test_reading import TALK

TEXTS = ("found", "FOUND", "Found", "id", '"jsonrpc"', "é", "{", "tools/call", "\\", "no such page", "zebra", "1")


def counted(path: Path, text: str) -> int:
    """How many messages of a capture contain a text."""
    return count_messages(path, TextSearch(text, is_literal=False), lambda _: None).count


def listed(reading: InProcessReading, text: str) -> int:
    """How many rows the filter for a text selects."""
    scan = Scan(reading, parse(text_term(text)))
    while not scan.has_ended:
        scan.step()
    scan.close()
    return len(scan.rows)


def agree(path: Path) -> None:
    """Compare the counts of the search and of the traffic."""
    reading = InProcessReading(path)
    while not reading.has_ended:
        reading.step()
    for text in TEXTS:
        assert counted(path, text) == listed(reading, text), (path.name, text)
    reading.close()


def test_it_counts_what_the_traffic_lists(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", TALK)
    agree(path)
    assert counted(path, "found") > counted(path, "Found") == 0


def test_it_counts_what_the_traffic_lists_after_damage_and_in_giant_frames(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", [*conversation(9), END])
    data = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*data[:6], b"found\xff", *data[6:9], b'{"seq":found}\n', *data[9:], b'{"seq":9,"fou']))
    agree(path)
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"a":"fo' + b"und" + b'"}}'
    giant = [("part", part_members("s2c", number, piece)) for number, piece in enumerate((raw[:41], raw[41:]), 1)]
    end = ("frame", frame_members("s2c", b"", UNJUDGED, parts=(2, len(raw))))
    agree(record(tmp_path / "giant.mcpcap", [*conversation(3), *giant, end, END]))


def test_it_counts_what_the_traffic_lists_in_the_corpus(tmp_path: Path) -> None:
    for number, (_, case) in list(enumerate(corpus()))[::23]:
        path = tmp_path / f"{number}.mcpcap"
        path.write_bytes(b"".join(line for _, line in case.records()))
        agree(path)


def test_it_finds_what_peers_and_recorders_escape(tmp_path: Path) -> None:
    escaped = b'{"jsonrpc":"2.0","method":"caf\\u00e9","params":{"a":"x\\/y","b":"\\ud83d\\ude00","c":"a\\"b"}}'
    path = record(tmp_path / "x.mcpcap", [*conversation(1), frame_record("c2s", escaped), END])
    for text in ("é", "café", "x/y", "😀", 'a"b', "CAFé"[:3].lower()):
        assert counted(path, text) == 1, text
    assert counted(path, "É") == 0
    agree(path)


@pytest.mark.parametrize("text", ['a b"c\\d', "!x", "a:b", ">=", "(", "and", "é", "-", "😀 x"])
def test_every_text_is_a_term(text: str) -> None:
    expression = parse(text_term(text))
    [search] = expression.texts
    assert search.text == text


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"found")
    with pytest.raises(CaptureError):
        counted(path, "found")
    path.unlink()
    with pytest.raises(CaptureError):
        counted(path, "found")


def test_lines_that_are_no_messages_do_not_count(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", [*conversation(1), ("signal", members(name="found")), END])
    assert counted(path, "found") == 1
