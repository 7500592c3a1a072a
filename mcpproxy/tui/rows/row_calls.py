"""Reconstructs the messages and calls that rows show.

Reads messages from the file again, and assembles calls from these messages and the cells of their rows, so the screens
can describe a call in the same words as every command (`mcpproxy.wording`).
"""

from typing import Final, TypeVar

from analysis.conversation.assembly import Assembly
from analysis.conversation.call import MAX_REASON_CHARS, Call, Outcome
from analysis.conversation.cancellations import CANCELLATION_METHODS
from analysis.conversation.loss_counter import LossCounter, LostRecords
from analysis.conversation.message import (
    Message,
    Notification,
    Request,
    Response,
    id_of,
    invalid_message,
    message_of,
    messages,
    parse_exactly,
)
from analysis.conversation.record_ref import RecordRef
from analysis.facts import raw_of
from captures.frame import Frame
from mcpproxy.tui.data.columns import AS_RESPONSE, NONE, UNJUDGED
from mcpproxy.tui.data.reading import Reading

_CallMessage = TypeVar("_CallMessage", Request, Response)

MAX_LINE_FRAME_BYTES: Final = 1 << 20
"""The size, in bytes, above which the row of a frame shows only members of its record: drawing a line must not parse a
gigabyte.
"""


class _KnownLoss(LossCounter):
    """The losses after the request of one call, as the worker has reported them."""

    __slots__ = ("_lost_records",)

    def __init__(self, lost_records: LostRecords) -> None:
        super().__init__()
        self.count, self._lost_records = 1, lost_records

    def lost_since(self, count: int, after: int, before: int | None = None) -> LostRecords:  # noqa: ARG002
        """Returns the lost records."""
        return self._lost_records


def message_at(reading: Reading, row: int, frame: Frame) -> Message:
    """Returns the first message of a row, with all the lines that it spans, interpreted as in the worker."""
    last_row = reading.last_joined_row(row)
    if last_row is not None:
        items = [reading.index.read_item(joined_row) for joined_row in range(row, min(last_row, row + 10_000) + 1)]
        frames = tuple(item for item in items if isinstance(item, Frame) and item.dir == frame.dir)
        try:
            message = message_of(frame, None, parse_exactly(raw_of(frames)))
        except (ValueError, RecursionError):
            return messages(frame)[0]
        message.frames = frames
        return message
    unusual_messages = unusual_messages_in(reading, row, frame)
    return unusual_messages[0][0] if unusual_messages else messages(frame)[0]


def unusual_messages_in(reading: Reading, row: int, frame: Frame) -> list[tuple[Message, int]]:
    """Returns the messages of a row that its frame alone does not show, with their calls' numbers; usually none."""
    unusual_messages = reading.columns.unusual_messages(row)
    if not unusual_messages:
        return []
    continued_items = [reading.index.read_item(continued_row) for continued_row in reading.continued_rows(row)]
    assembly = Assembly()
    frames = [item for item in (frame, *continued_items) if isinstance(item, Frame)]
    row_messages = [message for line_frame in frames for message in assembly.feed(line_frame)]
    row_messages += assembly.finish()
    return [
        (_interpreted_as(message, unusual_message.interpretation), unusual_message.call)
        for message, unusual_message in zip(row_messages, unusual_messages, strict=False)
    ]


def _interpreted_as(message: Message, interpretation: int) -> Message:
    if interpretation == UNJUDGED:
        return invalid_message(message.frames[0], "unjudged", message.index)
    response = message.as_response() if interpretation == AS_RESPONSE and isinstance(message, Request) else None
    return message if response is None else response


def message_of_call(
    reading: Reading, row: int, frame: Frame, call_number: int, kind: type[_CallMessage]
) -> _CallMessage | None:
    """Returns a call's request or response from its row.

    Returns None if the row has several messages and it is not known which of them it is, or if it is of another kind.
    """
    unusual_messages = unusual_messages_in(reading, row, frame)
    if unusual_messages:
        return next(
            (candidate for candidate, call in unusual_messages if call == call_number and isinstance(candidate, kind)),
            None,
        )
    message = message_at(reading, row, frame) if frame.verdict.kind != "batch" else None
    return message if isinstance(message, kind) else None


def request_of(reading: Reading, call_number: int) -> Request | None:
    """Returns the request of a call, or None if it is too large to parse just to draw a line."""
    return _small_message(reading, reading.calls.request[call_number], call_number, Request)


