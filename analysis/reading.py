"""Reading: reads and interprets one capture, with a step for each of its records.

Code that needs more of a capture than its records uses a reading: this is the only place outside `captures` where parts
become frames, and the only one where frames become messages, and messages lead to findings. A reading advances only
when its consumer asks for the next step. It keeps the state of the conversation, within the bounds of `Fold`, but no
rows; the consumer stores what it needs from each step.

The steps do not depend on how the records arrive: a file that is followed while it grows gives the same steps as the
same file read at once.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from analysis.clock import reached_ns
from analysis.conversation.bounded_dict import ForgottenEntries
from analysis.conversation.call import Call, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session import Peer, Session
from captures.damage import Damage
from captures.file import is_live
from captures.frame import Frame
from captures.frames import FrameAssembler
from captures.gaps import skipped_range
from captures.reader import Capture
from captures.record import Record

if TYPE_CHECKING:
    from analysis.checking.checker import RuleSelection
    from analysis.rules.finding import Finding

Item: TypeAlias = Frame | Record | Damage
End: TypeAlias = Literal["closed", "killed", "open"]
"""Why a reading ends: the recorder closed the capture, it was killed first, or it is still writing."""


class CaptureOverview(NamedTuple):
    """What is known so far about a capture as a whole."""

    name: str | None
    """The server's name in the capture: given by the user, or guessed from the command. Untrusted text."""
    id: str | None
    """The id of the capture."""
    transport: str | None
    """`stdio`, `http` or `import`."""
    wall_ns: int | None
    """The wall-clock time when it was opened."""
    begins_at: int
    """The number of the first record if the recorder's ring has deleted earlier ones; otherwise 0."""
    ending: str | None
    """How the recording ended; None until a `close` record has been read."""
    t_ns: int
    """The stamp of the last item."""
    client: Peer | None
    """The client that the capture named last; each session has its own."""
    server: Peer | None
    """The server that the capture named last."""
    revisions: tuple[str, ...]
    """The revisions of its sessions, each once, in the order of the sessions. Untrusted texts."""
    sessions: int
    """The number of sessions so far."""
    guesses: int
    """How many of them are guesses, because their clients look alike."""
    server_ended_ns: int | None
    """When the server's process ended; None if no record so far says so."""


class Losses(NamedTuple):
    """The losses of a capture, which may include messages that were never read."""

    records: int
    """Records known to be lost, and stretches of damage."""
    unjudged: int
    """Frames that could not be examined."""
    bodies: int
    """HTTP bodies that may contain messages and are not in the capture."""


class Step(NamedTuple):
    """What one record adds to a reading."""

    record: Item | None
    """The item that was read: a frame if one record contains all of it, otherwise a record or damage; None in a step
    that comes from the end of the capture."""
    item: Item | None
    """The frame that the record completes, or else the item that was read. None for a part of a frame that a later
    record may complete, and in the last step."""
    messages: tuple[MessageContext, ...] = ()
    """The messages that it completes; in the last step, lines that turned out not to begin a message."""
    changed: Collection[Call] = ()
    """The calls that it opens, continues, ends or forgets; in the last step, also those that are still open. A call is
    the same object in every step, so a call from an earlier step shows its current state."""
    findings: "Sequence[Finding]" = ()
    """The findings that are now certain; always empty without rules."""
    end: End | None = None
    """In the last step, why the reading ends; None in all others."""

    @property
    def unanswered(self) -> list[Call]:
        """The calls that it ends without a response: their HTTP exchange has ended."""
        return [call for call in self.changed if call.final_outcome is not None and call.response is None]

    @property
    def left(self) -> list[Call]:
        """The calls of `unanswered` that the client cancelled or abandoned by closing the HTTP exchange."""
        seq = None if self.record is None or isinstance(self.record, Damage) else self.record.seq
        return [call for call in self.unanswered if call.cancelled_seq == seq]

    @property
    def abandoned(self) -> list[Call]:
        """The calls that their sender abandons in this step; in the last one, also those whose client left for good."""
        ended_calls = [context.cancelled for context in self.messages if context.cancelled is not None]
        if isinstance(self.item, Record):
            ended_calls += self.left
        if self.end is not None:
            ended_calls += [call for call in self.changed if call.final_outcome is None and call.is_ended_by_leaving]
        return [call for call in ended_calls if call.abandoned_ns is not None]


