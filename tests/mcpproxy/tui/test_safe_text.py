"""What is drawn takes the same number of cells on every terminal, and hides nothing but the joints of emoji."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.safe_text import STYLES, drawable, segments
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.wording.cells import cells, fit, pieces
from mcpproxy.wording.spans import Span

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
PLAIN = dict.fromkeys(STYLES, Style())
emoji_texts = st.text("👨👩🏽🏿❤⚠♀🔥\u200d\ufe0f\ufe0ea1 図é", max_size=40)


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        (FAMILY, "👨👩👧👦"),
        ("❤\ufe0f\u200d🔥!", "❤🔥!"),
        ("👍🏽 ok", "👍 ok"),
        ("🤷🏾\u200d♀\ufe0f", "🤷♀"),
        ("a🏽", "a\\U0001f3fd"),
        ("👨\u200da", "👨\\u200da"),
        ("1\ufe0f\u20e3", "1\u20e3"),
        ("नमस्ते", "नमस्ते"),
    ],
)
def test_emoji_are_drawn_next_to_each_other(text: str, drawn: str) -> None:
    assert drawable(sanitise(text)) == drawn


@given(emoji_texts, st.integers(1, 30))
def test_a_line_has_the_same_width_for_textual_and_for_a_terminal_that_joins_nothing(text: str, width: int) -> None:
    shown = "".join(segment.text for segment in segments([Span(text)], width, PLAIN))
    assert (
        cell_len(shown)
        == width
        == sum(
            0 if unicodedata.category(char)[0] == "M" else 2 if unicodedata.east_asian_width(char) in "WF" else 1
            for char in shown
        )
    )


@given(emoji_texts, st.integers(4, 30))
def test_no_cut_leaves_a_joiner_behind(text: str, width: int) -> None:
    safe = sanitise(text, None)
    for part in (fit(safe, width), *pieces(safe, width)):
        assert sanitise(part, None) == part
    assert cells(fit(safe, width)) <= width


@pytest.mark.parametrize(
    ("text", "is_alarming"),
    [(f"The {FAMILY} ❤\ufe0f\u200d🔥", False), ("a\u200db", True), ("👨\u200d", True), (FAMILY + "\u200d👶", True)],
)
def test_only_a_joiner_that_joins_no_emoji_is_announced(text: str, *, is_alarming: bool) -> None:
    lines = TextLines(40)
    lines.write_foreign(text)
    lines.insert_warning()
    assert lines.has_hidden is is_alarming
