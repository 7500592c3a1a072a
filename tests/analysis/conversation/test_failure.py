"""Which side failed in an HTTP exchange, as far as its records show."""

from typing import Any

import pytest

from analysis.conversation.failure import failed_party
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.record_ref import RecordRef

PAGE = "<html><h1>413 Request Entity Too Large</h1><hr>nginx/1.25.3</html>"


def ended(by: str, status: int | None = None, *, server: str = "", **members: Any) -> HttpExchange:
    exchanges = HttpExchanges()
    response: dict[str, Any] = {} if status is None else {"status": status, "headers": [["Server", server]]}
    response |= members.pop("response", {})
    told = {"exchange": 1, "stage": "end", "ended_by": by, **members}
    http = exchanges.on_record(told | ({"response": response} if response else {}), RecordRef(1, 0))
    assert http is not None
    return http


@pytest.mark.parametrize(
    ("http", "culprit"),
    [
        (ended("complete", 200), None),
        (ended("complete", 302), None),
        (ended("complete", 500), "server"),
        (ended("complete", 429, server="cloudflare"), "server"),
        (ended("complete", 502), "gateway"),
        (ended("complete", 504, server="nginx"), "gateway"),
        (ended("complete", 413, server="nginx/1.25.3", response_text=PAGE), "gateway"),
        (ended("complete", 413, server="uvicorn", response_text=PAGE), "server"),
        (ended("complete", 502, response={"by": "proxy"}), "network"),
        (ended("complete", 421, response={"by": "proxy"}), "client"),
        (ended("error"), "network"),
        (ended("error", 200), "network"),
        (ended("server", 200), "server"),
        (ended("client"), "client"),
        (ended("client", 200), None),
        (ended("proxy", 200), None),
    ],
)
def test_who_failed(http: HttpExchange, culprit: str | None) -> None:
    assert failed_party(http) == culprit
