"""Wrapping: what stays together in a line."""

from mcpproxy.wording.wrapping import wrapped


def test_the_sign_of_a_direction_stays_with_its_code() -> None:
    code = '`> {"id":3,"method":"tools/call"}`'
    assert list(wrapped(f"{code} and on", len(code) - 2)) == [code[:-3], f"{code[-3:]} and on"]
    assert list(wrapped(f"before {code}", len(code))) == ["before", code]
    assert list(wrapped("5 > 4 and so on", 5)) == ["5 > 4", "and", "so on"]
