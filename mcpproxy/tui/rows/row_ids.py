"""The ids that a client gave to the call of a row: its turn, its conversation, the model's call, the trace."""

from analysis.conversation.client_ids import NO_IDS, ClientIds, client_ids_of
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_calls import request_of


def ids_at(reading: Reading, call_number: int) -> ClientIds:
    """Returns the ids of a call; none if a server sent it, or if it is too large to parse just to draw a line.

    Reads the file.

    Args:
        reading: the capture.
        call_number: the number of the call.
    """
    request = request_of(reading, call_number)
    if request is None or request.sender != "client":
        return NO_IDS
    exchange = request.frames[0].exchange
    http = None if exchange is None else reading.conversation.exchange(exchange)
    head_traceparent = None if http is None else http.single_field("traceparent")
    client_name = client_name_at(reading, call_number)
    return client_ids_of(request, head_traceparent, reading.conversation.environment, client_name)


def client_name_at(reading: Reading, call_number: int) -> str | None:
    """Returns the name that the client of a call gives itself, or None if it is not known. Untrusted text.

    Args:
        reading: the capture.
        call_number: the number of the call.
    """
    client = reading.conversation.peers(reading.session(reading.calls.request[call_number])).client
    return None if client is None else client.name
