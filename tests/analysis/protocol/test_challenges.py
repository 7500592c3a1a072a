"""The grammar of `WWW-Authenticate`."""

from analysis.protocol.challenges import Challenge, parse_challenges


def test_challenges_of_one_and_of_several_values() -> None:
    assert parse_challenges([]) == []
    assert parse_challenges(["Negotiate"]) == [Challenge("negotiate", {})]
    one = parse_challenges(['Basic realm="a, b", BEARER Resource_Metadata="https://example.com/x", scope=files'])
    two = parse_challenges(['Basic realm="a, b"', 'BEARER Resource_Metadata="https://example.com/x", scope=files'])
    bearer = Challenge("bearer", {"resource_metadata": "https://example.com/x", "scope": "files"})
    assert one == two == [Challenge("basic", {"realm": "a, b"}), bearer]


def test_a_parameter_without_a_scheme_is_skipped_and_the_first_of_two_counts() -> None:
    assert parse_challenges(['realm="x"', 'Bearer error=a, error="b"']) == [Challenge("bearer", {"error": "a"})]


def test_only_the_beginning_of_a_long_value_is_read() -> None:
    assert parse_challenges([" " * 8192 + "Bearer"]) == []
