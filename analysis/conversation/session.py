"""Session: one conversation between a client and a server, as far as it is known, and what a message means in it.

Its own key is a number; the session id of MCP exists in some revisions only. Where the protocol has no sessions, it is
all that one connection (stdio) or one peer (HTTP, inferred) says.
"""

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.addressing import Key
from analysis.conversation.exchange import Exchange, IdState, RequestTable
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.limited import Limited
from analysis.conversation.links import Threads
from analysis.conversation.message import Id, Invalid, Message, Notification, Request, Side
from analysis.protocol.capabilities import Declared
from analysis.protocol.revisions import Era, era_of, rank_of

if TYPE_CHECKING:
    from analysis.conversation.guesses import Meant
    from analysis.conversation.multi_round import Chain, Round
    from analysis.conversation.subscriptions import Subscription
    from analysis.conversation.tasks import Task

State: TypeAlias = Literal["new", "init-sent", "init-answered", "ready"]
"""How far the handshake has come: nothing, `initialize` sent, answered with a result, `initialized` sent."""
Delimited: TypeAlias = Literal["session", "connection", "peer"]
"""By what it is told from others: a handshake or session id, a process run, or a guess."""

USED: Final = 100_000
"""Ids that are remembered as used; those used for the first time longest ago are forgotten first."""
Used: TypeAlias = Limited[tuple[int, Side, Id], tuple[int, int, Key]]

META: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = META + "protocolVersion"
CLIENT_INFO: Final = META + "clientInfo"
CLIENT_CAPABILITIES: Final = META + "clientCapabilities"
SERVER_INFO: Final = META + "serverInfo"
LOG_LEVEL: Final = META + "logLevel"
MODERN_CODES: Final = frozenset({-32020, -32021, -32022})
"""Errors that only a server of the modern era sends."""


class Peer(NamedTuple):
    """What one side calls itself. Foreign text, and unverified."""

    name: str
    version: str
    """Empty where it names none."""


class Session:
    """What is known of one conversation so far."""

    __slots__ = (
        *("agreed", "agreed_seq", "asked", "client", "client_capabilities", "closed_ns", "declared"),
        *("delimited", "epoch", "eras", "handshake", "has_initialized", "heard", "initialize", "introduced"),
        *("is_legacy", "is_modern", "last_initialize", "last_ns", "last_request", "lost_seq", "memory"),
        *("number", "observed_start", "opened_ns", "process", "received", "server", "server_capabilities"),
        *("server_is_modern", "state", "tables", "threads", "transport", "unjudged", "unread", "used"),
    )

    def __init__(
        self,
        number: int,
        transport: str | None,
        tables: dict[Side, RequestTable],
        opened_ns: int,
        threads: Threads | None = None,
        used: "Used | None" = None,
    ) -> None:
        self.number = number
        """From 1, in the order in which they began."""
        self.transport = transport
        """`stdio` or `http`."""
        self.tables = tables
        """The requests of either side; over HTTP those of all sessions of the capture."""
        self.threads = threads if threads is not None else Threads()
        """Calls of several rounds, tasks and subscriptions of the whole capture."""
        self.opened_ns = opened_ns
        self.delimited: Delimited = "connection" if transport != "http" else "peer"
        self.observed_start = False
        """Whether everything that was said in it is in the capture."""
        self.state: State = "new"
        self.initialize: Request | None = None
        """The `initialize` that is under way or was answered."""
        self.has_initialized = False
        """Whether `notifications/initialized` was sent, perhaps too early."""
        self.epoch = 0
        """How often a handshake was begun: a second one on a pipe starts afresh."""
        self.is_modern: bool | None = None
        """Whether all requests of the client so far were of the modern era; None before the first."""
        self.eras: set[Era] = set()
        """The eras of the client's requests."""
        self.server_is_modern = False
        """Whether the server has said something that only one of the modern era says."""
        self.asked: str | None = None
        """The revision that the client asked for last."""
        self.agreed: str | None = None
        """The revision that an answer has settled."""
        self.handshake: str | None = None
        """The revision of the handshake: asked for, and then agreed on."""
        self.agreed_seq = -1
        """Number of the message by which that of a handshake was settled."""
        self.client: Peer | None = None
        self.server: Peer | None = None
        self.introduced: dict[Side, object] = {}
        """By side, the words by which it said who it is at last."""
        self.client_capabilities: dict[str, Any] | None = None
        """Declared in `initialize`."""
        self.server_capabilities: dict[str, Any] | None = None
        """Declared in its result, or in a `DiscoverResult`."""
        self.declared: dict[Era | None, Declared] = {}
        """The same by era: neither says anything about requests of the other."""
        self.received: dict[Side, int] = {"client": -1, "server": -1}
        """By side, the last message of the other side that it provably has received: it answered it (P2)."""
        self.heard: dict[Side, int] = {}
        """By side, the number of its last message."""
        self.last_request: dict[Side, int] = {}
        """By side, that of its last request."""
        self.last_initialize = -1
        """That of the last `initialize`."""
        self.unjudged: dict[Side, int] = {}
        """By side, that of the last one that could not be looked into: it may be any answer."""
        self.unread: dict[Side, int] = {}
        """By side, messages of it that are none, and that no error without an id has answered yet."""
        self.last_ns = 0
        """Over HTTP: when something was said at last."""
        self.is_legacy = False
        """Whether answers come on the one stream of the older transport, and not in the exchange of their request."""
        self.closed_ns: dict[Side, int] = {}
        """When a side closed its stream."""
        self.process: dict[str, Any] | None = None
        """The record of how the server's process ended."""
        self.used: Used = used if used is not None else Limited(USED)
        """The last request with an id, by session and side: number, connection, key; since the last `initialize` on a
        pipe. Of all sessions of the capture."""
        self.memory: dict[str, Any] = {}
        """What rules remember, by their ids."""
        self.lost_seq = -1
        """Number of the last message before the last loss: what it and those before it wait for may be lost."""

    @property
    def revision(self) -> str | None:
        """The revision spoken: the one last agreed on, before that the one last asked for."""
        return self.agreed or self.asked

    @property
    def in_force(self) -> str | None:
        """The revision of what is said outside of requests and answers; not known where a handshake may be lost."""
        return self.handshake or (None if self.lost_seq >= 0 else self.revision)

    def forget(self) -> None:
        """Records are lost: what was said before proves nothing about what is missing from now on.

        A handshake that is settled stays: another one on the same pipe would be a mistake, and is rare.
        """
        self.observed_start = False
        self.lost_seq = max(self.heard.values(), default=0)
        self.used.clear()
        self.is_modern = False  # as far as can be proved
        self.eras.clear()
        self.declared.pop("modern", None)  # another one may be lost
        if self.state in ("new", "init-sent"):
            self.state, self.initialize, self.handshake = "new", None, None
        pipes = self.memory.get("pipes")
        self.memory = {} if pipes is None else {"pipes": pipes}

    @property
    def is_http(self) -> bool:
        """Whether it is spoken over HTTP."""
        return self.transport == "http"

    def has_received(self, side: Side, seq: int) -> bool:
        """P2: whether a side had provably received message `seq` of the other side by now, on one ordered stream."""
        return not self.is_http and seq <= self.received[side]


