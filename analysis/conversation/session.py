"""Session: one conversation between a client and a server, as far as known, and the meaning of a message in it.

Its key is a number of our own; the session id of MCP exists in some revisions only. If the protocol has no sessions, it
is all traffic of one connection (stdio) or one peer (HTTP, inferred).
"""

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from analysis.conversation.call import Call, IdState
from analysis.conversation.call_table import CallTable
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.links import Links
from analysis.conversation.message import Invalid, Message, Notification, Request, Response, Side
from analysis.conversation.used_ids import UsedIds, UsedOnPipe
from analysis.protocol.declared_capabilities import Declared
from analysis.protocol.revisions import Era, era_of, rank_of

if TYPE_CHECKING:
    from analysis.conversation.guesses import Meant
    from analysis.conversation.multi_round import Chain, Round
    from analysis.conversation.subscriptions import Subscription
    from analysis.conversation.tasks import Task

State: TypeAlias = Literal["new", "init-sent", "init-answered", "ready"]
"""How far the handshake has come: nothing, `initialize` sent, answered with a result, `initialized` sent."""
Delimited: TypeAlias = Literal["session", "connection", "peer"]
"""How it is distinguished from others: a handshake or session id, a process run, or a guess."""

META: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = META + "protocolVersion"
CLIENT_INFO: Final = META + "clientInfo"
CLIENT_CAPABILITIES: Final = META + "clientCapabilities"
SERVER_INFO: Final = META + "serverInfo"
LOG_LEVEL: Final = META + "logLevel"


class Peer(NamedTuple):
    """The name and version that one side gives. Untrusted text, unverified."""

    name: str
    version: str
    """Empty if it gives none."""

    @property
    def text(self) -> str:
        """Both in one line."""
        return " ".join(filter(None, self))


