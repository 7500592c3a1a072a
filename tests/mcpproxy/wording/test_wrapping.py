"""Wrapping: lines that fit, and what stays together in them."""

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.sanitise import sanitise
from mcpproxy.wording.text import cells, pieces
from mcpproxy.wording.wrapping import wrapped


def test_the_sign_of_a_direction_stays_with_its_code() -> None:
    code = '`> {"id":3,"method":"tools/call"}`'
    assert list(wrapped(f"{code} and on", len(code) - 2)) == [code[:-3], f"{code[-3:]} and on"]
    assert list(wrapped(f"before {code}", len(code))) == ["before", code]
    assert list(wrapped("5 > 4 and so on", 5)) == ["5 > 4", "and", "so on"]


def test_pieces_are_as_full_as_can_be_and_part_no_letter() -> None:
    assert list(pieces("", 4)) == [""]
    assert list(pieces("abcdefghi", 4)) == ["abcd", "efgh", "i"]
    assert list(pieces("界界x界", 4)) == ["界界", "x界"]
    assert list(pieces("界a界", 4)) == ["界a", "界"]
    assert list(pieces("ae\u0301\u0302界", 2)) == ["ae\u0301\u0302", "界"]
    assert list(pieces("abc✔\ufe0fd", 4)) == ["abc", "✔\ufe0fd"]


@given(st.text(alphabet="a界é\u0301\ufe0f✔‼ 0\u1160", max_size=40), st.integers(2, 9))
def test_pieces_fit_and_lose_nothing(text: str, width: int) -> None:
    shown = sanitise(text)
    made = list(pieces(shown, width))
    assert "".join(made) == shown
    assert all(cells(one) <= width for one in made)
    assert [sanitise(one) for one in made] == made
