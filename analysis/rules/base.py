"""The base of all rules. Each says what the protocol forbids, advises against, or finds worth knowing; one class each.

A rule is its docstring, which is its page (`mcpproxy rule ID`), its attributes, which are its row in the catalogue, and
a hook or two, which ask one question. Where and when it holds, how bad it is in which revision, what it must have seen,
and which other findings it replaces, is said by attributes and done by the checker: no hook decides that.

    class UnknownResponse(Rule):
        (docstring: what is wrong in a sentence, then **Why it matters.** **On the wire.** **Instead.**)

        id = "id/unknown-response"
        who = "either"
        level = ERROR
        needs_start = True
        source = "2024-11-05 basic/messages"

        def on_response(self, seen: Seen) -> Iterator[Finding]:
            …
            yield self.finding(seen, "…")

Hooks never raise on purpose; one that does is switched off by the checker, which tells so.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from analysis.conversation.exchange import Exchange
from analysis.conversation.http_exchange import HttpExchange, Mark
from analysis.conversation.message import Side
from analysis.conversation.session import Seen, Session, State
from analysis.protocol.revisions import ALL, Era, Span
from analysis.rules.finding import Blames, Finding, Level
from captures.record import Record

if TYPE_CHECKING:
    from analysis.rules.repeats import Words
    from analysis.shapes.forms import Problem

NOTE, WARNING, ERROR = Level.NOTE, Level.WARNING, Level.ERROR

RACE_NS: Final = 2_000_000_000
"""The race window W: how far two events may cross where nothing proves their order."""

UNTYPED: Final[frozenset["ResultKind"]] = frozenset({"untyped", "failed", "task"})
"""Results whose `resultType` need not be one that the revision knows."""

TOLD: Final = 20
"""The most findings of one rule about one message that are reported one by one."""
COUNTED: Final = 1_000
"""The most that are counted, so that a hostile list has a bounded cost however long it is."""
LONGEST_METHOD: Final = 256
"""Characters of a method that a finding keeps."""

Who: TypeAlias = Literal["client", "server", "either"]
ResultKind: TypeAlias = Literal["complete", "failed", "interim", "task", "untyped"]
"""Results: usual ones; a tool's that say `isError`; ones that ask for more; ones that create a task; and of the modern
era, or where that is not known, others whose `resultType` is not `complete`."""
Metas: TypeAlias = list[tuple[str, Any]]
Later: TypeAlias = Callable[[], Iterable[Finding]]
"""A question put off to a later time of the capture."""


class Rule:
    """One rule. Override the hooks that it needs; each yields findings made by `finding`."""

    id: ClassVar[str]
    """Its id in the catalogue, `group/name`."""
    who: ClassVar[Who] = "either"
    """Who can break it."""
    versions: ClassVar[Span] = ALL
    """In which revisions it holds."""
    level: ClassVar[Level] = ERROR
    levels: ClassVar[Mapping[Span, Level]] = {}
    """Revisions in which it has another level."""
    needs_start: ClassVar[bool] = False
    """[S]: silent where the start of the session was not observed."""
    at_end: ClassVar[bool] = False
    """[E]: decided when the session or the capture ends."""
    needs_time: ClassVar[bool] = False
    """[T]: silent where the stamps are not those of real time."""
    needs_http: ClassVar[bool] = False
    """[H]: holds over HTTP alone."""
    needs_lists: ClassVar[bool] = False
    """[L]: needs a complete list result of the server."""
    once: ClassVar[bool] = False
    """[O]: the first time for each sender and session is a finding, others are only counted."""
    once_each: ClassVar[bool] = False
    """Of these, findings with other messages are other findings."""
    replaces: ClassVar[tuple[str, ...]] = ()
    """Rules whose findings about the same message this one makes superfluous; of `schema/*` those at the same
    place or inside of it."""
    methods: ClassVar[frozenset[str] | None] = None
    """Methods of the requests, results and notifications that it is asked about; None for all."""
    sender: ClassVar[Side | None] = None
    """Who sent the messages that it is asked about; None for both."""
    era: ClassVar[Era | None] = None
    """The era of the messages that it is asked about; None for both."""
    states: ClassVar[frozenset[State] | None] = None
    """States of the handshake before the message in which it is asked; None for all. Spares what cannot be."""
    word: ClassVar[bytes] = b""
    """What stands in the bytes of all requests, notifications and results that it is asked about; empty for all.
    `word_of` tells otherwise for a kind of message."""
    members: ClassVar[frozenset[str]] = frozenset()
    """Members of the params or the result, of which all requests, notifications and results that it is asked about have
    one; empty for any. `members_of` tells otherwise for a kind of message."""
    results: ClassVar[frozenset[ResultKind] | None] = None
    """Which results it is asked about, in `on_result` and `on_response`; None for all."""
    source: ClassVar[str] = ""
    """What obliges: a page of the specification, or an RFC."""

    def __init__(self) -> None:
        """By itself a rule is asked nothing; the checker that runs it fills these in."""
        self.later: Callable[[int, Later], None] = lambda _t_ns, _ask: None
        """Has a question asked when the capture has reached a time."""
        self.watch: Callable[[Session, bool], None] = lambda _session, _is_on: None
        """Has `on_message` asked about each message of a session from the next one on, or no more."""

    def concerns(self, hook: str, method: str, like: Seen) -> bool:
        """Whether it may have something to say about messages of a kind; asked once for each kind, and remembered.

        Args:
            hook: `request`, `response`, …, as the hooks are called.
            method: of the request, the notification or what is answered; the one that is meant.
            like: a message of the kind. Its sender, revision, era, state and transport are those of all of them; so is
                the outcome of what it answers. Nothing else may be looked at.
        """
        return True

    def members_of(self, hook: str, method: str, like: Seen) -> frozenset[str]:
        """The members of which one is there in the messages of a kind that it is asked about; empty for any.

        Args:
            hook: as `concerns` has it, and so are the others.
            method: of the message.
            like: a message of the kind.
        """
        return self.members

    def word_of(self, hook: str, method: str, like: Seen) -> bytes:
        """What stands in the bytes of all messages of a kind that it is asked about; empty where nothing must.

        Args:
            hook: as `concerns` has it, and so are the others.
            method: of the message.
            like: a message of the kind.
        """
        return self.word

    def goes_by(self, hook: str, method: str, like: Seen) -> "Words | None":
        """The words by which alone it decides about messages of a kind, beside what it remembers of having told.

        It is not asked again about words of which it had nothing to say.

        Args:
            hook: as `concerns` has it, and so are the others.
            method: of the message.
            like: a message of the kind.
        """
        return None

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        """Whether it may have something to say about exchanges of a kind; asked once for each kind, and remembered.

        Args:
            hook: `answered` or `over`.
            like: an exchange of the kind. All of them have its method, where that is POST, GET or DELETE; its status;
                and the media type of its response, where that is JSON or a stream of events.
        """
        return True

    # ---- hooks

    def on_message(self, seen: Seen) -> Iterable[Finding]:
        """Any message, what is none among them, while the rule watches the session; before all other hooks."""
        return ()

    def on_invalid(self, seen: Seen) -> Iterable[Finding]:
        """What is no message."""
        return ()

    def on_odd(self, seen: Seen) -> Iterable[Finding]:
        """A message of which something beside its meaning is odd, as `analysis.checking.checker.is_odd` tells."""
        return ()

    def on_request(self, seen: Seen) -> Iterable[Finding]:
        """A request."""
        return ()

    def on_notification(self, seen: Seen) -> Iterable[Finding]:
        """A notification."""
        return ()

    def on_response(self, seen: Seen) -> Iterable[Finding]:
        """A response, whether it answers anything or not."""
        return ()

    def on_unpaired(self, seen: Seen) -> Iterable[Finding]:
        """A response that answers nothing that is open."""
        return ()

    def on_result(self, seen: Seen) -> Iterable[Finding]:
        """A result that answers a request."""
        return ()

    def on_error(self, seen: Seen) -> Iterable[Finding]:
        """An error, whether it answers anything or not."""
        return ()

    def on_problems(self, seen: Seen, problems: "list[Problem]") -> Iterable[Finding]:
        """The params or the result of a message do not fit their shape."""
        return ()

    def on_meta(self, seen: Seen, metas: "Metas") -> Iterable[Finding]:
        """A request, notification or result has `_meta` that is not as it usually is; each with its JSON Pointer."""
        return ()

    def on_batch(self, batch: tuple[Seen, ...]) -> Iterable[Finding]:
        """An array of messages, all at once, after each of them; an empty one is an `Invalid` of its own."""
        return ()

    def on_record(self, record: Record, session: Session) -> Iterable[Finding]:
        """A record that is no frame: `eof`, `process`, `signal`, `stderr`, …; of stdio alone."""
        return ()

    def on_http(self, http: HttpExchange, session: Session) -> Iterable[Finding]:
        """An exchange of HTTP is over; its messages are `http.sent` and `http.received`."""
        return ()

    def on_answered(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """The response of an exchange has begun, or it is over without one; whether anything was said in it or not.

        The client's messages are `http.sent`. Those of the server are `http.received` where the response is no stream.
        """
        return ()

    def on_over(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """An exchange is over, whether anything was said in it or not."""
        return ()

    def on_end(self, session: Session, ending: "Ending") -> Iterable[Finding]:
        """The capture is over; `ending` says how, and what is left."""
        return ()

    # ---- findings

    def finding(
        self,
        at: Seen | Record | HttpExchange | Mark,
        message: str,
        *,
        pointer: str = "",
        related: Iterable[int] = (),
        blames: Blames | None = None,
        level: Level | None = None,
        session: Session | None = None,
    ) -> Finding:
        """What was found.

        Args:
            at: the message or record at which it shows; of an exchange, its last message. A mark stands for its record.
            message: what is wrong, in a sentence without a full stop missing; no values that may be secret.
            pointer: the place in the message, a JSON Pointer.
            related: numbers of other records that prove it.
            blames: whose doing it is, where it is not that of `who`, or of the sender where that is `either`.
            level: where it is not that of the revision.
            session: where `at` does not tell.
        """
        if isinstance(at, HttpExchange):
            at = (at.received or at.sent)[-1]
        if isinstance(at, (Record, Mark)):
            number = session.number if session is not None else 0
            blame = blames or ("unknown" if self.who == "either" else self.who)
            return Finding(
                self.id,
                level or self.level,
                blame,
                number,
                at.seq,
                message,
                tuple(related),
                pointer,
                self.source,
                at.t_ns,
            )
        sender = at.message.sender
        rank, era = at.rank, at.era
        return Finding(
            self.id,
            level or self.level_at(rank, era),
            blames or (sender if self.who == "either" else self.who),
            at.session.number,
            at.message.seq,
            message,
            tuple(related),
            pointer,
            self.source,
            at.message.frames[0].t_ns,
            at.message.index,
            at.method[:LONGEST_METHOD],
        )

    @staticmethod
    def most(found: Iterable[Finding], told: int = TOLD) -> list[Finding]:
        """The first findings about a message; the last of these counts the others, up to `COUNTED` in all.

        Args:
            found: the findings, best a generator: what is beyond the limit is not even made.
            told: how many are reported one by one.
        """
        kept, rest = list[Finding](), 0
        for one in islice(found, COUNTED):
            if len(kept) < told:
                kept.append(one)
            else:
                rest += 1
        if rest:
            kept[-1] = kept[-1]._replace(more=rest)
        return kept

    @classmethod
    def level_at(cls, rank: int | None, era: Era | None = None) -> Level:
        """How bad it is in a revision; the mildest that may hold where the revision is not known."""
        if rank is None:
            may_hold = [level for span, level in cls.levels.items() if era is None or span.holds(None, era)]
            return min([cls.level, *may_hold])
        return next((level for span, level in cls.levels.items() if span.holds(rank, era)), cls.level)

    def memory(self, session: Session, make: Callable[[], Any]) -> Any:
        """What this rule remembers of a session; made at the first use."""
        kept = session.memory.get(self.id)
        if kept is None:
            kept = session.memory[self.id] = make()
        return kept


class Ending:
    """How a capture ended, and which requests are left."""

    def __init__(
        self,
        reason: Literal["closed", "killed", "open"],
        t_ns: int,
        left: tuple[Exchange, ...],
        *,
        is_clear: bool = True,
    ) -> None:
        self.reason = reason
        """`open` where it was merely stopped looking at: nothing that is missing is a fault."""
        self.t_ns = t_ns
        """Stamp of the last item."""
        self.left = left
        """Requests of the session without an answer, in the order in which they were sent."""
        self.is_clear = is_clear
        """Whether every frame was seen and understood, so that an answer that is missing is really missing."""