class Session:
    """The state of one session so far."""

    __slots__ = (
        *("agreed", "agreed_seq", "asked", "client", "client_capabilities", "closed_ns", "declared"),
        *("delimited", "epoch", "eras", "handshake", "has_initialized", "heard", "initialize", "introduced"),
        *("gaps", "in_flight", "is_guess", "learned", "likeness"),
        *("is_legacy", "is_modern", "last_initialize", "last_ns", "last_request", "lasting", "lost_seq", "memory"),
        *("number", "observed_start", "opened_ns", "process", "received", "server", "server_capabilities"),
        *("server_is_modern", "state", "tables", "links", "transport", "unjudged", "unread", "used"),
    )

    def __init__(
        self,
        number: int,
        transport: str | None,
        tables: dict[Side, CallTable],
        opened_ns: int,
        links: Links | None = None,
        used: UsedIds | None = None,
    ) -> None:
        self.number = number
        """From 1, in the order in which they began."""
        self.transport = transport
        """`stdio` or `http`."""
        self.tables = tables
        """The requests of both sides; over HTTP those of all sessions of the capture."""
        self.links = links if links is not None else Links()
        """Multi-round calls, tasks and subscriptions of the whole capture."""
        self.opened_ns = opened_ns
        self.delimited: Delimited = "connection" if transport != "http" else "peer"
        self.is_guess = False
        """Whether several clients look like its own, so that messages of one may count as those of another."""
        self.likeness: Session | None = None
        """The session of the same client, if this one exists only because of a session id that was never issued."""
        self.in_flight = 0
        """Requests of either side without a response that were not cancelled."""
        self.observed_start = False
        """Whether all its messages are in the capture."""
        self.state: State = "new"
        self.initialize: Request | None = None
        """The `initialize` that is under way or was answered."""
        self.has_initialized = False
        """Whether `notifications/initialized` was sent, perhaps too early."""
        self.epoch = 0
        """How many handshakes were begun: a second one on a pipe starts over."""
        self.is_modern: bool | None = None
        """Whether all client requests so far were of the modern era; None before the first."""
        self.eras: set[Era] = set()
        """The eras of the client's requests."""
        self.server_is_modern = False
        """Whether the server has sent something that only a modern-era server sends."""
        self.asked: str | None = None
        """The revision that the client requested last."""
        self.agreed: str | None = None
        """The revision that a response has settled."""
        self.handshake: str | None = None
        """The revision of the handshake: the one requested, then the one agreed on."""
        self.agreed_seq = -1
        """Number of the message that settled a handshake's revision."""
        self.client: Peer | None = None
        self.server: Peer | None = None
        self.introduced: dict[Side, object] = {}
        """By side, how it last identified itself."""
        self.client_capabilities: dict[str, Any] | None = None
        """Declared in `initialize`."""
        self.server_capabilities: dict[str, Any] | None = None
        """Declared in its result, or in a `DiscoverResult`."""
        self.declared: dict[Era | None, Declared] = {}
        """The same by era: capabilities of one era say nothing about requests of the other."""
        self.gaps: frozenset[str] = frozenset()
        """Methods for which some declaration of the server had no capability."""
        self.learned: frozenset[str] = frozenset()
        """What rules have learned so far and others need, such as that a list is known (`analysis.rules.support`)."""
        self.received: dict[Side, int] = {"client": -1, "server": -1}
        """By side, the last message of the other side that it has provably received, as it answered it (P2)."""
        self.heard: dict[Side, int] = {}
        """By side, the number of its last message."""
        self.last_request: dict[Side, int] = {}
        """By side, the number of its last request."""
        self.last_initialize = -1
        """The number of the last `initialize`."""
        self.unjudged: dict[Side, int] = {}
        """By side, the number of the last message that could not be examined: it may be any response."""
        self.unread: dict[Side, int] = {}
        """By side, its invalid messages that no error without an id has answered yet."""
        self.last_ns = 0
        """Over HTTP: the time of the last message."""
        self.is_legacy = False
        """Whether responses come on the single stream of the older transport, not in the exchange of their request."""
        self.closed_ns: dict[Side, int] = {}
        """When a side closed its stream."""
        self.process: dict[str, Any] | None = None
        """The record of how the server's process ended."""
        self.used: UsedIds = UsedOnPipe(tables) if used is None else used
        """The ids that its requests have used; over HTTP those of all sessions of the capture."""
        self.memory: dict[str, Any] = {}
        """State that rules keep, by their ids; lost records end it."""
        self.lasting: dict[str, Any] = {}
        """State that rules keep about streams and processes, which lost records do not end."""
        self.lost_seq = -1
        """Number of the last message before the last loss: what messages up to it wait for may be lost."""

    @property
    def revision(self) -> str | None:
        """The revision in use: the one last agreed on; before that, the one last requested."""
        return self.agreed or self.asked

    @property
    def in_force(self) -> str | None:
        """The revision for messages other than requests and responses; unknown if a handshake may be lost."""
        return self.handshake or (None if self.lost_seq >= 0 else self.revision)

    def forget(self) -> None:
        """Note lost records: earlier messages no longer prove anything about missing ones.

        A completed handshake stays: another one on the same pipe would be a mistake, and is rare.
        """
        self.observed_start = False
        self.lost_seq = max(self.heard.values(), default=0)
        self.used.clear()
        self.is_modern = False  # as far as it can be proved
        self.eras.clear()
        self.declared.pop("modern", None)  # another one may be lost
        if self.state in ("new", "init-sent"):
            self.state, self.initialize, self.handshake = "new", None, None
        self.memory = {}

    @property
    def is_http(self) -> bool:
        """Whether it runs over HTTP."""
        return self.transport == "http"

    def has_received(self, side: Side, seq: int) -> bool:
        """P2: whether a side had provably received message `seq` of the other side by now, on one ordered stream."""
        return not self.is_http and seq <= self.received[side]


class Earlier(NamedTuple):
    """A request whose id was reused."""

    seq: int
    conn: int
    """The connection that carried it; 0 on stdio."""
    state: IdState
    """Its outcome."""


