"""Session ids over HTTP: what is known of the exchange that gave one."""

from typing import Any

from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.mark import Mark


def request(target: str) -> dict[str, Any]:
    return {"method": "POST", "target": target, "headers": []}


def test_an_id_is_of_the_path_to_which_the_exchange_goes_that_gave_it() -> None:
    exchanges = HttpExchanges()
    http = exchanges.take({"exchange": 1, "stage": "request", "request": request("/mcp?a=1")}, Mark(1, 1))
    assert http is not None
    response = {"status": 200, "headers": [["Mcp-Session-Id", "s"]]}
    exchanges.take({"exchange": 1, "stage": "response", "response": response}, Mark(2, 2))
    known = exchanges.session_ids.of("s")
    assert known is not None
    assert (known.order, known.path, known.given) == (http.order, "/mcp", Mark(2, 2))
    exchanges.take({"exchange": 1, "stage": "end", "request": request("/other")}, Mark(3, 3))  # only a forger does that
    assert known.path == "/other"
    assert exchanges.take({"exchange": 2, "stage": "request", "request": request("/third")}, Mark(4, 4)) is not None
    assert known.path == "/other"
