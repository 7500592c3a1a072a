"""Raw streams: which bytes are on which page, for streams of any size; a search finds them on all pages."""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mcpproxy.tui.data.raw_stream import PAGE_BYTES, RawStream
from mcpproxy.tui.details.stream_page import StreamPage
from mcpproxy.wording.cells import cells
from tests.captures.samples import header, in_pieces
from tests.harness import ROOT
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import captured, frame_record, record

HTTP = ROOT / "tests/corpus/captures/http.mcpcap"


@contextmanager
def read(path: Path) -> Iterator[Reading]:
    """The reading of a capture, to its end."""
    with closing(Reading(path)) as reading:
        while reading.step():
            pass
        yield reading


def whole(stream: RawStream) -> RawStream:
    """The stream with all of its pages."""
    while stream.step():
        pass
    return stream


def text_of(page: StreamPage) -> str:
    """The lines of a page as text."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in page)


def test_a_session_is_all_of_its_messages_with_signs_and_times(tmp_path: Path) -> None:
    with read(captured(tmp_path, calls=1)) as reading:
        stream = whole(RawStream(reading))
        page = StreamPage(stream, 0, 400, lambda row: f"+{row}")
        signs = [line.partition("{")[0] for line in text_of(page).splitlines()]
        assert signs == ["+1 →  ", "+2 ←  ", "+3 →  ", "+4 →  ", "+5 ←  ", "+7 →  "]
        server = whole(RawStream(reading, side="s2c"))
        assert text_of(StreamPage(server, 0, 400)).count("\n←  {") == 1
        assert page.row_at(2) == 3
        assert page.line_of_row(4) == 3
        raw = b"".join(stream.whole_pieces())
        assert [json.loads(line)["jsonrpc"] for line in raw.splitlines()] == ["2.0"] * 6


def test_a_file_that_was_cut_leaves_gaps_that_are_named(tmp_path: Path) -> None:
    path = captured(tmp_path, calls=1)
    with read(path) as reading:
        stream = whole(RawStream(reading))
        assert not StreamPage(stream, 0, 400).has_gaps
        os.truncate(path, path.stat().st_size // 2)
        page = StreamPage(stream, 0, 400)
        assert page.has_gaps
        gaps = text_of(page).count("gone: its recorder has deleted this part, or the file was changed or cut")
        assert 0 < gaps < 6
        assert len(b"".join(stream.whole_pieces()).splitlines()) == 6 - gaps
        assert stream.gone_count == gaps


def test_an_exchange_has_its_heads_and_only_its_messages() -> None:
    with read(HTTP) as reading:
        stream = whole(RawStream(reading, exchange=1))
        text = text_of(StreamPage(stream, 0, 200))
        assert text.startswith("→  POST /mcp HTTP/1.1\n   Host: 127.0.0.1:8090\n")
        assert "\n←  HTTP/1.1 200 OK\n" in text
        assert text.count('"method":"tools/call"') == 1
        assert stream.searched_share == 1.0
        session = whole(RawStream(reading, session=1))
        assert "POST" not in text_of(StreamPage(session, 0, 200))


def test_text_for_people_and_empty_lines_are_marked(tmp_path: Path) -> None:
    raws = (b"Loaded 5 tools", b"", b'{"jsonrpc":"2.0","method":"ping"}')
    frames = [("header", header()), *(frame_record("s2c", raw) for raw in raws)]
    with read(record(tmp_path / "a.mcpcap", frames)) as reading:
        page = StreamPage(whole(RawStream(reading)), 0, 80)
        assert text_of(page).splitlines() == ["←✗ Loaded 5 tools", "←✗ (empty)", '←  {"jsonrpc":"2.0","method":"ping"}']
        assert [line[1].role for line in page] == ["bad", "bad", "server"]


def test_pages_are_bounded_and_together_the_stream(tmp_path: Path) -> None:
    sizes = [0, 1, PAGE_BYTES - 300, PAGE_BYTES, PAGE_BYTES + 1, 3 * PAGE_BYTES, *[10] * 1000]
    texts = [f"{'xyz'[number % 3]}" * size for number, size in enumerate(sizes)]
    with read(
        record(tmp_path / "a.mcpcap", [("header", header()), *(frame_record("c2s", text.encode()) for text in texts)])
    ) as reading:
        stream = whole(RawStream(reading))
        pages = [list(stream.pieces_on(page)) for page in range(stream.page_count)]
        assert "".join((piece.raw or b"").decode() for pieces in pages for piece in pieces) == "".join(texts)
        assert sum(piece.is_start for pieces in pages for piece in pieces) == len(sizes)
        assert max(sum(len(piece.raw or b"") for piece in pieces) for pieces in pages) <= PAGE_BYTES
        assert max(map(len, pages)) < 1000
        assert stream.size == sum(sizes)
        for page, pieces in enumerate(pages):
            for piece in pieces:
                if piece.is_start:
                    assert stream.page_of_row(piece.row) == page
        assert b"".join(stream.whole_pieces()).decode() == "".join(f"{text}\n" for text in texts)


def test_a_giant_frame_is_read_in_parts_and_found_in(tmp_path: Path) -> None:
    raw = b'{"a":"' + b"0" * (2 * PAGE_BYTES) + b'needle"}'
    path = record(
        tmp_path / "a.mcpcap",
        [("header", header()), *in_pieces("c2s", raw, 50_000), frame_record("s2c", b"a Needle\nin hay")],
    )
    with read(path) as reading:
        stream = whole(RawStream(reading))
        assert stream.page_count == 3
        last = StreamPage(stream, 9, 40)
        assert last.page == 2
        assert text_of(last).startswith("…  00")
        found = last.find("needle")
        assert [match.page for match in found.positions] == [2, 2]
        assert last.position_of(found.positions[1]).line == len(last) - 2
        assert StreamPage(stream, 0, 40).with_ranges("needle", found).ranges == {}


def test_bytes_that_could_act_are_shown_as_escapes(tmp_path: Path) -> None:
    evil = "\x1b]52;c;x\x07\u202e" + "界" * 100_000
    with read(record(tmp_path / "a.mcpcap", [("header", header()), frame_record("s2c", evil.encode())])) as reading:
        stream = whole(RawStream(reading))
        texts = [text_of(StreamPage(stream, page, 40)) for page in range(stream.page_count)]
        assert "\\x1b]52;c;x\\x07\\u202e" in texts[0]
        assert not {"\x1b", "\x07", "\u202e"} & {*"".join(texts)}
        assert all(cells(line) <= 40 for text in texts for line in text.splitlines())