class AbandonedCount:
    """Counts the calls that were abandoned in the steps so far, and how many of these were answered late."""

    def __init__(self, is_counted: Callable[[Call], bool] = lambda _: True) -> None:
        """Count only the calls for which `is_counted` returns True."""
        self._is_counted = is_counted
        self.calls = 0
        self.answered_late = 0
        """How many of the abandoned calls were answered anyway."""

    def on_step(self, step: Step) -> None:
        """Count the calls of the next step."""
        may_abandon = type(step.item) is not Frame
        for context in step.messages:
            may_abandon = may_abandon or context.cancelled is not None
        if may_abandon:
            self.calls += sum(map(self._is_counted, step.abandoned))
        for call in step.changed:
            if call.cancellation is not None and call.late_ns is not None and call.abandoned_ns is not None:
                self.answered_late += self._is_counted(call)


class Reading:
    """One capture while it is read.

    Iterate over it for the steps up to the current end of its source, then call `finish` for the steps at the end;
    `to_end` does both. Callers that receive records one by one call `feed`.
    """

    def __init__(
        self,
        source: Path | str | Iterable[Item] = (),
        rules: "RuleSelection | None" = None,
        *,
        in_records: bool = False,
    ) -> None:
        """Begin a reading.

        Args:
            source: the path of a capture, a capture, or its items in order, as records or from `Capture.frames`; empty
                if the caller passes them to `feed`.
            rules: the rules that judge it; None for none.
            in_records: for a capture, whether to keep frames out of `Step.record`, for callers that need the lines of
                records.

        Raises:
            CaptureError: there is nothing to read, or it is not a capture, or a later version wrote it.
        """
        capture = Capture(source) if isinstance(source, Path | str) else source
        self.source: Iterable[Item] = (
            capture.items_with_frames() if isinstance(capture, Capture) and not in_records else capture
        )
        self.is_growing = isinstance(capture, Capture) and is_live(capture.segments[-1])
        """Whether a recorder was writing it when the reading began."""
        self.fold = Fold()
        """The state of the conversation, for code that follows the messages step by step; it must not change it."""
        self.damage: Damage | None = None
        """The first damage so far; an unfinished record at the end is normal."""
        self._assembler = FrameAssembler()
        self._assemble, self._interpret, self._under_way = self._assembler.feed, self.fold.feed, self.fold.under_way
        if rules is None:
            self._checker = None
        else:
            from analysis.checking.checker import Checker

            self._checker = Checker(self.fold, rules)

    def __iter__(self) -> Iterator[Step]:
        return map(self.feed, self.source)

    def to_end(self, reason: End | None = None) -> Iterator[Step]:
        """Yields all steps.

        Args:
            reason: why the reading ends; None to use `end`.
        """
        yield from self
        yield from self.finish(reason)

    def feed(self, record: Item) -> Step:
        """Process the next record or frame; return its step."""
        item = self._assemble(record)
        if item is None:
            return Step(record, None)
        if self._checker is None and type(item) is not Damage:
            # The usual case. Creating a step is half of its cost; this takes half as long as calling the class.
            return tuple.__new__(Step, (record, item, self._interpret(item), self._under_way.changed_calls, (), None))
        return self._step(record, item)

    def finish(self, reason: End | None = None) -> Iterator[Step]:
        """Yields the steps at the end: one for each frame that was never completed, and the last one.

        Args:
            reason: why the reading ends; None to use `end`.
        """
        for item in self._assembler.finish():
            yield self._step(None, item)
        reason = reason or self.end
        last_messages = self.fold.flush(is_open=reason == "open")
        open_calls = self.fold.open_calls()
        changed_calls = self._under_way.changed_calls | dict.fromkeys(open_calls)
        findings: list[Finding] = []
        if self._checker is not None:
            findings += self._checker.finish(last_messages, open_calls, reason)
            findings += self.findings_by_clock() if reason == "open" and self.is_growing else ()
        yield Step(None, None, last_messages, changed_calls, findings, reason)

    def findings_by_clock(self) -> "Sequence[Finding]":
        """Returns the findings that are certain because a recorder is running and no record has come for some time."""
        if self._checker is None:
            return ()
        return self._checker.advance_logins(reached_ns(self.fold.t_ns, self.fold.wall_ns))

    def drop_rules(self) -> None:
        """Continue without rules, because checking takes too long."""
        self._checker = None

    @property
    def capture(self) -> CaptureOverview:
        """What is known so far about the capture as a whole."""
        fold = self.fold
        return CaptureOverview(
            fold.name,
            fold.capture,
            fold.transport,
            fold.wall_ns,
            fold.first_seq,
            fold.ending,
            fold.t_ns,
            fold.client,
            fold.server,
            fold.revisions,
            fold.routing.count,
            fold.routing.guess_count,
            fold.server_ended_ns,
        )

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are remembered, in the order in which they began."""
        return self.fold.routing.sessions()

    @property
    def losses(self) -> Losses:
        """The losses, which may explain messages that seem to be missing."""
        return Losses(self.fold.lost_count, self.fold.unjudged_count, self.fold.unrecorded_count)

    @property
    def forgotten(self) -> list[ForgottenEntries]:
        """The entries that had to be forgotten because there were too many at once, or an empty list if none were."""
        return self.fold.forgotten_entries

    def exchange(self, number: int) -> HttpExchange | None:
        """Returns the HTTP exchange with a number, or None if there is none so far or it is forgotten."""
        return self.fold.exchanges.get(number)

    def damage_in(self, step: Step) -> Damage | None:
        """The first damage of the capture, if it came with this step."""
        return self.damage if step.item is not None and step.item is self.damage else None

    @property
    def end(self) -> End:
        """Why the reading ends, as far as the capture shows."""
        if self.fold.ending is not None:
            return "closed"
        return "open" if self.is_growing else "killed"

    @property
    def faults(self) -> dict[str, str]:
        """Exceptions by the id of the rule that raised them; each is a bug in that rule."""
        return {} if self._checker is None else self._checker.faults

    @property
    def counts(self) -> Counter[tuple[str, int, str]]:
        """The number of violations of rules that report only the first one, by rule, session and side."""
        return Counter() if self._checker is None else self._checker.counts

    @property
    def undecided_login_count(self) -> int:
        """How many logins have no token yet although their client may still go on; 0 without rules."""
        return 0 if self._checker is None else self._checker.undecided_login_count

    @property
    def followers(self) -> Counter[tuple[str, int, str]]:
        """The number of findings that follow from a cause, by the rule and session of the cause, and their own rule."""
        return Counter() if self._checker is None else self._checker.followers

    def _step(self, record: Item | None, item: Item) -> Step:
        if isinstance(item, Damage) and item.cause != "torn":
            self.damage = self.damage or item
        checker = self._checker
        if checker is None:
            return Step(record, item, self._interpret(item), self._under_way.changed_calls)
        if not checker.is_due(item):
            messages = self._interpret(item)
            return Step(record, item, messages, self._under_way.changed_calls, checker.check(item, messages))
        assert not isinstance(item, Damage)
        item_without_loss = item
        if item.skipped:
            self.fold.note_loss(item.skipped, skipped_range(item))  # before a rule can report that something is missing
            item_without_loss = replace(item, skipped=0) if isinstance(item, Frame) else item._replace(skipped=0)
        due = checker.advance(item_without_loss.t_ns)
        messages = self._interpret(item_without_loss)
        return Step(record, item, messages, self._under_way.changed_calls, checker.check(item, messages, due))


def read(path: Path | str) -> Reading:
    """A reading of a capture, without rules; loop over it, or over `to_end()`.

    Args:
        path: the capture.

    Raises:
        CaptureError: the capture cannot be read.
    """
    return Reading(path)


def findings(path: Path | str) -> "Iterator[Finding]":
    """Yields the findings of the rules in a capture, each as soon as it is certain.

    Args:
        path: the capture.

    Raises:
        CaptureError: the capture cannot be read.
    """
    from analysis.checking.checker import RuleSelection

    for step in Reading(path, RuleSelection()).to_end():
        yield from step.findings
