"""The wording of a failed HTTP exchange: one for the conversation, the pages and the screens."""

from typing import Any

import pytest

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.http_exchanges import HttpExchanges
from mcpproxy.wording.failures import failure_text


def ended(**members: Any) -> HttpExchange:
    http = HttpExchanges().on_record({"exchange": 1, "stage": "end", "ended_by": "server", **members})
    assert http is not None
    return http


def response(status: int, **fields: str) -> dict[str, Any]:
    return {"status": status, "headers": [[name.replace("_", "-"), value] for name, value in fields.items()]}


@pytest.mark.parametrize(
    ("http", "lasted_ns", "text"),
    [
        (None, None, "the HTTP exchange ended before a response"),
        (ended(), None, "the HTTP exchange ended before a response"),
        (ended(error="Connection reset by peer"), None, "no HTTP response: Connection reset by peer"),
        (ended(response=response(502), response_text="bad\x1b[31m gateway"), None, "HTTP status 502 by a gateway: bad"),
        (ended(response=response(429)), None, "HTTP status 429"),
        (ended(response=response(200)), 1_500_000_000, "the HTTP response ended after 1.5 s without an answer"),
        (
            ended(response=response(200), response_text="Sign in"),
            None,
            "the HTTP response ended without an answer: Sign",
        ),
        (ended(response=response(307, location="/mcp/")), None, "redirected with status 307, and not repeated"),
    ],
)
def test_a_failure_says_how_and_why(http: HttpExchange | None, lasted_ns: int | None, text: str) -> None:
    told = failure_text(http, lasted_ns)
    assert told.startswith(text)
    assert "\x1b" not in told
