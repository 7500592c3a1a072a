"""Wrapping: which parts stay together on a line."""

from mcpproxy.wording.wrapping import wrapped


def test_the_sign_of_a_direction_stays_with_its_code() -> None:
    code = '`> {"id":3,"method":"tools/call"}`'
    assert list(wrapped(f"{code} and on", len(code) - 2)) == [code[:-3], f"{code[-3:]} and on"]
    assert list(wrapped(f"before {code}", len(code))) == ["before", code]
    assert list(wrapped("5 > 4 and so on", 5)) == ["5 > 4", "and", "so on"]


def test_a_figure_stays_with_its_unit() -> None:
    assert list(wrapped("waited for 2 min 14 s of it", 14)) == ["waited for", "2 min 14 s of", "it"]
    assert list(wrapped("search 9.1 kB, b 17 B", 10)) == ["search", "9.1 kB, b", "17 B"]
    assert list(wrapped("frame 38 of 4", 9)) == ["frame 38", "of 4"]
