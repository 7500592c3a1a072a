"""Numbers as users read them."""

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.wording.units import brief_duration, duration, ms_figure, ms_text, nanoseconds, short_count

S = 1_000_000_000
DURATIONS = {
    0: ("0 ms", "0µs"),
    1_950: ("0.002 ms", "2µs"),
    42_000: ("0.042 ms", "42µs"),
    421_000: ("0.42 ms", "421µs"),
    994_999: ("0.99 ms", "995µs"),
    995_000: ("1.0 ms", "995µs"),
    2_149_999: ("2.1 ms", "2.1ms"),
    2_150_000: ("2.2 ms", "2.2ms"),
    2_250_000: ("2.3 ms", "2.3ms"),
    41_249_999: ("41.2 ms", "41ms"),
    99_950_000: ("100 ms", "100ms"),
    605_499_999: ("605 ms", "605ms"),
    999_499_999: ("999 ms", "999ms"),
    999_500_000: ("1.0 s", "1.0s"),
    12_345_000_000: ("12.3 s", "12.3s"),
    59_949_999_999: ("59.9 s", "59.9s"),
    59_950_000_000: ("1 min 00 s", "1m00s"),
    134_499_999_999: ("2 min 14 s", "2m14s"),
    3599_499_999_999: ("59 min 59 s", "59m59s"),
    3599_500_000_000: ("1 h 00 min", "1h00m"),
    11_129 * S: ("3 h 05 min", "3h05m"),
    86_369 * S: ("23 h 59 min", "23h59m"),
    86_370 * S: ("1 d 00 h", "1d00h"),
    187_200 * S: ("2 d 04 h", "2d04h"),
    100 * 86_400 * S: ("100 d 00 h", "100d"),
}


def test_counts_take_four_characters() -> None:
    texts = [
        short_count(count) for count in (0, 999, 1000, 1049, 9_949, 9_950, 99_499, 999_499, 999_500, 1_250_000, 10**10)
    ]
    assert texts == ["0", "999", "1.0k", "1.0k", "9.9k", "10k", "99k", "999k", "1.0M", "1.2M", "10G"]


def test_durations_are_rounded_once_and_halves_up() -> None:
    assert {ns: (duration(ns), brief_duration(ns)) for ns in DURATIONS} == DURATIONS
    assert brief_duration(None) == "–"


def test_a_column_of_milliseconds_keeps_its_unit() -> None:
    texts = {ns: ms_text(ns) for ns in (421_000, 2_150_000, 999_500_000, 1_008_000_000, 134_500_000_000, -2_150_000)}
    assert list(texts.values()) == ["0.42 ms", "2.2 ms", "1,000 ms", "1,008 ms", "134,500 ms", "-2.2 ms"]
    assert ms_figure(nanoseconds(2.15)) == "2.2"


@given(st.integers(0, 99 * 86_400 * S) | st.integers(0, 10 * S))
def test_durations_have_three_digits_and_fit_their_cells(ns: int) -> None:
    text = duration(ns)
    assert len(text) <= len("23 h 59 min")
    assert len(brief_duration(ns)) <= 6
    if ns < 59_950_000_000:
        figure, unit = text.split(" ")
        assert len(figure.replace(".", "").lstrip("0")) <= 3
        # Rounding may cost half of the last digit at most.
        step = 10 ** (0 - len(figure.partition(".")[2])) * {"ms": 1e6, "s": 1e9}[unit]
        assert abs(float(figure) * {"ms": 1e6, "s": 1e9}[unit] - ns) <= step / 2 + 1e-3
