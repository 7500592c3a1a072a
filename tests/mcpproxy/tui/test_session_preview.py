"""The preview of a session says what its summary knows, in lines that fit and that act on nothing."""

from analysis.summary import BUCKET_COUNT, Summary
from analysis.tally import Tally
from mcpproxy.tui.rows.session_preview import preview_lines
from mcpproxy.wording.cells import cells

SUMMARY = Summary(
    name="notes",
    transport="stdio",
    wall_ns=1_795_000_000_000_000_000,
    client="Cursor 2.1",
    server="library 0.6",
    revisions=("2025-06-18", "2025-11-25"),
    frames=127,
    errors=9,
    challenged=2,
    abandoned=3,
    answered_late=1,
    answered=60,
    p95_ns=241_000_000,
    lost=29,
    ending="exit 1",
    traffic=(1, 5, 0, 9),
)


def text_of(summary: Summary, tally: Tally | None = None, width: int = 160) -> str:
    """The text of a preview, of which each line must fit."""
    lines = preview_lines(summary, tally, width, lasted_ns=10_000_000_000)
    texts = ["".join(span.text for span in line) for line in lines]
    assert all(cells(text) <= width for text in texts)
    return "\n".join(texts)


def test_it_says_what_the_summary_knows() -> None:
    text = text_of(SUMMARY, Tally(5, 1, 2))
    for part in (
        "Cursor 2.1 → library 0.6  stdio",
        "2025-06-18, 2025-11-25",
        "lasted 10.0 s, exit 1",
        "60 requests, 95 % of them within 241 ms",
        "7 errors, 3 requests abandoned (1 answered late), 29 records lost",
        "2 errors, 1 warning, 5 notes",
        "127 frames, each bar 1.0 ms",
        "█",
    ):
        assert part in text, part
    assert "trouble" not in text_of(Summary())


def test_any_names_fit() -> None:
    hostile = "\x1b[31m\u202e中" * 60
    summary = Summary(
        name=hostile,
        client=hostile,
        revisions=(hostile,),
        wall_ns=1 << 90,
        clients=((hostile, 1),) * 9,
        traffic=(1,) * BUCKET_COUNT,
    )
    for width in (80, 160, 220):
        text = text_of(summary, width=width)
        assert "\x1b" not in text
        assert "\u202e" not in text
