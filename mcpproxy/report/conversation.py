"""The text of `mcpproxy show`: one conversation, with a line for each event.

It has parts that a caller can use separately: `items_of` turns a step of a reading into the items that get a line,
`lines` writes one item, and `heading` names the participants. `due_items` holds items back until the heading is known,
for `--tail` and `--limit`. `feed` does all of it.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.call import Call, MessageContext, Outcome, context_of
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request
from analysis.filter import Filter, facts_of, facts_of_batch, facts_of_call
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.methods import OPENING_METHODS
from analysis.reading import AbandonedCount, Step
from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record
from mcpproxy.report.conversation_rows import MIN_WIDTH, Batch, Item, UnansweredRequest, lay_out, row_of, row_of_leg
from mcpproxy.report.heading import Heading, heading_lines, heading_of
from mcpproxy.report.logins import LoginLines
from mcpproxy.report.turn_lines import TurnLines
from mcpproxy.report.waits import WaitingRequests, waited_ns
from mcpproxy.sanitise import sanitise
from mcpproxy.wording import units
from mcpproxy.wording.bodies import message_lines
from mcpproxy.wording.counts import abandoned_text, begins_text, count_text, guesses_text, lost_text, unrecorded_text
from mcpproxy.wording.logins import LoginSummary
from mcpproxy.wording.names import revisions_text
from mcpproxy.wording.records import Remark, is_routine_stream, remark_on
from mcpproxy.wording.spans import Style
from mcpproxy.wording.statuses import fate_status, waiting_status
from mcpproxy.wording.waits import waiting_text

Times: TypeAlias = Literal["rel", "delta", "abs"]
"""The times to show: since the capture opened, since the previous line, or local wall clock."""

MAX_LISTED_REVISIONS: Final = 16
"""The maximum number of revisions that are distinguished; a capture rarely has more than two."""
MAX_HELD_STEPS: Final = 1000
"""How many steps the heading waits until the participants are known, unless the capture is followed live."""
MAX_OPEN_POSTS: Final = 10_000
"""The maximum number of open exchanges that are remembered as POSTs."""
_BODY_INDENT: Final = 12
"""The indent, in cells, of a message that is written in full."""
MAX_UNANSWERED_LINES: Final = 20
"""The maximum number of unanswered requests of an outcome that are listed at the end."""


_BEFORE_END: Final = (MessageContext, LoginSummary)
"""What the end of a capture adds to the conversation itself."""


class ConversationItem(NamedTuple):
    """Something that gets a line."""

    t_ns: int
    """Its time, in nanoseconds since the capture opened."""
    content: Item


class Conversation:
    """Writes one capture as text, from the steps of its reading in order.

    `·` marks events other than messages, `▲` what is missing, `■` the end.
    """

    def __init__(
        self,
        session: Fold,
        style: Style | None = None,
        width: int = 80,
        *,
        times: Times = "rel",
        file: str = "",
        live: bool = False,
        only: Filter | None = None,
        whole: bool = False,
        unfold: bool = False,
        turns: bool = False,
    ) -> None:
        """Start without writing anything.

        Args:
            session: the state of the conversation, which each step updates.
            style: colours or none.
            width: the width of the terminal, in cells.
            times: how the first column shows time.
            file: the name of the capture, for the heading.
            live: whether the capture is still growing: no line is held back once `catch_up` has been called; if the
                heading was incomplete then, a line names the participants as soon as they are known.
            only: selects the messages that get a line; other records then get none.
            whole: whether each message is written in full below its line.
            unfold: whether the legs of a login are below its line even if it succeeded.
            turns: whether a line names the turn above the first of its calls.
        """
        self.session = session
        self.waits = WaitingRequests(session)
        """The requests that wait in the session; used only if `live`, because nothing waits in a session that has
        ended.
        """
        self._style = style or Style()
        self._width = max(width, MIN_WIDTH)
        self._times = times
        self._file = file
        self._is_live = live
        self.has_selected = only is None
        """Whether the filter has selected anything so far."""
        self._filter = only
        self._has_bodies = whole
        self._unfolds_logins = unfold
        self._login_lines = LoginLines(session.logins)
        self._turn_lines = TurnLines() if turns else None
        self._held_items: list[ConversationItem] | None = []
        """Items whose lines wait for the heading; None once it has been written."""
        self._end_items: Sequence[ConversationItem] = ()
        """The line about the end of the session, while logins are open that the end of the capture may make due."""
        self._heading: Heading | None = None
        """The heading, with what was known when it was due, regardless of what a filter selects after that."""
        self._revisions: set[str] = set()
        """The first revisions that sessions use."""
        self._has_caught_up = False
        self._open_posts: set[int] = set()
        self._failed_requests: set[tuple[int, int | None]] = set()
        """The requests that were shown when they failed."""
        self._settled_calls: list[Call] = []
        """Requests that can no longer be answered, in order: as many of each outcome as the end lists."""
        self._settled_counts = Counter[Outcome]()
        """How many of these requests there are, by outcome."""
        self._abandoned = AbandonedCount(self._selects)
        self._step_count = 0
        self._has_full_heading = False
        self._has_ended = False
        self._last_ns = 0
        self._shown_ns: int | None = None

    def fit(self, width: int) -> None:
        """Fit the lines into this many cells from now on."""
        self._width = max(width, MIN_WIDTH)

    # All steps at once.

    def feed(self, step: Step) -> Iterator[str]:
        """Yields the lines of a step, preceded by the heading when it is due: with a filter, before the first line."""
        was_held = self._held_items is not None
        completes_heading = (
            not was_held
            and self._is_live
            and not self._has_full_heading
            and self._can_complete_heading
            and step.end is None
        )
        if completes_heading:
            self._note_heading()
        items = self.due_items(step)
        if completes_heading:
            yield from self.lines(ConversationItem(self._last_ns, self._participants()))
        yield from self._under_heading(items, was_held=was_held)

    def catch_up(self) -> Iterator[str]:
        """Yields the lines that were held back; called once everything in a growing capture has been fed."""
        was_held = self._held_items is not None
        return self._under_heading(self.release_held(), was_held=was_held)

    def due_items(self, step: Step) -> Sequence[ConversationItem]:
        """Returns the items of a step, and those that were held back, once the heading is known."""
        items = self._with_end_last((*self.items_of(step), *self._new_revisions(step)), step)
        self._step_count += 1
        if self._held_items is None:
            return items
        self._held_items += items
        is_due = (
            self._has_caught_up
            or self._can_complete_heading
            or self._step_count >= MAX_HELD_STEPS
            or step.end is not None
        )
        return self._release_items() if is_due else ()

    def _with_end_last(self, items: Sequence[ConversationItem], step: Step) -> Sequence[ConversationItem]:
        """Returns the items with the line about the end after the logins that only the end of the capture makes due."""
        held_items, self._end_items = self._end_items, ()
        if step.end is not None:
            count = next(
                (number for number, item in enumerate(items) if not isinstance(item.content, _BEFORE_END)), len(items)
            )
            return (*items[:count], *held_items, *items[count:])
        if not items:
            self._end_items = held_items
            return ()
        items = (*held_items, *items)
        content = items[-1].content
        is_end = isinstance(content, Remark) and content.is_end
        if is_end and any(not login.is_over for login in self.session.logins.all()):
            self._end_items = items[-1:]
            return items[:-1]
        return items

    def release_held(self) -> Sequence[ConversationItem]:
        """Returns the items that were held back; from now on, nothing is held back."""
        self._has_caught_up = True
        return self._release_items()

    @property
    def _can_complete_heading(self) -> bool:
        """Whether the heading can be complete."""
        return self.session.server is not None and bool(self.session.revisions)

    def _note_heading(self) -> None:
        self._heading, self._has_full_heading = heading_of(self.session), self._can_complete_heading
        self._revisions |= set(self.session.revisions[:MAX_LISTED_REVISIONS])

    def _participants(self) -> Remark:
        """Returns what the heading lacked when it was written."""
        heading = self._heading or heading_of(self.session)
        return Remark("·", f"{heading.revisions}  {heading.peers}")

    def _release_items(self) -> Sequence[ConversationItem]:
        held_items = self._held_items
        if held_items is not None and self._heading is None:
            self._note_heading()
        # Without a filter, even a capture without lines gets its heading.
        if held_items or (held_items is not None and self._filter is None):
            self._held_items = None
            return held_items
        return ()

    def _under_heading(self, items: Sequence[ConversationItem], *, was_held: bool) -> Iterator[str]:
        if was_held and self._held_items is None:
            yield from self.heading()
        yield from self._lines(items)

    def _lines(self, items: Iterable[ConversationItem]) -> Iterator[str]:
        return (line for item in items for line in self.lines(item))

    # Step by step.

    def items_of(self, step: Step) -> tuple[ConversationItem, ...]:
        """Returns the items that a step shows, without writing them.

        The records of a stream that carry no message show nothing: its beginning, its end, and events without data. A
        filter that selects such an event shows it. The legs of a login show nothing until the login is due, unless the
        capture is followed live. The last step shows what only the end reveals: that the capture was not closed, logins
        that were not completed, and requests without a response.
        """
        item, contexts = step.item, step.messages
        self._abandoned.on_step(step)
        if step.end is not None:
            return tuple(self._closing_items(contexts, may_grow=step.end == "open"))
        if item is None:
            return ()
        if self._is_live:
            self.waits.on_step(step)
        if isinstance(item, Record) and item.rec == "exchange":
            self._note_post(item)
        if isinstance(item, Frame):
            self._last_ns = item.t_ns
            if item.is_priming and self._filter is None:
                return ()
            message_items = tuple(
                message_item
                for message in contexts
                if self._selects(message)
                for message_item in self._message_items(item.t_ns, message)
            )
            shows_batch = item.verdict.kind == "batch" and (bool(message_items) or self._selects(item))
            message_items += self._failures(message.cancelled for message in contexts)
            return (
                (ConversationItem(item.t_ns, Batch(item, len(contexts))), *message_items)
                if shows_batch
                else message_items
            )
        if isinstance(item, Record):
            self._last_ns = item.t_ns
        late_items = tuple(
            ConversationItem(message.message.t_ns, message) for message in contexts if self._selects(message)
        )
        if isinstance(item, Record) and item.rec == "exchange":
            # Closing the response was the cancellation (2026-07-28), so no message reported it.
            left_calls = [call for call in step.left if call.request.method not in ENDLESS_METHODS]
            late_items += tuple(_unanswered_item(item.t_ns, call) for call in left_calls if self._selects(call))
            other_calls = [call for call in step.unanswered if call not in left_calls]
            late_items += self._failures(other_calls)
            self._note_settled(other_calls)
        login_items = self._login_items(item)
        remark = self._remark_on(item)
        if isinstance(item, Record) and item.rec == "header" and item.seq and item.seq == self.session.first_seq:
            remark = Remark("▲", begins_text(item.seq), "bad")
        if remark is None or (isinstance(item, Record) and self._is_redundant(item, login_items)):
            return (*late_items, *login_items)
        self._has_ended = self._has_ended or remark.is_end
        if self._filter is not None:
            return late_items
        return (*late_items, ConversationItem(self._last_ns, remark), *login_items)

    def _message_items(self, t_ns: int, context: MessageContext) -> Iterator[ConversationItem]:
        """Yields the item of a message, after the line of its turn if that is due."""
        for remark in () if self._turn_lines is None else self._turn_lines.on_message(context):
            yield ConversationItem(t_ns, remark)
        yield ConversationItem(t_ns, context)

    def _remark_on(self, item: Record | Damage) -> Remark | None:
        """Returns the remark on a record or on damage; the challenge of a login is no alarm."""
        remark = remark_on(item, ended=self._has_ended)
        is_challenge = isinstance(item, Record) and self._login_lines.is_challenge
        return remark._replace(glyph="·", role="dim") if remark is not None and is_challenge else remark

    def _login_items(self, item: Record | Damage) -> tuple[ConversationItem, ...]:
        """Returns the logins that are due after a record other than a frame."""
        if self._filter is not None or not isinstance(item, Record):
            return ()
        return tuple(ConversationItem(login.ended_ns, login) for login in self._login_lines.on_record(item))

    def _new_revisions(self, step: Step) -> Iterator[ConversationItem]:
        """Yields an item where a session begins to use a revision that the heading does not name."""
        for message, session in ((context.message, context.session) for context in step.messages):
            revision = session.revision
            # `initialize` only proposes a revision.
            is_settled = not isinstance(message, Request) or message.method not in OPENING_METHODS
            if revision is None or revision in self._revisions or not is_settled:
                continue
            if len(self._revisions) == MAX_LISTED_REVISIONS:
                return
            self._revisions.add(revision)
            if self._filter is None and self._heading is not None and self._heading.revisions:
                text = f"session {session.number} speaks revision {sanitise(revision, 40)}"
                yield ConversationItem(self._last_ns, Remark("·", text))

    def _selects(self, item: MessageContext | Frame | Call) -> bool:
        """Whether the filter selects a message, a whole batch, or an unanswered request."""
        if self._filter is None:
            return True
        if isinstance(item, Frame):
            facts = facts_of_batch(item)
        elif isinstance(item, Call):
            if item.session is None:
                return True
            facts = facts_of_call(item)
        else:
            facts = facts_of(item)
        is_selected = self._filter.matches(facts)
        self.has_selected = self.has_selected or is_selected
        return is_selected

    def _failures(self, ended_calls: Iterable[Call | None]) -> tuple[ConversationItem, ...]:
        """Returns the requests that the filter selects only now that they have failed.

        Without `live`, there are none, because the filter knew their outcomes from the start.
        """
        if self._filter is None or not self._is_live:
            return ()
        failed_calls = [
            call for call in ended_calls if call is not None and not self._selects_alone(call) and self._selects(call)
        ]
        self._failed_requests |= {(call.request.seq, call.request.index) for call in failed_calls}
        return tuple(_unanswered_item(call.request.t_ns, call) for call in failed_calls)

    def _note_settled(self, ended_calls: Iterable[Call]) -> None:
        """Remember, for the end, requests that ended with their HTTP exchange without a line that says so."""
        for call in filter(self._is_counted_at_end, ended_calls):
            self._settled_counts[call.outcome] += 1
            if self._settled_counts[call.outcome] <= MAX_UNANSWERED_LINES:
                self._settled_calls.append(call)

    def _is_counted_at_end(self, call: Call) -> bool:
        """Whether a request without a response is counted at the end: not if the line of a login says what it got."""
        exchange = call.request.frames[0].exchange
        is_challenged = exchange is not None and self.session.logins.of_exchange(exchange) is not None
        is_repeated = call.http is not None and call.http.asks_for_nonce  # by a client that has logged in before
        return (
            call.request.method not in ENDLESS_METHODS
            and (self._filter is not None or not (is_challenged or is_repeated))
            and (call.request.seq, call.request.index) not in self._failed_requests
            and self._selects(call)
        )

    def _selects_alone(self, call: Call) -> bool:
        """Whether a request got a line before its end was known."""
        return (
            self._filter is None
            or call.session is None
            or self._filter.matches(facts_of(context_of(call.request, call.session, call)))
        )

    def _note_post(self, record: Record) -> None:
        request, number = record.members.get("request"), record.members.get("exchange")
        if type(number) is not int:
            return
        if record.members.get("stage") == "end":
            self._open_posts.discard(number)
        elif isinstance(request, dict) and request.get("method") == "POST" and len(self._open_posts) < MAX_OPEN_POSTS:
            self._open_posts.add(number)

    def _is_redundant(self, record: Record, login_items: Sequence[ConversationItem]) -> bool:
        """Whether a record adds nothing to other lines: it is about a stream that answers a POST, or part of a login.

        If the capture is followed live, legs have lines until their login has its own, so one that hangs is visible.
        """
        if self._login_lines.is_folded and (not self._is_live or login_items):
            return True
        members = record.members
        number = members.get("exchange")
        if record.rec != "stream" or type(number) is not int or number not in self._open_posts:
            return False
        return is_routine_stream(members, is_waiting=self.session.is_waiting_in(number))

    def _closing_items(self, contexts: Iterable[MessageContext], *, may_grow: bool) -> Iterator[ConversationItem]:
        for context in filter(self._selects, contexts):
            yield ConversationItem(context.message.t_ns, context)
        yield from self._last_login_items()
        open_calls = [call for call in self.session.open_calls() if self._is_counted_at_end(call)]
        has_ended = self._has_ended or self.session.ending is not None
        is_open = may_grow and not has_ended
        if is_open and self.has_selected:
            yield ConversationItem(self._last_ns, Remark("·", "still being recorded"))
        if not may_grow and not has_ended and self._filter is None:
            yield ConversationItem(self._last_ns, Remark("■", "capture ends here (not closed)"))
        revisions = revisions_text(self.session.revisions)
        if self._filter is None and self._heading is not None and self._heading.revisions not in ("", revisions):
            noun = "revision" if len(self.session.revisions) == 1 else "revisions"
            yield ConversationItem(self._last_ns, Remark("·", f"{noun} {revisions}"))
        if self.session.unrecorded_count:
            yield ConversationItem(self._last_ns, Remark("▲", unrecorded_text(self.session.unrecorded_count), "bad"))
        if self.session.routing.guess_count:
            yield ConversationItem(self._last_ns, Remark("▲", guesses_text(self.session.routing.guess_count)))
        for forgotten in self.session.forgotten_entries:
            yield ConversationItem(self._last_ns, Remark("▲", forgotten.text))
        by_outcome = {outcome: [call for call in open_calls if call.outcome is outcome] for outcome in Outcome}
        yield from self._items_of_outcome(Outcome.FAILED, by_outcome[Outcome.FAILED], "failed")
        if self._abandoned.calls:
            # Calls that were answered late, or whose client closed the HTTP exchange, already have their own line.
            abandoned = [call for call in by_outcome[Outcome.CANCELLED] if call.abandoned_ns is not None]
            head = abandoned_text(self._abandoned.calls, self._abandoned.answered_late)
            yield from self._listed_items(
                head, [UnansweredRequest(call.request, fate_status(call)) for call in abandoned]
            )
        yield from self._items_of_outcome(
            Outcome.NOT_RECORDED, by_outcome[Outcome.NOT_RECORDED], "without a recorded response"
        )
        waits = [
            (call.request, waited_ns(self.session, call.request))
            for call in by_outcome[Outcome.UNANSWERED]
            if is_open and call.is_open
        ]
        doubt = self._doubt()
        if waits:
            doubt_text = f", or seems to: {doubt}" if doubt else ""
            head = f"{waiting_text(len(waits), max(waited for _, waited in waits))}{doubt_text}"
            yield from self._listed_items(
                head, [UnansweredRequest(request, waiting_status(waited)) for request, waited in waits]
            )
        unanswered = [call for call in by_outcome[Outcome.UNANSWERED] if not (is_open and call.is_open)]
        yield from self._counted_items(unanswered, f"seem unanswered: {doubt}" if doubt else "unanswered")

    def _last_login_items(self) -> Iterator[ConversationItem]:
        """Yields the logins that are due at the end, and the requests of legs that have not ended."""
        if self._filter is not None:
            return
        for summary in self._login_lines.last_summaries():
            yield ConversationItem(summary.ended_ns, summary)
        for record in () if self._is_live else self._login_lines.held_requests():
            remark = remark_on(record, ended=self._has_ended)
            if remark is not None:
                yield ConversationItem(record.t_ns, remark)

    def _items_of_outcome(self, outcome: Outcome, open_calls: Sequence[Call], state: str) -> Iterator[ConversationItem]:
        """Yields the items of the requests with an outcome that both open and ended requests can have."""
        settled_calls = [call for call in self._settled_calls if call.outcome is outcome]
        all_calls = sorted([*settled_calls, *open_calls], key=lambda call: call.request.seq)
        yield from self._counted_items(all_calls, state, self._settled_counts[outcome] - len(settled_calls))

    def _counted_items(self, calls: Sequence[Call], state: str, other_count: int = 0) -> Iterator[ConversationItem]:
        """Yields how many requests have a state, and the first of them; `other_count` is the number of others."""
        if calls:
            unanswered = [UnansweredRequest(call.request, fate_status(call)) for call in calls]
            yield from self._listed_items(
                f"{count_text(len(calls) + other_count, 'request')} {state}", unanswered, other_count
            )

    def _listed_items(
        self, head: str, requests: Sequence[UnansweredRequest], other_count: int = 0
    ) -> Iterator[ConversationItem]:
        yield ConversationItem(self._last_ns, Remark("·", head))
        for unanswered in requests[:MAX_UNANSWERED_LINES]:
            yield ConversationItem(unanswered.request.t_ns, unanswered)
        other_count += max(0, len(requests) - MAX_UNANSWERED_LINES)
        if other_count:
            yield ConversationItem(self._last_ns, Remark("·", f"and {other_count:,} more"))

    def _doubt(self) -> str:
        """Returns why responses that seem to be missing may exist, or an empty text if they cannot."""
        if self.session.is_complete:
            return ""
        causes = [
            f"{count_text(self.session.unjudged_count, 'frame')} not judged" if self.session.unjudged_count else "",
            lost_text(self.session.lost_count) if self.session.lost_count else "",
        ]
        return ", ".join(filter(None, causes)) or "more were open at once than are kept"

    def lines(self, item: ConversationItem) -> Iterator[str]:
        """Yields the line of an item, without its line feed; two lines if the text of an error needs its own."""
        row = row_of(item.content, self._width)
        for spans in lay_out(row, self._clock(item), self._width):
            yield self._style.paint(spans).rstrip()
        if isinstance(item.content, LoginSummary) and (item.content.is_bad or self._unfolds_logins):
            yield from self.leg_lines(item.content)
        if self._has_bodies:
            yield from (
                f"{'':<{_BODY_INDENT}}{line}" for frame in frames_below(item.content) for line in message_lines(frame)
            )

    def leg_lines(self, summary: LoginSummary) -> Iterator[str]:
        """Yields a line for each leg of a login."""
        for number, leg in enumerate(summary.legs, 1):
            if summary.omitted_count and number == len(summary.legs):
                row = row_of(Remark("·", f"  {count_text(summary.omitted_count, 'more request')}"), self._width)
                yield from (self._style.paint(spans).rstrip() for spans in lay_out(row, "", self._width))
            # The times of legs are those of the capture, because they are earlier than that of the line above.
            clock = units.offset_text(leg.started_ns) if self._times != "abs" else self._wall_clock(leg.started_ns)
            for spans in lay_out(row_of_leg(leg, clock, self._width), clock, self._width):
                yield self._style.paint(spans).rstrip()

    def heading(self) -> Iterator[str]:
        """Yields one or more lines: who talks to whom, in which revision, and where it is recorded, as far as known."""
        date = self._wall(0, "%Y-%m-%d") if self._times == "abs" else None
        return heading_lines(self._heading or heading_of(self.session), self._style, self._width, date, self._file)

    # Time.

    def _clock(self, item: ConversationItem) -> str:
        t_ns = item.t_ns
        previous_ns = self._shown_ns
        self._shown_ns = t_ns
        if self._times == "abs":
            return self._wall_clock(t_ns)
        # A request without a response is listed out of order, so the time since the previous line means nothing.
        if self._times == "delta" and not isinstance(item.content, UnansweredRequest):
            t_ns = max(0, t_ns - previous_ns) if previous_ns is not None else 0
        return units.offset_text(t_ns)

    def _wall_clock(self, t_ns: int) -> str:
        """Returns local wall-clock time, or the time since the capture opened if the header contains no valid time."""
        wall_time = self._wall(t_ns, "%H:%M:%S")
        if wall_time is None:
            return units.offset_text(t_ns)
        return f"{wall_time}.{((self.session.wall_ns or 0) + t_ns) // 1_000_000 % 1000:03}"

    def _wall(self, t_ns: int, time_format: str) -> str | None:
        """Returns local wall-clock time, or None if the header contains no valid time."""
        if self.session.wall_ns is None:
            return None
        try:
            return time.strftime(time_format, time.localtime((self.session.wall_ns + t_ns) // 1_000_000_000))
        except (OverflowError, ValueError, OSError):
            return None


def _unanswered_item(t_ns: int, call: Call) -> ConversationItem:
    """Returns the item of a request without a response."""
    return ConversationItem(t_ns, UnansweredRequest(call.request, fate_status(call)))


def frames_below(item: Item) -> tuple[Frame, ...]:
    """Returns the frames to write below a line: a batch as a whole, and not again for each message in it."""
    if isinstance(item, Batch):
        return (item.frame,)
    return item.message.frames if isinstance(item, MessageContext) and item.message.index is None else ()
