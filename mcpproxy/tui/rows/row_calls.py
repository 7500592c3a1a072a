"""Messages and calls of rows, read again: a call is put together from what was kept of it and from its messages.

So the screens word a call as every command does (`mcpproxy.wording`).
"""

from typing import Final, TypeVar

from analysis.conversation.assembly import Assembly
from analysis.conversation.call import REASON, Call, Outcome
from analysis.conversation.cancellations import CANCELLATIONS
from analysis.conversation.message import (
    Message,
    Notification,
    Request,
    Response,
    id_of,
    invalid,
    message_of,
    messages,
    parse_exactly,
)
from analysis.conversation.record_ref import RecordRef
from analysis.facts import raw_of
from captures.frame import Frame
from mcpproxy.tui.data.columns import AS_RESPONSE, NONE, UNJUDGED
from mcpproxy.tui.data.reading import Reading

_Half = TypeVar("_Half", Request, Response)

LARGE: Final = 1 << 20
"""The size, in bytes, above which the row of a frame shows only members of its record: drawing a line must not parse a
gigabyte.
"""


def message_at(reading: Reading, row: int, frame: Frame) -> Message:
    """The first message of a row, with all the lines that it spans, and interpreted as the worker did."""
    last = reading.joined_to(row)
    if last is not None:
        items = [reading.index.read_item(item) for item in range(row, min(last, row + 10_000) + 1)]
        frames = tuple(item for item in items if isinstance(item, Frame) and item.dir == frame.dir)
        try:
            whole = message_of(frame, None, parse_exactly(raw_of(frames)))
        except (ValueError, RecursionError):
            return messages(frame)[0]
        whole.frames = frames
        return whole
    unusual = unusual_in(reading, row, frame)
    return unusual[0][0] if unusual else messages(frame)[0]


def unusual_in(reading: Reading, row: int, frame: Frame) -> list[tuple[Message, int]]:
    """The messages of a row that its frame alone does not show, with their calls; an ordinary row has none."""
    unusual = reading.columns.unusual(row)
    if not unusual:
        return []
    lines = [reading.index.read_item(line) for line in reading.lines_of(row)]
    assembly = Assembly()
    found = [message for line in (frame, *lines) if isinstance(line, Frame) for message in assembly.feed(line)]
    found += assembly.finish()
    return [(_as_taken(message, one.taken), one.call) for message, one in zip(found, unusual, strict=False)]


def _as_taken(message: Message, taken: int) -> Message:
    if taken == UNJUDGED:
        return invalid(message.frames[0], "unjudged", message.index)
    response = message.as_response() if taken == AS_RESPONSE and isinstance(message, Request) else None
    return message if response is None else response


def own_message(reading: Reading, row: int, frame: Frame, number: int, kind: type[_Half]) -> _Half | None:
    """The request or response of a call in its row, or None if the row does not say which of several it is."""
    unusual = unusual_in(reading, row, frame)
    if unusual:
        return next((one for one, own in unusual if own == number and isinstance(one, kind)), None)
    message = message_at(reading, row, frame) if frame.verdict.kind != "batch" else None
    return message if isinstance(message, kind) else None


def request_of(reading: Reading, number: int) -> Request | None:
    """The request of a call, unless it is too large to be read for a line."""
    return _half(reading, reading.calls.request[number], number, Request)


def response_of(reading: Reading, number: int) -> Response | None:
    """The response of a call, or None if there is none or if it is too large to be read for a line."""
    return _half(reading, reading.calls.response[number], number, Response)


def _half(reading: Reading, row: int, number: int, kind: type[_Half]) -> _Half | None:
    if row == NONE or reading.index.entry(row).size > LARGE:
        return None
    item = reading.index.read_item(row)
    return own_message(reading, row, item, number, kind) if isinstance(item, Frame) else None


def call_at(reading: Reading, number: int, response: Response | None) -> Call | None:
    """A call, as far as it is known now; returns None if its request is too large to be read for a line.

    Args:
        reading: the capture.
        number: of the call.
        response: its response, if it has one that can be read.
    """
    request = request_of(reading, number)
    if request is None:
        return None
    call, calls = Call(request, guessed_response=reading.conversation.probable_answers.get(number)), reading.calls
    if response is not None:
        call.answer(response)
        call.stall_ns = max(0, response.t_ns - request.t_ns - calls.latency_ns[number])
    else:
        call.settled = reading.outcome(number)
        _carry(reading, number, call)
    row = reading.conversation.cancelled_at.get(number)
    if row is not None and row < len(reading.index):
        _cancel(reading, number, call, row)
    return call


def _carry(reading: Reading, number: int, call: Call) -> None:
    """Record which HTTP exchange carried a call last, and when that broke off."""
    told = reading.conversation.carriers.get(number)
    carrier = call.request.frames[0].exchange if told is None else told.exchange
    call.http = None if carrier is None else reading.conversation.exchange(carrier)
    if call.settled is not Outcome.FAILED or call.http is None:
        return
    if told is None:
        call.exchange_end = call.http.over
    elif told.broken is not None and told.broken < len(reading.index):
        call.exchange_end = RecordRef(reading.index.entry(told.broken).seq, reading.index.t_ns(told.broken))


def late_ns(reading: Reading, number: int) -> int | None:
    """How long after its cancellation a call was answered, or None if it was not."""
    calls, t_ns = reading.calls, reading.index.t_ns
    at, response = reading.conversation.cancelled_at.get(number), calls.response[number]
    return None if at is None or at >= len(reading.index) or response == NONE else max(0, t_ns(response) - t_ns(at))


def _cancel(reading: Reading, number: int, call: Call, row: int) -> None:
    """Record how a call was cancelled: by a message, or by the end of its HTTP exchange."""
    index = reading.index
    mark = RecordRef(index.entry(row).seq, index.t_ns(row))
    abandoned_ns = reading.abandoned_ns(number)
    if abandoned_ns is not None:
        call.stall_ns = max(0, mark.t_ns - call.request.t_ns - abandoned_ns)
    call.cancellation = mark
    item = index.read_item(row)
    if not isinstance(item, Frame):
        # An exchange that the client leaves is abandoned at any time.
        call.client_closed, call.exchange_end = abandoned_ns is not None, mark
        return
    of_row = [one.params for one in messages(item) if isinstance(one, Notification) and one.method in CANCELLATIONS]
    told = [params for params in of_row if isinstance(params, dict)]
    own = [params for params in told if id_of(params.get("requestId")) == call.request.id]
    # An id of another JSON type names it, too, but not which of several does.
    reason = (own or (told if len(of_row) == 1 else []) or [{}])[0].get("reason")
    call.cancel_reason = reason[:REASON] if isinstance(reason, str) else None