class Earlier(NamedTuple):
    """A request whose id was used again."""

    seq: int
    conn: int
    """The connection that carried it; 0 on stdio."""
    state: IdState
    """What has become of it."""


class Seen:
    """A message, and what it means in its session. Made once for each of millions, so no dataclass."""

    __slots__ = (
        *("message", "session", "exchange", "id_state", "revision", "rank", "cancels", "cancelled", "state", "era"),
        *("is_converted", "earlier", "http", "body", "request", "round", "task", "subscription", "digest"),
        "meant",
    )

    def __init__(
        self,
        message: Message,
        session: Session,
        exchange: Exchange | None = None,
        id_state: IdState | None = None,
        revision: str | None = None,
        *,
        cancels: Request | None = None,
        cancelled: Exchange | None = None,
        state: State = "new",
        era: Era | None = None,
        is_converted: bool = False,
        earlier: Earlier | None = None,
        http: HttpExchange | None = None,
        meant: "Meant | None" = None,
    ) -> None:
        self.message = message
        self.session = session
        """The conversation that it belongs to."""
        self.exchange = exchange
        """Of a response: the exchange that it ends. None where it pairs with nothing."""
        self.id_state = id_state
        """Of a request, response or cancellation: what its id was before it came."""
        self.revision = revision
        """The revision in force for it; None where it is not known."""
        self.rank = rank_of(revision)
        """The rank of that revision; None where it is not known."""
        self.cancels = cancels
        """Of a cancellation: the request that it names."""
        self.cancelled = cancelled
        """Of the first one that names it: its exchange as it stands now, an answer may still come."""
        self.state = state
        """How far its handshake had come before this."""
        self.era = era
        """The era in which it is spoken; None where it is not known."""
        self.is_converted = is_converted
        """Of a response: whether its id is that of its request only as another JSON type, a `"7"` for a 7."""
        self.earlier = earlier
        """Of a request: the last one of the same side with its id in this session."""
        self.http = http
        """What carried it; None on stdio. Of its end nothing is known yet."""
        self.body: dict[str, Any] = {} if isinstance(message, Invalid) else message.body
        """The members of the message; empty where it is none."""
        self.request = exchange.request if exchange is not None else message if isinstance(message, Request) else None
        """The request itself, or the one that a response answers."""
        self.round: Round | None = None
        """Of a retry, and of the answer to any round: which one. That a request begins a chain shows in its answer."""
        self.task: Task | None = None
        """The task that it is about, or creates."""
        self.subscription: Subscription | None = None
        """The subscription that it begins, ends or belongs to."""
        self.meant = meant
        """Of a response that fits no request: the open one that it was probably meant for; None where none is known."""
        self.digest: bytes | None = None
        """Where `analysis.rules.repeats` keeps what identifies its result."""

    def pack(self) -> None:
        """Keep the bytes of the message instead of its values; see `Request.pack`."""
        if not isinstance(self.message, Invalid):
            self.message.pack()
            del self.body

    def __getattr__(self, name: str) -> Any:
        """The members of a message that was packed; nothing else is ever missing."""
        if name != "body":
            raise AttributeError(name)
        return {} if isinstance(self.message, Invalid) else self.message.body

    @property
    def chain(self) -> "Chain | None":
        """The chain of its round."""
        return None if self.round is None else self.round.chain

    @property
    def method(self) -> str:
        """The method of the message, or of the request that it answers; empty where there is none."""
        if self.request is not None:
            return self.request.method
        return self.message.method if isinstance(self.message, Notification) else ""


def era_in_force(session: Session, revision: str | None) -> Era | None:
    """The era of what is said where a revision is in force, or where none is known."""
    rank = rank_of(revision)
    if rank is not None:
        return era_of(rank)
    return None if session.is_modern is None else "modern" if session.is_modern else "handshake"
