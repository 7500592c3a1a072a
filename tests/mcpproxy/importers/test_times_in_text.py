"""Times in lines of logs."""

import os
import time

import pytest

from mcpproxy.importers.times import time_in_text

NOON_S = 1767268800  # 2026-01-01 12:00 UTC


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", "UTC-1")
    time.tzset()


@pytest.mark.parametrize(
    ("text", "fraction_ns"),
    [
        ("2026-01-01T12:00:00.250Z", 250_000_000),
        ("x [2026-01-01 13:00:00,250] DEBUG", 250_000_000),
        ("2026/01/01 13:00:00.250000 read", 250_000_000),
        ("2026-01-01T10:00:00.25-02:00", 250_000_000),
        ("2026-01-01 13:00:00 +0100", None),
        ("server-1  | 2026-01-01 13:00:00 [x]", None),
    ],
)
def test_a_time_is_found(text: str, fraction_ns: int | None) -> None:
    found = time_in_text(text)
    assert found == (NOON_S * 10**9 + (fraction_ns or 0), fraction_ns is not None)


@pytest.mark.parametrize(
    "text", ["", "12:00:00", "2026-13-01 12:00:00.0", "9999-12-31 23:59:59", "[04/16/26 06:13:16]"]
)
def test_other_text_has_no_time(text: str) -> None:
    assert time_in_text(text).stamp_ns is None
