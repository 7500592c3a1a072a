"""Session ids over HTTP: what is known of the exchange that gave an id."""

from typing import Any

from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.record_ref import RecordRef


def request(target: str) -> dict[str, Any]:
    return {"method": "POST", "target": target, "headers": []}


def test_an_id_is_of_the_path_to_which_the_exchange_goes_that_gave_it() -> None:
    exchanges = HttpExchanges()
    http = exchanges.on_record({"exchange": 1, "stage": "request", "request": request("/mcp?a=1")}, RecordRef(1, 1))
    assert http is not None
    response = {"status": 200, "headers": [["Mcp-Session-Id", "s"]]}
    exchanges.on_record({"exchange": 1, "stage": "response", "response": response}, RecordRef(2, 2))
    known = exchanges.session_ids.get("s")
    assert known is not None
    assert (known.order, known.path, known.given) == (http.order, "/mcp", RecordRef(2, 2))
    exchanges.on_record(
        {"exchange": 1, "stage": "end", "request": request("/other")}, RecordRef(3, 3)
    )  # no recorder writes this
    assert known.path == "/other"
    assert (
        exchanges.on_record({"exchange": 2, "stage": "request", "request": request("/third")}, RecordRef(4, 4))
        is not None
    )
    assert known.path == "/other"
