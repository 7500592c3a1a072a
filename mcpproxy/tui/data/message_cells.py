"""Cells of messages: the worker writes the meaning of each message into the columns of its rows."""

from analysis.conversation.call import ERRORS, MessageContext
from analysis.conversation.message import InvalidMessage, Message, Notification, Request, Response
from mcpproxy.tui.data.column_filler import ColumnFiller
from mcpproxy.tui.data.columns import (
    AS_IT_IS,
    AS_RESPONSE,
    BAD,
    CONTINUED,
    MISFIT,
    MISFITS,
    NONE,
    OTHER_BODY,
    REDIRECTED,
    UNJUDGED,
    UnusualMessage,
)


class MessageCells:
    """Writes the cells of the messages of one capture."""

    def __init__(self, filler: ColumnFiller) -> None:
        """Start without messages.

        Args:
            filler: the columns.
        """
        self._filler = filler
        self._has_begun = bytearray(1)
        """By the number of a session, whether it has begun."""

    def on_message(self, event: MessageContext, row: int) -> None:
        """Write the cells of a message.

        Args:
            event: the message.
            row: the row that completed it.
        """
        message, columns = event.message, self._filler.columns
        first_row = self._filler.row_of(message.seq, row)
        call = self._call_of(event)
        marks = 0
        if message.frames[0].exchange is not None:
            self._note_session_start(event.session.number, first_row)
        if isinstance(message, Response) and not event.is_repeat:
            answered_call = event.answered
            if answered_call is None:
                marks = BAD
                self._note_misfit(event, first_row)
            elif answered_call.outcome in ERRORS or event.is_converted:
                marks = BAD
        elif isinstance(message, Notification):
            self._note_cancellation(event, first_row)
        columns.marks[row] |= marks | REDIRECTED * event.is_repeat
        if event.is_stray_body:
            columns.marks[first_row] |= OTHER_BODY
        columns.sessions[first_row] = columns.sessions[row] = event.session.number
        if call != NONE:
            columns.call_of[row] = call
        if is_unusual(message):
            self._note_unusual(message, first_row, call)
        if first_row != row:
            self._filler.note_row_change(first_row)
            if len(message.frames) > 1:
                self._join_rows(message, first_row, row)
                columns.call_of[first_row] = call

    def _note_misfit(self, event: MessageContext, row: int) -> None:
        """Record why a response belongs to no call, and for which call it was probably meant."""
        if event.id_state in MISFITS:
            self._filler.columns.marks[row] |= MISFIT * (1 + MISFITS.index(event.id_state))
        if event.guessed_request is not None:
            self._filler.notes.add("meant", row, event.guessed_request.text)

    def _note_cancellation(self, event: MessageContext, row: int) -> None:
        """Record what a cancellation names: a call, or else an id that a call had before."""
        columns = self._filler.columns
        if event.cancels is None:
            if event.id_state in MISFITS:
                columns.marks[row] |= MISFIT * (1 + MISFITS.index(event.id_state))
            return
        # A row with several requests refers to the last of them.
        cancelled_call = event.cancelled
        number = (
            columns.call_of[self._filler.row_of(event.cancels.seq, row)]
            if cancelled_call is None
            else cancelled_call.number
        )
        if number < len(columns.calls):
            waited_ns = None if cancelled_call is None else cancelled_call.cancelled_after_ns
            is_abandoned = cancelled_call is not None and cancelled_call.abandoned_ns is not None
            self._filler.notes.add("cancels", row, number, waited_ns, is_abandoned)

    def _call_of(self, event: MessageContext) -> int:
        """The call that a message belongs to, or NONE."""
        message, call = event.message, event.call
        has_call = event.is_repeat or isinstance(message, Request) or event.answered is not None
        return call.number if has_call and call is not None and call.number < len(self._filler.columns.calls) else NONE

    def _note_unusual(self, message: Message, row: int, call: int) -> None:
        """Record a message that its row alone does not show."""
        interpretation = AS_IT_IS
        if isinstance(message, InvalidMessage) and message.reason == "unjudged":
            interpretation = UNJUDGED
        elif isinstance(message, Response) and "method" in message.body:
            interpretation = AS_RESPONSE
        self._filler.add_unusual(row, UnusualMessage(call, interpretation))

    def _join_rows(self, message: Message, first: int, last: int) -> None:
        """Record that a message spans rows; some rows between the first and the last may belong to other messages."""
        if self._filler.join_rows(first, last, is_counted=message.index in (None, 0)):
            for frame in message.frames[1:]:
                self._filler.add_mark(self._filler.row_of(frame.seq, last), CONTINUED)

    def _note_session_start(self, session: int, row: int) -> None:
        """Record the row of a session's first message, unless the session has begun already."""
        self._has_begun.extend(bytes(max(0, session + 1 - len(self._has_begun))))
        if not self._has_begun[session]:
            self._has_begun[session] = 1
            start_rows = self._filler.columns.session_start_rows
            start_rows.append(max(row, start_rows[-1] if start_rows else 0))
            self._filler.columns.session_start_numbers.append(session)


def is_unusual(message: Message) -> bool:
    """Whether a message is not simply the one in its frame: it shares the frame, spans lines, or lacks lines."""
    if message.index is not None or len(message.frames) > 1:
        return True
    verdict = message.frames[0].verdict
    if isinstance(message, Response):
        return verdict.method is not None  # a message with both `method` and `result`, interpreted as a response
    return isinstance(message, InvalidMessage) and (message.reason, verdict.kind) == ("unjudged", "invalid")
