"""Excerpts of payloads: the place is always in sight, and the line is used."""

import orjson
import pytest

from mcpproxy.wording.cells import cells
from mcpproxy.wording.excerpts import excerpt

WIDTH = 120


@pytest.mark.parametrize("long", ["x" * 500, "界" * 300, "\x1b[31m" * 90])
def test_the_end_of_a_long_payload_fills_the_line(long: str) -> None:
    raw = orjson.dumps({"params": {"text": long, "last": 7}})
    found = excerpt(raw, "/params/last", WIDTH)
    assert found.text.startswith("…")
    assert found.text.endswith('"last":7}}')
    assert cells(found.text) <= WIDTH
    assert cells(found.text) > WIDTH // 2
    assert (found.text[-3], found.carets) == ("7", 1)
    assert found.indent == cells(found.text) - 3
    assert not found.is_plain


def test_a_place_in_the_middle_is_followed_by_as_much_as_fits() -> None:
    raw = orjson.dumps({"before": "x" * 500, "it": 7, "after": "y" * 500})
    found = excerpt(raw, "/it", WIDTH)
    assert '"it":7,"after":"yyy' in found.text
    assert cells(found.text) == WIDTH


@pytest.mark.parametrize("width", [20, 21, 40])
def test_a_narrow_line_shows_the_place(width: int) -> None:
    raw = orjson.dumps({"before": "x" * 500, "it": "z" * 500})
    found = excerpt(raw, "/it", width)
    assert cells(found.text) <= width
    assert found.indent + found.carets <= width
