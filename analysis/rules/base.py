"""The base class of all rules. Each rule is a class that detects one thing: forbidden, discouraged or worth knowing.

A rule consists of its docstring, which is its page (`mcpproxy rule ID`), its attributes, which are the facts on that
page, and one or two hooks, which do the checking. Attributes say where and when the rule applies, its level in each
revision, what the rule must have seen, which oddities of messages and exchanges it is about (`oddities`, `exchanges`),
and which other findings it replaces. The checker applies these attributes; hooks do not.

    class UnknownResponse(Rule):
        (docstring: one sentence that says what is wrong, then **Why it matters.** **On the wire.** **Instead.**)

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
from analysis.conversation.login import Login
from analysis.conversation.message import Side
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session, State
from analysis.protocol.extensions import Extension
from analysis.protocol.revisions import ALL, Era, Span
from analysis.rules.finding import Blames, Finding, Impact, Level
from analysis.rules.odd import NOTHING, MessageOddity
from analysis.rules.odd_exchange import USUAL, ExchangeOddity
from analysis.rules.support.foreign_methods import may_belong_to_extension
from captures.record import Record

if TYPE_CHECKING:
    from analysis.conversation.fold import Fold
    from analysis.rules.unchanged_content import WordsScope
    from analysis.shapes.shape import Problem

NOTE, WARNING, ERROR = Level.NOTE, Level.WARNING, Level.ERROR

RACE_NS: Final = 2_000_000_000
"""The race window W: events at most this far apart may have crossed, if nothing proves their order."""

UNTYPED_KINDS: Final[frozenset["ResultKind"]] = frozenset({"untyped", "failed", "task"})
"""Kinds of results whose `resultType` the revision need not define."""

MAX_REPORTED_FINDINGS: Final = 20
"""The most findings of one rule about one message that are reported individually."""
MAX_COUNTED_FINDINGS: Final = 1_000
"""The most findings that are counted; this bounds the cost of a hostile list of any length."""
MAX_METHOD_CHARS: Final = 256
"""The most characters of a method that a finding keeps."""

ResponsibleSide: TypeAlias = Literal["client", "server", "either"]
ResultKind: TypeAlias = Literal["complete", "failed", "interim", "task", "untyped"]
"""Kinds of results. `complete` is a usual result, `failed` a tool result with `isError`, `interim` a result that asks
for more input, and `task` a result that creates a task. `untyped` is, in the modern era or if the era is unknown, any
other result whose `resultType` is not `complete`."""
MetaObjects: TypeAlias = list[tuple[str, Any]]
"""`_meta` objects, each after its JSON Pointer."""
DeferredCheck: TypeAlias = Callable[[], Iterable[Finding]]
"""A check that is deferred to a later time in the capture."""


class Rule:
    """The base class of a rule. Override the hooks that the rule needs; they yield findings made by `finding`."""

    id: ClassVar[str]
    """`group/name`. An id is never reused; `old_ids` contains the former ids of rules."""
    who: ClassVar[ResponsibleSide] = "either"
    """The side that can violate the rule."""
    versions: ClassVar[Span] = ALL
    """The revisions to which the rule applies."""
    level: ClassVar[Level] = ERROR
    levels: ClassVar[Mapping[Span, Level]] = {}
    """The levels for revisions in which `level` does not apply."""
    impact: ClassVar[Impact | None] = None
    """What a violation breaks; None for the usual impact of the rule's group (`discovery.GROUPS`)."""
    needs_start: ClassVar[bool] = False
    """[S]: the rule is silent if the start of the session was not observed."""
    needs_session: ClassVar[bool] = False
    """[G]: the rule is silent if the session is a guess; see `analysis.conversation.lookalikes`."""
    at_end: ClassVar[bool] = False
    """[E]: the rule decides when the session or the capture ends."""
    needs_time: ClassVar[bool] = False
    """[T]: the rule is silent if times are not exact, as in some imported logs."""
    needs_bytes: ClassVar[bool] = False
    """[B]: the rule checks the original bytes, and is silent if the capture contains the text of a log instead."""
    needs_http: ClassVar[bool] = False
    """[H]: the rule applies only over HTTP."""
    needs_lists: ClassVar[bool] = False
    """[L]: the rule needs a complete list from the server."""
    once: ClassVar[bool] = False
    """[O]: the first occurrence for each sender and session is reported; later ones are only counted."""
    once_each: ClassVar[bool] = False
    """With `once`: the first occurrence of each text is reported."""
    yields_to_extensions: ClassVar[bool] = False
    """Whether a finding about a message of a draft or of an unknown extension is only a note, because the extension may
    define what the revision does not."""
    replaces: ClassVar[tuple[str, ...]] = ()
    """Rules whose findings about the same message are dropped if this rule reports one; for `schema/*`, only findings
    at the same place or inside it."""
    follows: ClassVar[tuple[str, ...]] = ()
    """Rules that report the cause. Once one of them has reported a finding in a session, findings of this rule in the
    session are counted under that rule instead of being reported. This rule's level is at most theirs."""
    relies_on: ClassVar[tuple[str, ...]] = ()
    """Rules that collect data for this one; they run whenever it runs."""
    methods: ClassVar[frozenset[str] | None] = None
    """The methods of the requests, results and notifications that the rule checks; None for all."""
    sender: ClassVar[Side | None] = None
    """The sender of the messages that the rule checks; None for both sides."""
    era: ClassVar[Era | None] = None
    """The era of the messages that the rule checks; None for both eras."""
    states: ClassVar[frozenset[State] | None] = None
    """The states of the handshake, before a message, in which the rule checks the message; None for all."""
    required_word: ClassVar[bytes] = b""
    """A word that the bytes of a request, notification or result must contain for the rule to check it; empty if there
    is none. `required_word_for` overrides it for a kind of message."""
    required_members: ClassVar[frozenset[str]] = frozenset()
    """Members of the params or the result. A request, notification or result must have at least one of them for the
    rule to check it; empty if it need not have any. `required_members_for` overrides it for a kind of message."""
    results: ClassVar[frozenset[ResultKind] | None] = None
    """The kinds of results that the rule checks in `on_result` and `on_response`; None for all."""
    oddities: ClassVar[MessageOddity] = NOTHING
    """`on_anomaly` is called for messages with any of these oddities."""
    exchanges: ClassVar[ExchangeOddity] = USUAL
    """`on_response_start`, `on_exchange_end` and `on_messages_exchanged` are called for exchanges with any of these
    oddities; `USUAL` for all exchanges."""
    source: ClassVar[str] = ""
    """The source of the requirement: a page of the specification, or an RFC."""
    extension: ClassVar[Extension | None] = None
    """The extension that the rule is about; None for rules about the core. The class that sets it gets its `versions`,
    `source` and `methods` from the extension, if it does not set its own; about a draft, all findings are notes."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Set the attributes that follow from the extension, and that the class does not set itself."""
        super().__init_subclass__(**arguments)
        extension: Extension | None = vars(cls).get("extension")
        if extension is None:
            return
        attributes: dict[str, Any] = {
            "versions": extension.revisions,
            "source": extension.source,
            "methods": frozenset(method.name for method in extension.methods),
        }
        if extension.status == "draft":
            attributes["level"] = NOTE
        for name, value in attributes.items():
            if name not in vars(cls):
                setattr(cls, name, value)

    def __init__(self) -> None:
        """Create a rule; the checker that runs it replaces these attributes before it calls a hook."""
        self.fold: Fold
        """The state of the capture so far: the requests of both sides, links, and used ids."""
        self.check_later: Callable[[int, DeferredCheck], None] = lambda _t_ns, _ask: None
        """Schedules a check for a time in the capture."""
        self.set_watching: Callable[[Session, bool], None] = lambda _session, _is_on: None
        """Starts or stops the calls of `on_message` for each message of a session, from the next message on."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        """Whether the rule may report messages of a kind; called once for each kind, and cached.

        Args:
            hook: the name of the hook without `on_`: `request`, `response`, …
            method: the method of the request, the notification or the answered request, as its sender meant it.
            like: a message of the kind. All messages of the kind have its sender, revision, era, state and transport,
                the `gaps` and `learned` of its session, and the outcome of the request that it answers. Do not use
                anything else from it.
        """
        return True

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:
        """Returns `required_members` for messages of a kind.

        Args:
            hook: the name of the hook, as in `concerns`.
            method: the method of the messages.
            like: a message of the kind.
        """
        return self.required_members

    def required_word_for(self, hook: str, method: str, like: MessageContext) -> bytes:
        """Returns `required_word` for messages of a kind.

        Args:
            hook: the name of the hook, as in `concerns`.
            method: the method of the messages.
            like: a message of the kind.
        """
        return self.required_word

    def decisive_words(self, hook: str, method: str, like: MessageContext) -> "WordsScope | None":
        """Returns the only words of a message that its check depends on, or None if it depends on more.

        The rule's own earlier findings do not count. The checker does not call the rule again for words that led to no
        finding.

        Args:
            hook: the name of the hook, as in `concerns`.
            method: the method of the messages.
            like: a message of the kind.
        """
        return None

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        """Whether the rule may report HTTP exchanges of a kind; called once for each kind, and cached.

        Args:
            hook: `response_start`, `exchange_end` or `messages_exchanged`.
            like: an exchange of the kind. All exchanges of the kind have its method, if that is POST, GET or DELETE,
                its status, and the media type of its response, if that is JSON or an event stream.
        """
        return True

    # ---- hooks

    def on_message(self, context: MessageContext) -> Iterable[Finding]:
        """Called before all other hooks for any message, even an invalid one, while the rule watches the session."""
        return ()

    def on_invalid(self, context: MessageContext) -> Iterable[Finding]:
        """Called for a frame, or an item of a frame, that is not a message."""
        return ()

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        """Called for a message with one of the rule's `oddities`."""
        return ()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        """Called for a request."""
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        """Called for a notification."""
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        """Called for a response, whether or not it answers a known request."""
        return ()

    def on_unpaired(self, context: MessageContext) -> Iterable[Finding]:
        """Called for a response that answers no open request."""
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        """Called for a result that answers a request."""
        return ()

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        """Called for an error, whether or not it answers a known request."""
        return ()

    def on_problems(self, context: MessageContext, problems: "list[Problem]") -> Iterable[Finding]:
        """Called for a message whose params or result do not fit their shape."""
        return ()

    def on_meta(self, context: MessageContext, metas: "MetaObjects") -> Iterable[Finding]:
        """Called for a request, notification or result with unusual `_meta` objects, which are in `metas`."""
        return ()

    def on_batch(self, batch: tuple[MessageContext, ...]) -> Iterable[Finding]:
        """Called for a batch, after the hooks for each message. An empty batch is an `InvalidMessage` instead."""
        return ()

    def on_record(self, record: Record, session: Session) -> Iterable[Finding]:
        """Called on stdio for a record that is not a frame, such as `eof`, `process`, `signal` or `stderr`."""
        return ()

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterable[Finding]:
        """Called at the end of an HTTP exchange that has messages: `http.client_messages` or `http.server_messages`."""
        return ()

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """Called at the start of an HTTP response, or at the end of an exchange that has none.

        The client's messages are `http.client_messages`. The server's are `http.server_messages` if the response is not
        a stream. The exchange may have no messages.
        """
        return ()

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """Called at the end of an HTTP exchange, with or without messages."""
        return ()

    def on_end(self, session: Session, ending: "CaptureEnd") -> Iterable[Finding]:
        """Called at the end of the capture; `ending` says how it ended, and which requests are unanswered."""
        return ()

    def on_login(self, login: Login, ending: "CaptureEnd | None") -> Iterable[Finding]:
        """Called once for each login, when it is over; `ending` says how the capture ended if that is why."""
        return ()

    def on_login_stop(self, login: Login, ending: "CaptureEnd | None") -> Iterable[Finding]:
        """Called for each login when it is over, and once after each leg that its client has not followed up in time.

        See `Login.patience_ns`. It is not called again for the same last leg; `ending` is as in `on_login`.
        """
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
            message: what is wrong, as a sentence without a full stop and without values that may be secret.
            pointer: the place in the message, as a JSON Pointer.
            related: the numbers of other records that prove it.
            blames: the side at fault, if it is not `who`, or not the sender when `who` is `either`.
            level: the level, if it is not that of the revision.
            session: the session, if `at` does not imply it.
        """
        if isinstance(at, HttpExchange):
            at = (at.server_messages or at.client_messages)[-1]
        if isinstance(at, (Record, RecordRef)):
            session_number = session.number if session is not None else 0
            blame = blames or ("unknown" if self.who == "either" else self.who)
            return Finding(
                self.id,
                level or self.level,
                blame,
                session_number,
                at.seq,
                message,
                tuple(related),
                pointer,
                self.source,
                at.t_ns,
            )
        sender = at.message.sender
        level = level or self.level_at(at.rank, at.era)
        if self.yields_to_extensions and level > NOTE and may_belong_to_extension(at):
            level = NOTE
        return Finding(
            self.id,
            level,
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
        """Returns the first findings about a message; the last one counts those left out.

        Args:
            findings: the findings, of which at most `MAX_COUNTED_FINDINGS` are counted. A generator is best, because it
                does not create findings beyond that.
            limit: how many findings are reported individually.
        """
        counted = islice(findings, MAX_COUNTED_FINDINGS)
        reported = list(islice(counted, limit))
        if len(reported) == limit:
            more = sum(1 for _ in counted)
            if more:
                reported[-1] = reported[-1]._replace(more=more)
        return reported

    @classmethod
    def level_at(cls, rank: int | None, era: Era | None = None) -> Level:
        """Returns the rule's level in a revision, or the mildest possible level if the revision is unknown."""
        if rank is None:
            possible_levels = [level for span, level in cls.levels.items() if era is None or span.applies_to(None, era)]
            return min([cls.level, *possible_levels])
        return next((level for span, level in cls.levels.items() if span.applies_to(rank, era)), cls.level)

    def state_for(self, session: Session, make: Callable[[], Any]) -> Any:
        """Returns this rule's state for a session, which `make` creates on first use."""
        state = session.memory.get(self.id)
        if state is None:
            state = session.memory[self.id] = make()
        return state


class CaptureEnd:
    """How a capture ended, and which requests of a session are unanswered."""

    def __init__(
        self,
        reason: Literal["closed", "killed", "open"],
        t_ns: int,
        left: tuple[Call, ...],
        *,
        is_clear: bool = True,
    ) -> None:
        self.reason = reason
        """`open` if only the reading has stopped; then a missing message is not a fault."""
        self.t_ns = t_ns
        """The time of the last record."""
        self.unanswered = left
        """The unanswered requests of the session, in the order in which they were sent."""
        self.is_clear = is_clear
        """Whether every frame was recorded and parsed: if so, a missing response was never sent."""
