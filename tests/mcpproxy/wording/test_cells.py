"""Splitting a text into pieces that fit a number of terminal cells."""

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells, fit_end, pieces


def test_pieces_are_as_full_as_can_be_and_part_no_letter() -> None:
    assert list(pieces("", 4)) == [""]
    assert list(pieces("abcdefghi", 4)) == ["abcd", "efgh", "i"]
    assert list(pieces("界界x界", 4)) == ["界界", "x界"]
    assert list(pieces("界a界", 4)) == ["界a", "界"]
    assert list(pieces("ae\u0301\u0302界", 2)) == ["ae\u0301\u0302", "界"]
    assert list(pieces("abc✔\ufe0fd", 4)) == ["abc", "✔\ufe0fd"]


def test_the_end_of_a_text_is_kept() -> None:
    assert fit_end("/a/b/mcp", 8) == "/a/b/mcp"
    assert fit_end("/a/b/mcp", 5) == "…/mcp"
    assert fit_end("a界e\u0301x", 3) == "…e\u0301x"
    assert fit_end("a界界", 3) == "…界"
    assert (fit_end("abc", 1), fit_end("abc", 0)) == ("…", "")


@given(st.text(alphabet="a界\u0301✔\ufe0f", max_size=40), st.integers(0, 12))
def test_the_end_of_a_text_fits(text: str, width: int) -> None:
    assert cells(fit_end(sanitise(text), width)) <= width


@given(st.text(alphabet="a界é\u0301\ufe0f✔‼ 0\u1160", max_size=40), st.integers(2, 9))
def test_pieces_fit_and_lose_nothing(text: str, width: int) -> None:
    shown = sanitise(text)
    made = list(pieces(shown, width))
    assert "".join(made) == shown
    assert all(cells(one) <= width for one in made)
    assert [sanitise(one) for one in made] == made
