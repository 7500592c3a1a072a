"""Reading: one capture, read and understood, a step for each of its records.

Code that needs more of a capture than its records reads it here: this is the only place outside `captures` where parts
become frames, and the only one where frames become messages and messages findings. A reading is pulled: it keeps the
state of the conversation, within the bounds of `Fold`, and no row; a consumer stores what it needs of each step.

Nothing depends on how the records arrive: a file that is read to its end and the same file followed give equal steps.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from analysis.conversation.bounded_dict import Forgotten
from analysis.conversation.call import Call, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session import Peer, Session
from captures.damage import Damage
from captures.file import is_live
from captures.frame import Frame
from captures.frames import FrameAssembler
from captures.reader import Capture
from captures.record import Record

if TYPE_CHECKING:
    from analysis.checking.checker import Rules
    from analysis.rules.finding import Finding

Item: TypeAlias = Frame | Record | Damage
End: TypeAlias = Literal["closed", "killed", "open"]
"""Why nothing more comes: the recorder closed the capture, it did not, or it is still writing."""


class About(NamedTuple):
    """What is known so far about a capture as a whole."""

    name: str | None
    """The server's name in the capture: given by the user, or guessed from the command. Untrusted text."""
    id: str | None
    """Its id."""
    transport: str | None
    """`stdio`, `http` or `import`."""
    wall_ns: int | None
    """Wall clock when it was opened."""
    begins_at: int
    """Number of the first record, if the recorder's ring has deleted those before it; else 0."""
    ending: str | None
    """How the recording ended; None as long as there is no close record."""
    t_ns: int
    """Stamp of the last item."""
    client: Peer | None
    """The client named last; sessions know their own."""
    server: Peer | None
    """The server named last."""
    revisions: tuple[str, ...]
    """The revisions of its sessions, each once, in the order of the sessions. Untrusted texts."""
    sessions: int
    """How many sessions there were."""
    guesses: int
    """How many of them are guesses, because their clients look alike."""
    server_ended_ns: int | None
    """When the server's process ended; None if that is not in the capture, so far."""


class Lost(NamedTuple):
    """Losses that may hold messages, which no one has read."""

    records: int
    """Records known to be lost, and stretches of damage."""
    unjudged: int
    """Frames that could not be examined."""
    bodies: int
    """Bodies over HTTP that may hold messages and are not in the capture."""


class Step(NamedTuple):
    """What one record adds."""

    record: Item | None
    """What was read: a frame if its record alone is one, else a record, or damage; None for what only the end shows."""
    item: Item | None
    """The frame that it completes, or else what was read. None for a part of a frame whose rest may follow, and in the
    last step."""
    messages: tuple[MessageContext, ...] = ()
    """The messages that it completes; in the last step, lines that turned out to be no beginning of a message."""
    changed: Collection[Call] = ()
    """The calls that it opens, continues, ends or forgets; in the last step, also those that are still open. A call is
    the same object in every step, so one that is kept shows what has become of it since."""
    findings: "Sequence[Finding]" = ()
    """The findings that are now certain; always empty without rules."""
    end: End | None = None
    """In the last step, why it is the last; else None."""

    @property
    def unanswered(self) -> list[Call]:
        """The calls that it ends without a response: their HTTP exchange has ended."""
        return [call for call in self.changed if call.settled is not None and call.response is None]

    @property
    def left(self) -> list[Call]:
        """Those of `unanswered` that their client cancelled, or gave up, by closing the HTTP exchange."""
        seq = None if self.record is None or isinstance(self.record, Damage) else self.record.seq
        return [call for call in self.unanswered if call.cancelled_seq == seq]

    @property
    def abandoned(self) -> list[Call]:
        """The calls that their sender abandons with it; in the last step, those that their client left for good."""
        ended = [context.cancelled for context in self.messages if context.cancelled is not None]
        if isinstance(self.item, Record):
            ended += self.left
        if self.end is not None:
            ended += [call for call in self.changed if call.settled is None and call.is_ended_by_leaving]
        return [call for call in ended if call.abandoned_ns is not None]


class AbandonedCount:
    """Counts the calls that were abandoned in the steps so far, and those of them that were answered late."""

    def __init__(self, is_counted: Callable[[Call], bool] = lambda _: True) -> None:
        """`is_counted` selects calls."""
        self._is_counted = is_counted
        self.calls = 0
        self.late = 0
        """Those of `calls` that were answered all the same."""

    def on_step(self, step: Step) -> None:
        """Count the calls of the next step."""
        may_abandon = type(step.item) is not Frame
        for context in step.messages:
            may_abandon = may_abandon or context.cancelled is not None
        if may_abandon:
            self.calls += sum(map(self._is_counted, step.abandoned))
        for call in step.changed:
            if call.cancellation is not None and call.late_ns is not None and call.abandoned_ns is not None:
                self.late += self._is_counted(call)


