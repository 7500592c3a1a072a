"""The lines of `serve --access-log`: one for each HTTP exchange, once it has ended."""

from mcpproxy.recorder.exchange_summary import ExchangeSummary
from mcpproxy.wording.units import duration, size


def access_line(exchange: ExchangeSummary) -> str:
    """Word an exchange: client, request, message, status, size of the response, and how long it took."""
    outcome = str(exchange.status) if exchange.status is not None else "no response"
    if exchange.is_ours:
        outcome = f"{outcome} from mcpproxy"
    if exchange.ended_by not in ("complete", "proxy"):
        outcome = f"{outcome}, ended by the {exchange.ended_by}"
    words = [exchange.client, exchange.method, exchange.target, *([exchange.message] if exchange.message else [])]
    return " · ".join([" ".join(words), outcome, size(exchange.response_size), duration(exchange.lasted_ns)])
