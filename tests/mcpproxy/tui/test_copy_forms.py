"""The forms in which a row can be copied, in captures with odd headers."""

import pytest

from mcpproxy.tui.copies.copy_forms import forms
from tests.harness import ROOT
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading

HTTP = ROOT / "tests/corpus/captures/http.mcpcap"


@pytest.mark.parametrize("upstream", ["http://[", "http://[::1"])
def test_an_upstream_that_is_no_url_takes_away_the_command_alone(upstream: str) -> None:
    reading = Reading(HTTP)
    while reading.step():
        pass
    row = next(row for row in range(len(reading.index)) if reading.index.entry(row).kind == "request")
    assert [form.key for form in forms(reading, row)] == ["j", "r", "l", "c"]
    reading.index.header.members["upstream"] = upstream
    found = forms(reading, row)
    assert [form.key for form in found] == ["j", "r", "l"]
    assert all(form.text and "unsafe in a shell" in form.remark for form in found)
    reading.close()
