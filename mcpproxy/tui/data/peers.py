"""Peers: what both sides of a conversation say about themselves in the handshake or in `server/discover`.

These functions read the file again, so the drawing thread never calls them. All values that they return are untrusted.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.message import Request, Response, Side, messages
from analysis.conversation.session import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO
from analysis.facts import text_of_error
from analysis.protocol.methods import OPENING_METHODS
from captures.frame import Frame
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.reading import Reading

MAX_PEER_FRAME_BYTES: Final = 1 << 20
"""The maximum size of a frame that is read for this, in bytes."""
MAX_SEARCHED_REQUESTS: Final = 50
"""How many requests are searched for an introduction in their `_meta`, if the capture has no handshake."""


class PeerInfo(NamedTuple):
    """What one side says about itself in one message. The values are as it sent them."""

    side: Side
    frame: int
    method: str
    """The method of the message, or of its request."""
    revision: object = None
    """The revision that it requests, answers with, or supports."""
    info: object = None
    capabilities: object = None
    instructions: object = None
    note: str = ""
    """Why everything else is missing."""


def introductions(reading: Reading, row: int | None) -> list[PeerInfo]:
    """Returns how the sides introduce themselves.

    They do so in the last handshake and discovery at or before a row, or else in the first.

    Args:
        reading: the capture.
        row: the row; None for the end of the capture.
    """
    calls = reading.calls
    call_by_method: dict[str, int] = {}
    opening_kinds = {
        number: kind.method for number, kind in enumerate(reading.kinds.all) if kind.method in OPENING_METHODS
    }
    for number, kind in enumerate(calls.kind[: len(calls)]):
        method = opening_kinds.get(kind)
        if method is None:
            continue
        if method not in call_by_method or row is None or calls.request[number] <= row:
            call_by_method[method] = number
    numbers = sorted(call_by_method.values())
    if not numbers:
        return list(first_request_introductions(reading))
    return [introduction for number in numbers for introduction in _call_introductions(reading, number)]


def _call_introductions(reading: Reading, number: int) -> Iterator[PeerInfo]:
    request_row, response_row = reading.calls.request[number], reading.calls.response[number]
    method = reading.kinds.all[reading.calls.kind[number]].method
    request = _message(reading, request_row)
    yield (
        _request_introduction(request)
        if isinstance(request, Request)
        else _unreadable_introduction(reading, request_row, "client", method, request)
    )
    if response_row == NONE:
        return
    response = _message(reading, response_row)
    yield (
        _response_introduction(response, method)
        if isinstance(response, Response)
        else _unreadable_introduction(reading, response_row, "server", method, response)
    )


def _unreadable_introduction(reading: Reading, row: int, side: Side, method: str, reason: object) -> PeerInfo:
    return PeerInfo(side, reading.index.entry(row).seq, method, note=str(reason))


def _request_introduction(request: Request) -> PeerInfo:
    params, meta = _object(request.params), request.meta
    return PeerInfo(
        "client",
        request.seq,
        request.method,
        params.get("protocolVersion", meta.get(PROTOCOL_VERSION)),
        params.get("clientInfo", meta.get(CLIENT_INFO)),
        params.get("capabilities", meta.get(CLIENT_CAPABILITIES)),
    )


def _response_introduction(response: Response, method: str) -> PeerInfo:
    if response.is_error:
        text = text_of_error(response)
        return PeerInfo("server", response.seq, method, note=f"refused: {text}" if text else "refused")
    result = _object(response.result)
    info = result.get("serverInfo", _object(result.get("_meta")).get(SERVER_INFO))
    revision = result.get("protocolVersion", result.get("supportedVersions"))
    return PeerInfo(
        "server", response.seq, method, revision, info, result.get("capabilities"), result.get("instructions")
    )


def first_request_introductions(reading: Reading) -> Iterator[PeerInfo]:
    """Yields how a client introduces itself in its first requests, if there is neither a handshake nor a discovery."""
    calls = reading.calls
    for number in range(min(len(calls), MAX_SEARCHED_REQUESTS)):
        request = _message(reading, calls.request[number])
        if isinstance(request, Request) and CLIENT_INFO in request.meta:
            yield _request_introduction(request)
            return


def _message(reading: Reading, row: int) -> object:
    """Returns the message in a row, or a text that says why it cannot be read."""
    if reading.index.entry(row).size > MAX_PEER_FRAME_BYTES:
        return "the frame is too large to be shown here"
    try:
        item = reading.index.read_item(row)
    except OSError as error:
        return error.strerror or str(error)
    return messages(item)[0] if isinstance(item, Frame) else "the frame cannot be read"


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
