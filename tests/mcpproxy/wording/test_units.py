"""Numbers as people read them."""

from mcpproxy.wording.units import few


def test_counts_take_four_characters() -> None:
    texts = [few(count) for count in (0, 999, 1000, 1049, 9_949, 9_950, 99_499, 999_499, 999_500, 1_250_000, 10**10)]
    assert texts == ["0", "999", "1.0k", "1.0k", "9.9k", "10k", "99k", "999k", "1.0M", "1.2M", "10G"]
