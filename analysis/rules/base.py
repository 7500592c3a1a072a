"""The base class of all rules. Each rule is one class for something that is forbidden, discouraged or worth knowing.

A rule consists of its docstring, which is its page (`mcpproxy rule ID`), its attributes, which are the facts on that
page, and one or two hooks, which check for one thing. Attributes say where and when the rule applies, its level in each
revision, what the rule must have seen, which oddities of messages and exchanges it is about (`oddities`, `exchanges`),
and which other findings it replaces; the checker applies them, never a hook.

    class UnknownResponse(Rule):
        (docstring: what is wrong in a sentence, then **Why it matters.** **On the wire.** **Instead.**)

        id = "id/unknown-response"
        who = "either"
        level = ERROR
        needs_start = True
        source = "2024-11-05 basic/messages"

        def on_response(self, context: MessageContext) -> Iterator[Finding]:
            …
            yield self.finding(context, "…")

Hooks never raise on purpose; the checker disables a rule that raises, and reports it.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from analysis.conversation.call import Call, MessageContext
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Side
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session, State
from analysis.protocol.revisions import ALL, Era, Span
from analysis.rules.finding import Blames, Finding, Impact, Level
from analysis.rules.odd import NOTHING, Odd
from analysis.rules.odd_exchange import USUAL, OddExchange
from captures.record import Record

if TYPE_CHECKING:
    from analysis.conversation.fold import Fold
    from analysis.rules.unchanged_content import Words
    from analysis.shapes.shape import Problem

NOTE, WARNING, ERROR = Level.NOTE, Level.WARNING, Level.ERROR

RACE_NS: Final = 2_000_000_000
"""The race window W: how far apart two events may be and still have crossed, if nothing proves their order."""

UNTYPED: Final[frozenset["ResultKind"]] = frozenset({"untyped", "failed", "task"})
"""Kinds of results whose `resultType` the revision need not define."""

MAX_REPORTED_FINDINGS: Final = 20
"""The most findings of one rule about one message that are reported individually."""
MAX_COUNTED_FINDINGS: Final = 1_000
"""The most findings that are counted: this bounds the cost of a hostile list of any length."""
MAX_METHOD_CHARS: Final = 256
"""The most characters of a method that a finding keeps."""

Who: TypeAlias = Literal["client", "server", "either"]
ResultKind: TypeAlias = Literal["complete", "failed", "interim", "task", "untyped"]
"""Kinds of results: usual ones; tool results with `isError`; results that ask for more; results that create a task; and
in the modern era, or if the era is unknown, others whose `resultType` is not `complete`."""
Metas: TypeAlias = list[tuple[str, Any]]
Later: TypeAlias = Callable[[], Iterable[Finding]]
"""A check that is deferred to a later time in the capture."""


class Rule:
    """One rule. Override the hooks that it needs; each yields findings made by `finding`."""

    id: ClassVar[str]
    """`group/name`. It is never reused; `old_ids` has its former ids."""
    who: ClassVar[Who] = "either"
    """Who can violate it."""
    versions: ClassVar[Span] = ALL
    """The revisions to which it applies."""
    level: ClassVar[Level] = ERROR
    levels: ClassVar[Mapping[Span, Level]] = {}
    """Revisions in which it has another level."""
    impact: ClassVar[Impact | None] = None
    """What a violation breaks; None for what violations of its group usually break (`discovery.GROUPS`)."""
    needs_start: ClassVar[bool] = False
    """[S]: silent if the start of the session was not observed."""
    needs_session: ClassVar[bool] = False
    """[G]: silent if the session is a guess; see `analysis.conversation.lookalikes`."""
    at_end: ClassVar[bool] = False
    """[E]: decided when the session or the capture ends."""
    needs_time: ClassVar[bool] = False
    """[T]: silent if times are not exact, as in some imported logs."""
    needs_bytes: ClassVar[bool] = False
    """[B]: about the original bytes; silent if the capture holds the text of a log instead."""
    needs_http: ClassVar[bool] = False
    """[H]: applies over HTTP only."""
    needs_lists: ClassVar[bool] = False
    """[L]: needs a complete list result from the server."""
    once: ClassVar[bool] = False
    """[O]: the first occurrence for each sender and session is reported; later ones are only counted."""
    once_each: ClassVar[bool] = False
    """With `once`: findings with different texts count separately."""
    replaces: ClassVar[tuple[str, ...]] = ()
    """Rules whose findings about the same message are dropped if this rule reports one; for `schema/*`, only findings
    at the same place or inside it."""
    follows: ClassVar[tuple[str, ...]] = ()
    """Rules that name the cause: once one of them has reported something in a session, the findings of this rule there
    are counted under it, and not reported. Its level is at most theirs."""
    relies_on: ClassVar[tuple[str, ...]] = ()
    """Rules that collect what it needs; they run wherever it runs."""
    methods: ClassVar[frozenset[str] | None] = None
    """Methods of the requests, results and notifications that it checks; None for all."""
    sender: ClassVar[Side | None] = None
    """The sender of the messages that it checks; None for both."""
    era: ClassVar[Era | None] = None
    """The era of the messages that it checks; None for both."""
    states: ClassVar[frozenset[State] | None] = None
    """It is called only if the handshake is in one of these states before the message; None for all."""
    required_word: ClassVar[bytes] = b""
    """A word in the bytes of all requests, notifications and results that it checks; empty for all.
    `required_word_for` overrides it for a kind of message."""
    required_members: ClassVar[frozenset[str]] = frozenset()
    """Members of the params or the result. All requests, notifications and results that it checks have at least one of
    them; empty for any. `required_members_for` overrides it for a kind of message."""
    results: ClassVar[frozenset[ResultKind] | None] = None
    """The results that it checks, in `on_result` and `on_response`; None for all."""
    oddities: ClassVar[Odd] = NOTHING
    """For `on_anomaly`: it is called for messages with any of these."""
    exchanges: ClassVar[OddExchange] = USUAL
    """For `on_response_start`, `on_exchange_end` and `on_messages_exchanged`: it is called for exchanges with any of
    these; `USUAL` for all."""
    source: ClassVar[str] = ""
    """The source of the obligation: a page of the specification, or an RFC."""

    def __init__(self) -> None:
        """Create a rule; the checker that runs it replaces these attributes before the first call."""
        self.fold: Fold
        """What is known about the capture so far: the requests of both sides, links, and used ids."""
        self.later: Callable[[int, Later], None] = lambda _t_ns, _ask: None
        """Schedules a check for a time in the capture."""
        self.watch: Callable[[Session, bool], None] = lambda _session, _is_on: None
        """Starts or stops calling `on_message` for each message of a session, from the next one on."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        """Whether it may report messages of a kind; called once for each kind, and cached.

        Args:
            hook: `request`, `response`, …, from the names of the hooks.
            method: of the request, the notification or the answered request, as intended.
            like: a message of the kind. All of them have its sender, revision, era, state and transport, what is
                known of its session (`gaps`, `learned`), and the outcome of the request that it answers. Use nothing
                else from it.
        """
        return True

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:
        """Returns the members of which each message of a kind that it checks has at least one, or an empty set for any.

        Args:
            hook: as in `concerns`, like the other arguments.
            method: of the message.
            like: a message of the kind.
        """
        return self.required_members

    def required_word_for(self, hook: str, method: str, like: MessageContext) -> bytes:
        """Returns a word that is in the bytes of each message of a kind that it checks, or empty bytes for any.

        Args:
            hook: as in `concerns`, like the other arguments.
            method: of the message.
            like: a message of the kind.
        """
        return self.required_word

    def decisive_words(self, hook: str, method: str, like: MessageContext) -> "Words | None":
        """The only words on which it bases its decision about messages of a kind, apart from what it has reported.

        It is not called again for words that led to no finding.

        Args:
            hook: as in `concerns`, like the other arguments.
            method: of the message.
            like: a message of the kind.
        """
        return None

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        """Whether it may report exchanges of a kind; called once for each kind, and cached.

        Args:
            hook: `answered`, `over` or `http`.
            like: an exchange of the kind. All of them have its method, if that is POST, GET or DELETE; its status;
                and the media type of its response, if that is JSON or an event stream.
        """
        return True

    # ---- hooks

    def on_message(self, context: MessageContext) -> Iterable[Finding]:
        """Any message, even an invalid one, while the rule watches the session; before all other hooks."""
        return ()

    def on_invalid(self, context: MessageContext) -> Iterable[Finding]:
        """A frame, or an item of one, that is not a message."""
        return ()

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        """A message with one of the rule's `oddities`."""
        return ()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        """A request."""
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        """A notification."""
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        """A response, whether it answers anything or not."""
        return ()

    def on_unpaired(self, context: MessageContext) -> Iterable[Finding]:
        """A response that answers no open request."""
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        """A result that answers a request."""
        return ()

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        """An error, whether it answers anything or not."""
        return ()

    def on_problems(self, context: MessageContext, problems: "list[Problem]") -> Iterable[Finding]:
        """The params or the result of a message do not fit their shape."""
        return ()

    def on_meta(self, context: MessageContext, metas: "Metas") -> Iterable[Finding]:
        """A request, notification or result with unusual `_meta` objects; `metas` has each with its JSON Pointer."""
        return ()

    def on_batch(self, batch: tuple[MessageContext, ...]) -> Iterable[Finding]:
        """An array of messages as a whole, after the hooks for each of them; an empty array is an `Invalid` instead."""
        return ()

    def on_record(self, record: Record, session: Session) -> Iterable[Finding]:
        """A record that is not a frame: `eof`, `process`, `signal`, `stderr`, …; on stdio only."""
        return ()

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterable[Finding]:
        """The end of an HTTP exchange; its messages are `http.sent` and `http.received`."""
        return ()

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """The beginning of an exchange's response, or its end without one; with or without messages.

        The client's messages are `http.sent`. The server's are `http.received` if the response is not a stream.
        """
        return ()

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """The end of an exchange, with or without messages."""
        return ()

    def on_end(self, session: Session, ending: "CaptureEnd") -> Iterable[Finding]:
        """The end of the capture; `ending` says how it ended, and which requests are open."""
        return ()

    # ---- findings

    def finding(
        self,
        at: MessageContext | Record | HttpExchange | RecordRef,
        message: str,
        *,
        pointer: str = "",
        related: Iterable[int] = (),
        blames: Blames | None = None,
        level: Level | None = None,
        session: Session | None = None,
    ) -> Finding:
        """Create a finding.

        Args:
            at: the message or record that shows it; for an exchange, its last message. A `RecordRef` stands for its
                record.
            message: what is wrong, in a sentence without its full stop; no values that may be secret.
            pointer: the place in the message, a JSON Pointer.
            related: numbers of other records that prove it.
            blames: who is responsible, if not `who`, or not the sender if that is `either`.
            level: if it differs from that of the revision.
            session: if `at` does not imply it.
        """
        if isinstance(at, HttpExchange):
            at = (at.received or at.sent)[-1]
        if isinstance(at, (Record, RecordRef)):
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
            at.method[:MAX_METHOD_CHARS],
        )

    @staticmethod
    def capped(findings: Iterable[Finding], limit: int = MAX_REPORTED_FINDINGS) -> list[Finding]:
        """Returns the first findings about a message; the last counts the others, up to `MAX_COUNTED_FINDINGS` in all.

        Args:
            findings: preferably a generator, which does not create findings beyond the limit.
            limit: how many are reported individually.
        """
        counted = islice(findings, MAX_COUNTED_FINDINGS)
        kept = list(islice(counted, limit))
        if len(kept) == limit:
            rest = sum(1 for _ in counted)
            if rest:
                kept[-1] = kept[-1]._replace(more=rest)
        return kept

    @classmethod
    def level_at(cls, rank: int | None, era: Era | None = None) -> Level:
        """Its level in a revision; the mildest possible level if the revision is unknown."""
        if rank is None:
            may_hold = [level for span, level in cls.levels.items() if era is None or span.holds(None, era)]
            return min([cls.level, *may_hold])
        return next((level for span, level in cls.levels.items() if span.holds(rank, era)), cls.level)

    def state_for(self, session: Session, make: Callable[[], Any]) -> Any:
        """This rule's state for a session; created on first use."""
        kept = session.memory.get(self.id)
        if kept is None:
            kept = session.memory[self.id] = make()
        return kept


class CaptureEnd:
    """How a capture ended, and which requests are open."""

    def __init__(
        self,
        reason: Literal["closed", "killed", "open"],
        t_ns: int,
        left: tuple[Call, ...],
        *,
        is_clear: bool = True,
    ) -> None:
        self.reason = reason
        """`open` if only the reading has stopped, so that nothing that is missing is a fault."""
        self.t_ns = t_ns
        """Stamp of the last item."""
        self.left = left
        """Unanswered requests of the session, in the order in which they were sent."""
        self.is_clear = is_clear
        """Whether every frame was seen and understood, so that a missing response is really missing."""
