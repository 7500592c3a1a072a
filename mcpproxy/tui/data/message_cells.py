"""Cells of messages, in the worker: what a message means, written into the columns of its rows."""

from analysis.conversation.call import ERRORS, MessageContext
from analysis.conversation.message import Invalid, Message, Notification, Request, Response
from mcpproxy.tui.data.column_filler import ColumnFiller
from mcpproxy.tui.data.columns import (
    AGAIN,
    AS_IT_IS,
    AS_RESPONSE,
    BAD,
    BESIDE,
    CONTINUED,
    MISFIT,
    MISFITS,
    NONE,
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
        """Write what a message means.

        Args:
            event: the message.
            row: the row that has completed it.
        """
        message, columns = event.message, self._filler.columns
        at = self._filler.row_of(message.seq, row)
        own = self._call_of(event)
        marks = 0
        if message.frames[0].exchange is not None:
            self._begin(event.session.number, at)
        if isinstance(message, Response) and not event.is_repeat:
            answered = event.answered
            if answered is None:
                marks = BAD  # the row that completed it is wrong
                self._note_misfit(event, at)
            elif answered.outcome in ERRORS or event.is_converted:
                marks = BAD
        elif isinstance(message, Notification):
            self._note_cancellation(event, at)
        columns.marks[row] |= marks | AGAIN * event.is_repeat
        if event.is_stray_body:
            columns.marks[at] |= BESIDE
        columns.sessions[at] = columns.sessions[row] = event.session.number
        if own != NONE:
            columns.call_of[row] = own
        if is_unusual(message):
            self._note_unusual(message, at, own)
        if at != row:
            self._filler.change_row(at)
            if len(message.frames) > 1:
                self._join(message, at, row)
                columns.call_of[at] = own

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
        known = event.cancelled
        number = columns.call_of[self._filler.row_of(event.cancels.seq, row)] if known is None else known.number
        if number < len(columns.calls):
            waited_ns = None if known is None else known.cancelled_after_ns
            is_abandoned = known is not None and known.abandoned_ns is not None
            self._filler.notes.add("cancels", row, number, waited_ns, is_abandoned)

    def _call_of(self, event: MessageContext) -> int:
        """The call that a message belongs to, or NONE."""
        message, call = event.message, event.call
        belongs = event.is_repeat or isinstance(message, Request) or event.answered is not None
        return call.number if belongs and call is not None and call.number < len(self._filler.columns.calls) else NONE

    def _note_unusual(self, message: Message, row: int, number: int) -> None:
        """Record a message that its row alone does not show."""
        taken = AS_IT_IS
        if isinstance(message, Invalid) and message.reason == "unjudged":
            taken = UNJUDGED
        elif isinstance(message, Response) and "method" in message.body:
            taken = AS_RESPONSE
        self._filler.add_unusual(row, UnusualMessage(number, taken))

    def _join(self, message: Message, first: int, last: int) -> None:
        """Record that rows from one to another are one message; the rows between may belong to others."""
        if self._filler.join(first, last, is_counted=message.index in (None, 0)):
            for frame in message.frames[1:]:
                self._filler.mark(self._filler.row_of(frame.seq, last), CONTINUED)

    def _begin(self, session: int, row: int) -> None:
        """Record where a session begins: with its first message. A session without messages has a number, too."""
        self._has_begun.extend(bytes(max(0, session + 1 - len(self._has_begun))))
        if not self._has_begun[session]:
            self._has_begun[session] = 1
            begun = self._filler.columns.begun
            begun.append(max(row, begun[-1] if begun else 0))
            self._filler.columns.begun_numbers.append(session)


def is_unusual(message: Message) -> bool:
    """Whether a message is not simply the one in its frame: it shares a frame, spans lines, or lacks some."""
    if message.index is not None or len(message.frames) > 1:
        return True
    verdict = message.frames[0].verdict
    if isinstance(message, Response):
        return verdict.method is not None  # a message with both `method` and `result` that was taken for a response
    return isinstance(message, Invalid) and (message.reason, verdict.kind) == ("unjudged", "invalid")
