"""The text of `mcpproxy show`: one conversation, with a line for each event.

It has parts that a caller can use separately: `items_of` turns a step of a reading into the things worth a line,
`lines` writes one thing, `heading` names the participants. `due` holds things back until the heading is known, for
`--tail` and `--limit`. `feed` does all of it.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.call import ENDLESS, Call, MessageContext, Outcome, context_of
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request
from analysis.filter import Filter, facts_of, facts_of_batch, facts_of_call
from analysis.protocol.methods import OPENING
from analysis.reading import AbandonedCount, Step
from captures.frame import Frame
from captures.record import Record
from mcpproxy.report.conversation_rows import NARROWEST, Batch, Item, Unanswered, lay_out, row_of
from mcpproxy.report.heading import Heading, heading_lines, heading_of
from mcpproxy.report.waits import Waits, waited_ns, waiting_text
from mcpproxy.sanitise import sanitise
from mcpproxy.wording import units
from mcpproxy.wording.bodies import message_lines
from mcpproxy.wording.counts import abandoned_text, begins_text, count_text, guesses_text, lost_text, unrecorded_text
from mcpproxy.wording.names import revisions_text
from mcpproxy.wording.records import Remark, is_routine_stream, remark_on
from mcpproxy.wording.spans import Style
from mcpproxy.wording.statuses import fate, waiting

Times: TypeAlias = Literal["rel", "delta", "abs"]
"""Since the capture opened, since the line before, or local wall clock."""

MAX_LISTED_REVISIONS: Final = 16
"""Revisions that are distinguished: a capture rarely has more than two."""
HELD_ITEMS: Final = 1000
"""Items for which the heading waits until the participants are known, unless the capture is followed live."""
MAX_OPEN_POSTS: Final = 10_000
"""The most open exchanges that are remembered as POSTs."""
_BODY: Final = 12
"""Cells before the text of a message that is written whole."""
UNANSWERED_LINES: Final = 20
"""Unanswered requests that are listed at the end."""


class ConversationItem(NamedTuple):
    """Something worth a line."""

    t_ns: int
    """When: nanoseconds since the capture opened."""
    what: Item


class Conversation:
    """Writes one capture as text. Feed it the steps of a reading, in order.

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
    ) -> None:
        """Prepare; nothing is printed yet.

        Args:
            session: the state of the conversation, which each step updates.
            style: colours or none.
            width: columns of the terminal.
            times: how the first column shows time.
            file: name of the capture, for the heading.
            live: a capture that is still growing: no line is held back once `catch_up` was called; if the heading was
                incomplete then, a line names the participants as soon as they are known.
            only: selects the messages that are worth a line; other records then get none.
            whole: each message is written in full below its line.
        """
        self.session = session
        self.waits = Waits(session)
        """The requests that wait in the session; used only if `live`, because nothing waits in a session that has
        ended.
        """
        self._style = style or Style()
        self._width = max(width, NARROWEST)
        self._times = times
        self._file = file
        self._live = live
        self.has_selected = only is None
        """Whether the filter has selected anything so far."""
        self._only = only
        self._whole = whole
        self._held: list[ConversationItem] | None = []
        """Things whose lines wait for the heading; None once it is written."""
        self._heading: Heading | None = None
        """The heading, with what was known when it was due, regardless of what a filter selects after that."""
        self._revisions: set[str] = set()
        """The first revisions that sessions use."""
        self._caught_up = False
        self._posts: set[int] = set()
        self._failed: set[tuple[int, int | None]] = set()
        """The requests that were shown when they became a failure."""
        self._settled: list[Call] = []
        """Requests that can no longer be answered, in order: as many of each outcome as the end lists."""
        self._settled_count = Counter[Outcome]()
        """How many there are."""
        self._abandoned = AbandonedCount(self._selects)
        self._items = 0
        self._named = False
        self._ended = False
        self._last_ns = 0
        self._shown_ns: int | None = None

    def fit(self, width: int) -> None:
        """Fit the lines into this many columns from now on."""
        self._width = max(width, NARROWEST)

    # All steps at once.

    def feed(self, step: Step) -> Iterator[str]:
        """The lines of a step, preceded by the heading when it is due; with a filter, before the first line."""
        was_held = self._held is not None
        is_completed = not was_held and self._live and not self._named and self._is_known and step.end is None
        if is_completed:
            self._note_heading()
        things = self.due(step)
        if is_completed:
            yield from self.lines(ConversationItem(self._last_ns, self._participants()))
        yield from self._under_heading(things, was_held=was_held)

    def catch_up(self) -> Iterator[str]:
        """The lines that were held back, because everything in a growing capture so far was fed."""
        was_held = self._held is not None
        return self._under_heading(self.due_now(), was_held=was_held)

    def due(self, step: Step) -> Sequence[ConversationItem]:
        """The things of a step, and those that were held back, once the heading is known."""
        things = (*self.items_of(step), *self._new_revisions(step))
        self._items += 1
        if self._held is None:
            return things
        self._held += things
        is_due = self._caught_up or self._is_known or self._items >= HELD_ITEMS or step.end is not None
        return self._release() if is_due else ()

    def due_now(self) -> Sequence[ConversationItem]:
        """The things that were held back; nothing is held back from now on."""
        self._caught_up = True
        return self._release()

    @property
    def _is_known(self) -> bool:
        """Whether the heading can be complete."""
        return self.session.server is not None and bool(self.session.revisions)

    def _note_heading(self) -> None:
        self._heading, self._named = heading_of(self.session), self._is_known
        self._revisions |= set(self.session.revisions[:MAX_LISTED_REVISIONS])

    def _participants(self) -> Remark:
        """What the heading lacked when it was written."""
        heading = self._heading or heading_of(self.session)
        return Remark("·", f"{heading.revisions}  {heading.peers}")

    def _release(self) -> Sequence[ConversationItem]:
        held = self._held
        if held is not None and self._heading is None:
            self._note_heading()
        # Without a filter, even a capture without lines gets its heading.
        if held or (held is not None and self._only is None):
            self._held = None
            return held
        return ()

    def _under_heading(self, things: Sequence[ConversationItem], *, was_held: bool) -> Iterator[str]:
        if was_held and self._held is None:
            yield from self.heading()
        yield from self._lines(things)

    def _lines(self, things: Iterable[ConversationItem]) -> Iterator[str]:
        return (line for thing in things for line in self.lines(thing))

    # Step by step.

    def items_of(self, step: Step) -> tuple[ConversationItem, ...]:
        """The things that a step shows; nothing is written yet.

        The records of a stream that carry no message show nothing: its beginning, its end, and events without data. A
        filter that selects such an event shows it. The last step shows what only the end reveals: that the capture was
        not closed, and requests without a response.
        """
        item, contexts = step.item, step.messages
        self._abandoned.on_step(step)
        if step.end is not None:
            return tuple(self._closing(contexts, still_open=step.end == "open"))
        if item is None:
            return ()
        if self._live:
            self.waits.on_step(step)
        if isinstance(item, Record) and item.rec == "exchange":
            self._note_post(item)
        if isinstance(item, Frame):
            self._last_ns = item.t_ns
            if item.is_priming and self._only is None:
                return ()
            things = tuple(ConversationItem(item.t_ns, message) for message in contexts if self._selects(message))
            has_head = item.verdict.kind == "batch" and (bool(things) or self._selects(item))
            things += self._failures(message.cancelled for message in contexts)
            return (ConversationItem(item.t_ns, Batch(item, len(contexts))), *things) if has_head else things
        if isinstance(item, Record):
            self._last_ns = item.t_ns
        late = tuple(ConversationItem(message.message.t_ns, message) for message in contexts if self._selects(message))
        if isinstance(item, Record) and item.rec == "exchange":
            # Closing the response was the cancellation (2026-07-28), so no message reported it.
            left = [call for call in step.left if call.request.method not in ENDLESS]
            late += tuple(_left(item.t_ns, call) for call in left if self._selects(call))
            others = [one for one in step.unanswered if one not in left]
            late += self._failures(others)
            self._note_settled(others)
        remark = remark_on(item, ended=self._ended)
        if isinstance(item, Record) and item.rec == "header" and item.seq and item.seq == self.session.begins_at:
            remark = Remark("▲", begins_text(item.seq), "bad")
        if remark is None or (isinstance(item, Record) and self._is_redundant(item)):
            return late
        self._ended = self._ended or remark.is_end
        return late if self._only is not None else (*late, ConversationItem(self._last_ns, remark))

    def _new_revisions(self, step: Step) -> Iterator[ConversationItem]:
        """Where a session begins to use a revision that the heading does not name."""
        for message, session in ((context.message, context.session) for context in step.messages):
            revision = session.revision
            # `initialize` only proposes one.
            is_settled = not isinstance(message, Request) or message.method not in OPENING
            if revision is None or revision in self._revisions or not is_settled:
                continue
            if len(self._revisions) == MAX_LISTED_REVISIONS:
                return
            self._revisions.add(revision)
            if self._only is None and self._heading is not None and self._heading.revisions:
                text = f"session {session.number} speaks revision {sanitise(revision, 40)}"
                yield ConversationItem(self._last_ns, Remark("·", text))

    def _selects(self, item: MessageContext | Frame | Call) -> bool:
        """Whether a message is worth a line; or a whole batch, or an unanswered request."""
        if self._only is None:
            return True
        if isinstance(item, Frame):
            facts = facts_of_batch(item)
        elif isinstance(item, Call):
            if item.session is None:
                return True
            facts = facts_of_call(item)
        else:
            facts = facts_of(item)
        is_selected = self._only.matches(facts)
        self.has_selected = self.has_selected or is_selected
        return is_selected

    def _failures(self, ended: Iterable[Call | None]) -> tuple[ConversationItem, ...]:
        """The requests that a filter selects now that they have failed; without `live`, that was known before."""
        if self._only is None or not self._live:
            return ()
        failed = [call for call in ended if call is not None and not self._selects_alone(call) and self._selects(call)]
        self._failed |= {(call.request.seq, call.request.index) for call in failed}
        return tuple(_left(call.request.t_ns, call) for call in failed)

    def _note_settled(self, ended: Iterable[Call]) -> None:
        """For the end, note the requests that ended with their HTTP exchange without a line that says so."""
        for call in filter(self._is_left, ended):
            self._settled_count[call.outcome] += 1
            if self._settled_count[call.outcome] <= UNANSWERED_LINES:
                self._settled.append(call)

    def _is_left(self, call: Call) -> bool:
        """Whether a request without a response is counted at the end."""
        return (
            call.request.method not in ENDLESS
            and (call.request.seq, call.request.index) not in self._failed
            and self._selects(call)
        )

    def _selects_alone(self, call: Call) -> bool:
        """Whether a request was worth a line before its end was known."""
        return (
            self._only is None
            or call.session is None
            or self._only.matches(facts_of(context_of(call.request, call.session)))
        )

    def _note_post(self, record: Record) -> None:
        request, number = record.members.get("request"), record.members.get("exchange")
        if type(number) is not int:
            return
        if record.members.get("stage") == "end":
            self._posts.discard(number)
        elif isinstance(request, dict) and request.get("method") == "POST" and len(self._posts) < MAX_OPEN_POSTS:
            self._posts.add(number)

    def _is_redundant(self, record: Record) -> bool:
        """Whether a record adds nothing to the messages: it is about a stream that answers a POST."""
        members = record.members
        number = members.get("exchange")
        if record.rec != "stream" or type(number) is not int or number not in self._posts:
            return False
        return is_routine_stream(members, is_waiting=self.session.is_waiting_in(number))

    def _closing(self, rest: Iterable[MessageContext], *, still_open: bool) -> Iterator[ConversationItem]:
        for context in filter(self._selects, rest):
            yield ConversationItem(context.message.t_ns, context)
        open_ = [call for call in self.session.open_calls() if self._is_left(call)]
        has_ended = self._ended or self.session.ending is not None
        is_open = still_open and not has_ended
        if is_open and self.has_selected:
            yield ConversationItem(self._last_ns, Remark("·", "still being recorded"))
        if not still_open and not has_ended and self._only is None:
            yield ConversationItem(self._last_ns, Remark("■", "capture ends here (not closed)"))
        revisions = revisions_text(self.session.revisions)
        if self._only is None and self._heading is not None and self._heading.revisions not in ("", revisions):
            noun = "revision" if len(self.session.revisions) == 1 else "revisions"
            yield ConversationItem(self._last_ns, Remark("·", f"{noun} {revisions}"))
        if self.session.unrecorded:
            yield ConversationItem(self._last_ns, Remark("▲", unrecorded_text(self.session.unrecorded), "bad"))
        if self.session.routing.guesses:
            yield ConversationItem(self._last_ns, Remark("▲", guesses_text(self.session.routing.guesses)))
        for forgotten in self.session.forgotten:
            yield ConversationItem(self._last_ns, Remark("▲", forgotten.text))
        by = {outcome: [one for one in open_ if one.outcome is outcome] for outcome in Outcome}
        yield from self._all_of(Outcome.FAILED, by[Outcome.FAILED], "failed")
        if self._abandoned.calls:
            # Those that were answered late, or left by closing the HTTP exchange, already have their own line.
            abandoned = [one for one in by[Outcome.CANCELLED] if one.abandoned_ns is not None]
            head = abandoned_text(self._abandoned.calls, self._abandoned.answered_late)
            yield from self._listed(head, [Unanswered(one.request, fate(one)) for one in abandoned])
        yield from self._all_of(Outcome.NOT_RECORDED, by[Outcome.NOT_RECORDED], "without a recorded response")
        waits = [
            (one.request, waited_ns(self.session, one.request))
            for one in by[Outcome.UNANSWERED]
            if is_open and one.is_open
        ]
        doubt = self._doubt()
        if waits:
            seems = f", or seems to: {doubt}" if doubt else ""
            head = f"{waiting_text(len(waits), max(waited for _, waited in waits))}{seems}"
            yield from self._listed(head, [Unanswered(request, waiting(waited)) for request, waited in waits])
        left = [one for one in by[Outcome.UNANSWERED] if not (is_open and one.is_open)]
        yield from self._counted(left, f"seem unanswered: {doubt}" if doubt else "unanswered")

    def _all_of(self, outcome: Outcome, open_: Sequence[Call], state: str) -> Iterator[ConversationItem]:
        """The requests with an outcome that both open and ended requests can have."""
        settled = [call for call in self._settled if call.outcome is outcome]
        both = sorted([*settled, *open_], key=lambda call: call.request.seq)
        yield from self._counted(both, state, self._settled_count[outcome] - len(settled))

    def _counted(self, left: Sequence[Call], state: str, more: int = 0) -> Iterator[ConversationItem]:
        """How many requests have a state, and the first of them; `more` is the number of others."""
        if left:
            unanswered = [Unanswered(call.request, fate(call)) for call in left]
            yield from self._listed(f"{count_text(len(left) + more, 'request')} {state}", unanswered, more)

    def _listed(self, head: str, requests: Sequence[Unanswered], more: int = 0) -> Iterator[ConversationItem]:
        yield ConversationItem(self._last_ns, Remark("·", head))
        for one in requests[:UNANSWERED_LINES]:
            yield ConversationItem(one.request.t_ns, one)
        more += max(0, len(requests) - UNANSWERED_LINES)
        if more:
            yield ConversationItem(self._last_ns, Remark("·", f"and {more:,} more"))

    def _doubt(self) -> str:
        """Why responses that seem to be missing may not be, or an empty text if they are."""
        if self.session.is_clear:
            return ""
        causes = [
            f"{count_text(self.session.unjudged, 'frame')} not judged" if self.session.unjudged else "",
            lost_text(self.session.lost) if self.session.lost else "",
        ]
        return ", ".join(filter(None, causes)) or "more were open at once than are kept"

    def lines(self, thing: ConversationItem) -> Iterator[str]:
        """One thing as a line without its line feed; as two if the text of an error needs its own."""
        row = row_of(thing.what, self._width)
        for spans in lay_out(row, self._clock(thing), self._width):
            yield self._style.paint(spans).rstrip()
        if self._whole:
            yield from (f"{'':<{_BODY}}{line}" for frame in whole_of(thing.what) for line in message_lines(frame))

    def heading(self) -> Iterator[str]:
        """Who talks to whom, in which revision, and where it is recorded, as far as known, in one or more lines."""
        date = self._wall(0, "%Y-%m-%d") if self._times == "abs" else None
        return heading_lines(self._heading or heading_of(self.session), self._style, self._width, date, self._file)

    # Time.

    def _clock(self, thing: ConversationItem) -> str:
        t_ns = thing.t_ns
        before = self._shown_ns
        self._shown_ns = t_ns
        if self._times == "abs":
            wall = self._wall(t_ns, "%H:%M:%S")
            if wall is not None:
                return f"{wall}.{((self.session.wall_ns or 0) + t_ns) // 1_000_000 % 1000:03}"
        # An open exchange is listed out of order, so the time since the previous line means nothing.
        if self._times == "delta" and not isinstance(thing.what, Unanswered):
            t_ns = max(0, t_ns - before) if before is not None else 0
        return units.since_start(t_ns)

    def _wall(self, t_ns: int, form: str) -> str | None:
        """Local wall-clock time, or None if the header has no valid one."""
        if self.session.wall_ns is None:
            return None
        try:
            return time.strftime(form, time.localtime((self.session.wall_ns + t_ns) // 1_000_000_000))
        except (OverflowError, ValueError, OSError):
            return None


def _left(t_ns: int, call: Call) -> ConversationItem:
    """The line of a request without a response."""
    return ConversationItem(t_ns, Unanswered(call.request, fate(call)))


def whole_of(item: Item) -> tuple[Frame, ...]:
    """The frames to write below a line: a batch as a whole, not again for each message in it."""
    if isinstance(item, Batch):
        return (item.frame,)
    return item.message.frames if isinstance(item, MessageContext) and item.message.index is None else ()