class Reading:
    """One capture while it is read.

    Iterate over it for the steps up to the current end of its source, then call `finish` for what only the end shows;
    `to_end` does both. Callers that receive records one by one call `feed`.
    """

    def __init__(
        self, source: Path | str | Iterable[Item] = (), rules: "Rules | None" = None, *, in_records: bool = False
    ) -> None:
        """Begin a reading.

        Args:
            source: the path of a capture, a capture, or its items in order, as records or from `Capture.frames`; empty
                if they are handed to `feed`.
            rules: the rules that judge it; None for none.
            in_records: for a capture: `Step.record` is never a frame, for callers that need the lines of records.

        Raises:
            CaptureError: there is nothing to read, or it is not a capture, or a later version wrote it.
        """
        capture = Capture(source) if isinstance(source, Path | str) else source
        self.source: Iterable[Item] = capture.frames() if isinstance(capture, Capture) and not in_records else capture
        self.is_growing = isinstance(capture, Capture) and is_live(capture.segments[-1])
        """Whether a recorder was writing it when the reading began."""
        self.fold = Fold()
        """The state of the conversation, for what follows the messages step by step; not to be changed."""
        self.damage: Damage | None = None
        """The first damage so far; an unfinished record at the end is normal."""
        self._assembler = FrameAssembler()
        self._assemble, self._understand, self._under_way = self._assembler.feed, self.fold.feed, self.fold.under_way
        if rules is None:
            self._checker = None
        else:
            from analysis.checking.checker import Checker

            self._checker = Checker(self.fold, rules)

    def __iter__(self) -> Iterator[Step]:
        return map(self.feed, self.source)

    def to_end(self, reason: End | None = None) -> Iterator[Step]:
        """All steps.

        Args:
            reason: why nothing follows; None for what the capture itself shows.
        """
        yield from self
        yield from self.finish(reason)

    def feed(self, record: Item) -> Step:
        """Process the next record, or the frame that it is; return its step."""
        item = self._assemble(record)
        if item is None:
            return Step(record, None)
        if self._checker is None and type(item) is not Damage:
            # The usual case. Half the cost of a step is creating it, and this takes half the time of calling the class.
            return tuple.__new__(Step, (record, item, self._understand(item), self._under_way.changed, (), None))
        return self._step(record, item)

    def finish(self, reason: End | None = None) -> Iterator[Step]:
        """The steps at the end: one for each frame that was never completed, and the last one.

        Args:
            reason: why nothing follows; None for what the capture itself shows.
        """
        for item in self._assembler.finish():
            yield self._step(None, item)
        reason = reason or self.end
        rest = self.fold.flush()
        left = self.fold.open_calls()
        changed = self._under_way.changed | dict.fromkeys(left)
        findings = () if self._checker is None else self._checker.finish(rest, left, reason)
        yield Step(None, None, rest, changed, findings, reason)

    def drop_rules(self) -> None:
        """Go on without rules: what they find takes too long."""
        self._checker = None

    @property
    def capture(self) -> About:
        """What is known so far about the capture as a whole."""
        fold = self.fold
        return About(
            fold.name,
            fold.capture,
            fold.transport,
            fold.wall_ns,
            fold.begins_at,
            fold.ending,
            fold.t_ns,
            fold.client,
            fold.server,
            fold.revisions,
            fold.routing.count,
            fold.routing.guesses,
            fold.server_ended_ns,
        )

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are remembered, in the order in which they began."""
        return self.fold.routing.open()

    @property
    def losses(self) -> Lost:
        """The losses that may hold messages which seem to be missing."""
        return Lost(self.fold.lost, self.fold.unjudged, self.fold.unrecorded)

    @property
    def forgotten(self) -> list[Forgotten]:
        """The entries that had to be forgotten because there were too many at once, or an empty list if none were."""
        return self.fold.forgotten

    def exchange(self, number: int) -> HttpExchange | None:
        """Returns the HTTP exchange with a number, or None if there is none so far or it is forgotten."""
        return self.fold.exchanges.known(number)

    def damage_in(self, step: Step) -> Damage | None:
        """The first damage of the capture, if it came with this step."""
        return self.damage if step.item is not None and step.item is self.damage else None

    @property
    def end(self) -> End:
        """Why nothing follows what was read, as the capture shows."""
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
    def followers(self) -> Counter[tuple[str, int, str]]:
        """How many findings follow from a cause: by the rule of the cause, its session, and their own rule."""
        return Counter() if self._checker is None else self._checker.followers

    def _step(self, record: Item | None, item: Item) -> Step:
        if isinstance(item, Damage) and item.cause != "torn":
            self.damage = self.damage or item
        checker = self._checker
        if checker is None:
            return Step(record, item, self._understand(item), self._under_way.changed)
        if not checker.is_due(item):
            messages = self._understand(item)
            return Step(record, item, messages, self._under_way.changed, checker.check(item, messages))
        assert not isinstance(item, Damage)
        whole = item
        if item.skipped:
            self.fold.note_loss(item.skipped)  # before a rule can report that something is missing
            whole = replace(item, skipped=0) if isinstance(item, Frame) else item._replace(skipped=0)
        due = checker.advance(whole.t_ns)
        messages = self._understand(whole)
        return Step(record, item, messages, self._under_way.changed, checker.check(item, messages, due))


def read(path: Path | str) -> Reading:
    """A reading of a capture, without rules; loop over it, or over `to_end()`.

    Args:
        path: the capture.

    Raises:
        CaptureError: the capture cannot be read.
    """
    return Reading(path)


def findings(path: Path | str) -> "Iterator[Finding]":
    """What the rules find in a capture, as soon as it is certain.

    Args:
        path: the capture.

    Raises:
        CaptureError: the capture cannot be read.
    """
    from analysis.checking.checker import Rules

    for step in Reading(path, Rules()).to_end():
        yield from step.findings
