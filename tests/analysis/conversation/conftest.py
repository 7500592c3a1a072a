"""Fixtures for the tests of conversations."""

import pytest

from analysis.conversation import call_table, http_exchange, http_exchanges
from tests.analysis.conversation.limits import SMALL, Limits


@pytest.fixture(params=[SMALL, pytest.param(Limits(), marks=pytest.mark.soak)], ids=["small", "real"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Limits:
    """The limits that apply during the test."""
    given: Limits = request.param
    monkeypatch.setattr(call_table.CallTable.__init__, "__defaults__", (given.requests, call_table.MAX_OPEN_BYTES))
    monkeypatch.setattr(call_table, "MAX_OPEN_HTTP_REQUESTS", given.requests_over_http)
    monkeypatch.setattr(http_exchange, "MAX_OPEN_HTTP_EXCHANGES", given.lasting)
    monkeypatch.setattr(http_exchange, "MAX_HTTP_EXCHANGES", given.ended)
    monkeypatch.setattr(http_exchanges, "SEEN_BYTES", given.bytes_)
    monkeypatch.setattr(http_exchanges, "WHOLE_BYTES", given.whole)
    return given
