"""Raw streams: which bytes are on which page, for streams of any size; a search finds them on all pages."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from captures.file import CaptureFile
from captures.record import seal
from mcpproxy.tui.data.raw_stream import PAGE_BYTES, RawStream
from mcpproxy.tui.details.stream_page import StreamPage
from tests.captures.samples import header, lines
from tests.harness import ROOT
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import captured, frame_record

HTTP = ROOT / "tests/corpus/captures/http.mcpcap"


def read(path: Path) -> Reading:
    """The reading of a capture, to its end."""
    reading = Reading(path)
    while not reading.has_ended and reading.follow():
        pass
    return reading


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
        assert [line[:7] for line in text_of(page).splitlines()] == ["+1  → {", "+2  ← {", "+3  → {", "+4  → {", "+5  ← {", "+7  → {"]
        server = whole(RawStream(reading, side="s2c"))
        assert text_of(StreamPage(server, 0, 400)).count("\n← {") == 1
        assert page.row_at(2) == 3
        assert page.line_of_row(4) == 3
        raw = b"".join(stream.whole_pieces())
        assert [json.loads(line)["jsonrpc"] for line in raw.splitlines()] == ["2.0"] * 6


def test_an_exchange_has_its_heads_and_only_its_messages() -> None:
    with read(HTTP) as reading:
        stream = whole(RawStream(reading, exchange=1))
        text = text_of(StreamPage(stream, 0, 200))
        assert text.startswith("→ POST /mcp HTTP/1.1\n  Host: 127.0.0.1:8090\n")
        assert "\n← HTTP/1.1 200 OK\n" in text
        assert text.count('"method":"tools/call"') == 1
        assert stream.searched_share == 1.0
        session = whole(RawStream(reading, session=1))
        assert "POST" not in text_of(StreamPage(session, 0, 200))


@given(sizes=st.lists(st.integers(0, 3 * PAGE_BYTES), max_size=12))
def test_pages_are_bounded_and_together_the_stream(tmp_path_factory: object, sizes: list[int]) -> None:
    class Entry:
        """An entry of an index."""

    del tmp_path_factory, Entry
    stream = RawStream.__new__(RawStream)
    raise NotImplementedError(sizes, stream)