class Seen(Struct, eq=False):
    """A message and its meaning in its session; `seen_of` makes one."""

    message: Message
    session: Session
    """The session that it belongs to."""
    body: dict[str, Any]
    """The members of the message; empty if it is invalid."""
    call: Call | None = None
    """The call to which it belongs. A request opens it, and a response answers it; but a message that comes again
    (`is_again`) belongs to the call of the first one, and a response that no client can have read to the call that
    it would have answered."""
    answered: Call | None = None
    """For a response: `call`, if it answers it. None for one that pairs with nothing, comes again or is unread."""
    id_state: IdState | None = None
    """For a request, response or cancellation: the state of its id before it came."""
    revision: str | None = None
    """The revision in force for it; None if unknown."""
    rank: int | None = None
    """The rank of that revision; None if unknown."""
    cancels: Request | None = None
    """For a cancellation: the request that it names."""
    cancelled: Call | None = None
    """For the first cancellation of a request: its call; a response may still come."""
    state: State = "new"
    """The state of its session's handshake before this message."""
    era: Era | None = None
    """The era of the message; None if unknown."""
    is_converted: bool = False
    """For a response: whether its id matches its request only as another JSON type, such as a `"7"` for a 7."""
    earlier: Earlier | None = None
    """For a request: the last one of the same side with its id in this session."""
    http: HttpExchange | None = None
    """The HTTP exchange that carried it; None on stdio. Its end is not known yet."""
    request: Request | None = None
    """The request itself, or the one that a response answers."""
    round: "Round | None" = None
    """For a retry, or a response to any round: the round. Only its response shows that a request begins a chain."""
    task: "Task | None" = None
    """The task that it is about, or creates."""
    subscription: "Subscription | None" = None
    """The subscription that it begins, ends or belongs to."""
    meant: "Meant | None" = None
    """For a response that fits no request: the open request that it was probably meant for, if any."""
    is_again: bool = False
    """Whether it repeats a message whose exchange was redirected: it is not another one, and means nothing new."""
    digest: bytes | None = None
    """The identity of its result, kept by `analysis.rules.unchanged_content`."""

    def pack(self) -> None:
        """Keep the bytes of the message instead of its values; see `Request.pack`."""
        if not isinstance(self.message, Invalid):
            self.message.pack()
            del self.body

    def __getattr__(self, name: str) -> Any:
        """Parse the members of a packed message again; no other attribute is ever missing."""
        if name != "body":
            raise AttributeError(name)
        return {} if isinstance(self.message, Invalid) else self.message.body

    @property
    def is_posted(self) -> bool:
        """False if it is a client's body in an HTTP request that is not known to be a POST."""
        return self.http is None or self.message.sender == "server" or self.http.method == "POST"

    @property
    def is_beside(self) -> bool:
        """Whether it is an HTTP body that is not a message, where no message is due.

        Messages of clients travel in POST requests, and responses that answer no request hold none.
        """
        if self.http is None or not isinstance(self.message, Invalid) or self.message.frames[0].unit != "http_body":
            return False
        if self.message.sender == "client":
            return not self.is_posted
        return not any(isinstance(sent.message, Request) for sent in self.http.sent)

    @property
    def chain(self) -> "Chain | None":
        """The chain of its round."""
        return None if self.round is None else self.round.chain

    @property
    def method(self) -> str:
        """The method of the message, or of the request that it answers; empty if there is none."""
        if self.request is not None:
            return self.request.method
        return self.message.method if isinstance(self.message, Notification) else ""


def seen_of(
    message: Message,
    session: Session,
    call: Call | None = None,
    id_state: IdState | None = None,
    revision: str | None = None,
    *,
    cancels: Request | None = None,
    cancelled: Call | None = None,
    state: State = "new",
    era: Era | None = None,
    is_converted: bool = False,
    earlier: Earlier | None = None,
    http: HttpExchange | None = None,
    meant: "Meant | None" = None,
) -> Seen:
    """A message and its meaning, with what follows from them.

    The arguments are attributes of `Seen`; the call of a response is the one that it answers.
    """
    return Seen(
        message,
        session,
        {} if isinstance(message, Invalid) else message.body,
        call,
        call if isinstance(message, Response) else None,
        id_state,
        revision,
        rank_of(revision),
        cancels,
        cancelled,
        state,
        era,
        is_converted,
        earlier,
        http,
        call.request if call is not None else message if isinstance(message, Request) else None,
        meant=meant,
    )


def era_in_force(session: Session, revision: str | None) -> Era | None:
    """The era of messages under a revision, or under an unknown one."""
    rank = rank_of(revision)
    if rank is not None:
        return era_of(rank)
    return None if session.is_modern is None else "modern" if session.is_modern else "handshake"