def response_of(reading: Reading, call_number: int) -> Response | None:
    """Returns the response of a call, or None if there is none or if it is too large to parse just to draw a line."""
    return _small_message(reading, reading.calls.response[call_number], call_number, Response)


def _small_message(reading: Reading, row: int, call_number: int, kind: type[_CallMessage]) -> _CallMessage | None:
    if row == NONE or reading.index.entry(row).size > MAX_LINE_FRAME_BYTES:
        return None
    item = reading.index.read_item(row)
    return message_of_call(reading, row, item, call_number, kind) if isinstance(item, Frame) else None


def call_at(reading: Reading, call_number: int, response: Response | None) -> Call | None:
    """Returns a call as far as it is known now, or None if its request is too large to parse just to draw a line.

    Args:
        reading: the capture.
        call_number: the number of the call.
        response: its response, if it has one that can be read.
    """
    request = request_of(reading, call_number)
    if request is None:
        return None
    call, calls = Call(request, guessed_response=reading.conversation.probable_answers.get(call_number)), reading.calls
    if response is not None:
        call.answer(response)
        call.stall_ns = max(0, response.t_ns - request.t_ns - calls.latency_ns[call_number])
    else:
        call.final_outcome = reading.outcome(call_number)
        _set_exchange(reading, call_number, call)
        lost_records = reading.conversation.lost_answers.get(call_number)
        call.losses = None if lost_records is None else _KnownLoss(lost_records)
    row = reading.conversation.cancelled_at.get(call_number)
    if row is not None and row < len(reading.index):
        _set_cancellation(reading, call_number, call, row)
    return call


def _set_exchange(reading: Reading, call_number: int, call: Call) -> None:
    """Record which HTTP exchange carried a call last, and when the exchange broke off."""
    carrier = reading.conversation.carriers.get(call_number)
    exchange = call.request.frames[0].exchange if carrier is None else carrier.exchange
    call.http = None if exchange is None else reading.conversation.exchange(exchange)
    if call.final_outcome is not Outcome.FAILED or call.http is None:
        return
    if carrier is None:
        call.exchange_end = call.http.end_ref
    elif carrier.break_row is not None and carrier.break_row < len(reading.index):
        call.exchange_end = RecordRef(reading.index.entry(carrier.break_row).seq, reading.index.t_ns(carrier.break_row))


def late_ns(reading: Reading, call_number: int) -> int | None:
    """Returns how long after its cancellation a call was answered, or None if it was not answered late."""
    calls, t_ns = reading.calls, reading.index.t_ns
    cancelled_row, response = reading.conversation.cancelled_at.get(call_number), calls.response[call_number]
    return (
        None
        if cancelled_row is None or cancelled_row >= len(reading.index) or response == NONE
        else max(0, t_ns(response) - t_ns(cancelled_row))
    )


def _set_cancellation(reading: Reading, call_number: int, call: Call, row: int) -> None:
    """Record how a call was cancelled: by a message, or by the end of its HTTP exchange."""
    index = reading.index
    record_ref = RecordRef(index.entry(row).seq, index.t_ns(row))
    abandoned_ns = reading.abandoned_ns(call_number)
    if abandoned_ns is not None:
        call.stall_ns = max(0, record_ref.t_ns - call.request.t_ns - abandoned_ns)
    call.cancellation = record_ref
    item = index.read_item(row)
    if not isinstance(item, Frame):
        # A call whose client closed the exchange is abandoned, regardless of how long it had waited.
        call.has_client_closed, call.exchange_end = abandoned_ns is not None, record_ref
        return
    all_params = [
        message.params
        for message in messages(item)
        if isinstance(message, Notification) and message.method in CANCELLATION_METHODS
    ]
    params_objects = [params for params in all_params if isinstance(params, dict)]
    matching_params = [params for params in params_objects if id_of(params.get("requestId")) == call.request.id]
    # An id of another JSON type also names the request, but only if there is a single cancellation.
    reason = (matching_params or (params_objects if len(all_params) == 1 else []) or [{}])[0].get("reason")
    call.cancel_reason = reason[:MAX_REASON_CHARS] if isinstance(reason, str) else None


def no_partner_text(reading: Reading, row: int) -> str:
    """Why a row has no request or response to go to."""
    number = reading.call(row)
    if number is None or reading.calls.request[number] != row:
        return "this row has no request or response to go to"
    outcome = reading.outcome(number)
    if outcome is None:
        return "no response so far; w says why" if reading.is_live else "no response so far"
    return "the response may be among lost records" if outcome is Outcome.NOT_RECORDED else "never answered"
