"""Session: one conversation between a client and a server, as far as it is known.

The key of a session is a number assigned by the analysis; the session id of MCP exists in some revisions only. If the
protocol has no sessions, a session is all traffic of one connection (stdio) or of one peer (HTTP, inferred). The
requests of its sides are in the tables of the fold (`Fold.tables`), which over HTTP contain those of all sessions.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.listed_ui import ListedUi
from analysis.conversation.message import Request, Side
from analysis.protocol.declared_capabilities import DeclaredCapabilities
from analysis.protocol.revisions import Era, era_of, rank_of

State: TypeAlias = Literal["new", "init-sent", "init-answered", "ready"]
"""The progress of the handshake: nothing yet, `initialize` sent, answered with a result, `initialized` sent."""
Delimiter: TypeAlias = Literal["session", "connection", "peer"]
"""What delimits a session: a handshake or session id, a run of the server's process, or a guess."""

META_PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = META_PREFIX + "protocolVersion"
CLIENT_INFO: Final = META_PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = META_PREFIX + "clientCapabilities"
SERVER_INFO: Final = META_PREFIX + "serverInfo"
LOG_LEVEL: Final = META_PREFIX + "logLevel"


class Peer(NamedTuple):
    """The name and version that one side gives. Untrusted and unverified text."""

    name: str
    version: str
    """The version; empty if the side gives none."""

    @property
    def text(self) -> str:
        """Name and version in one line."""
        return " ".join(filter(None, self))


class Session:
    """The state of one session so far."""

    __slots__ = (
        *(
            "negotiated_revision",
            "agreed_seq",
            "requested_revision",
            "client",
            "client_capabilities",
            "closed_ns",
            "declared",
        ),
        *("delimited", "environment", "epoch", "eras", "handshake", "has_initialized", "initialize", "introduced"),
        *("gaps", "in_flight", "is_guess", "last_seq", "learned", "likeness"),
        *("is_legacy", "is_modern", "last_initialize", "last_ns", "last_request", "lasting", "lost_seq", "memory"),
        *("listed_ui", "number", "observed_start", "opened_ns", "process", "received", "server", "server_capabilities"),
        *("server_is_modern", "state", "transport", "unjudged", "unread"),
    )

    def __init__(
        self,
        number: int,
        transport: str | None,
        opened_ns: int,
    ) -> None:
        self.number = number
        """The number of the session, from 1, in the order in which sessions began."""
        self.transport = transport
        """The transport: `stdio`, `http` or `import`; None if unknown."""
        self.opened_ns = opened_ns
        self.environment: Mapping[str, Any] = {}
        """The environment that the client gave to the server; see `Fold.environment`."""
        self.delimited: Delimiter = "connection" if transport != "http" else "peer"
        self.is_guess = False
        """Whether the client cannot be told apart from others: the messages may then come from several clients."""
        self.likeness: Session | None = None
        """The other session of the same client, if this one exists only because of a session id that was never
        issued."""
        self.in_flight = 0
        """How many requests of both sides have no response and were not cancelled."""
        self.observed_start = False
        """Whether all messages of the session are in the capture."""
        self.state: State = "new"
        self.initialize: Request | None = None
        """The `initialize` that is under way or was answered."""
        self.has_initialized = False
        """Whether `notifications/initialized` was sent, perhaps too early."""
        self.epoch = 0
        """How many handshakes were begun; on a pipe, a second one starts over."""
        self.is_modern: bool | None = None
        """Whether all client requests so far were of the modern era; None before the first."""
        self.eras: set[Era] = set()
        """The eras of the client's requests."""
        self.server_is_modern = False
        """Whether the server has sent something that only a modern-era server sends."""
        self.requested_revision: str | None = None
        """The revision that the client requested last."""
        self.negotiated_revision: str | None = None
        """The revision that a response has settled."""
        self.handshake: str | None = None
        """The revision of the handshake: the one requested, then the one agreed on."""
        self.agreed_seq = -1
        """Number of the message that settled a handshake's revision."""
        self.client: Peer | None = None
        self.server: Peer | None = None
        self.introduced: dict[Side, object] = {}
        """The last description that each side gave of itself."""
        self.client_capabilities: dict[str, Any] | None = None
        """The client's capabilities, declared in `initialize`."""
        self.server_capabilities: dict[str, Any] | None = None
        """The server's capabilities, declared in the result of `initialize` or in a `DiscoverResult`."""
        self.declared: dict[Era | None, DeclaredCapabilities] = {}
        """The server's capabilities by era: those of one era do not apply to requests of the other."""
        self.listed_ui: ListedUi | None = None
        """What the server's tools say about Apps; None if that is unknown, or nothing."""
        self.gaps: frozenset[str] = frozenset()
        """Methods for which any declaration of the server lacked the capability."""
        self.learned: frozenset[str] = frozenset()
        """Facts that rules have learned and other rules need, such as that a list is known
        (`analysis.rules.support`)."""
        self.received: dict[Side, int] = {"client": -1, "server": -1}
        """The last message of the other side that each side has provably received, because it answered that message
        (P2)."""
        self.last_seq: dict[Side, int] = {}
        """The number of each side's last message."""
        self.last_request: dict[Side, int] = {}
        """The number of each side's last request."""
        self.last_initialize = -1
        """The number of the last `initialize`."""
        self.unjudged: dict[Side, int] = {}
        """The number of each side's last message that could not be examined, and that may be a response to any
        request."""
        self.unread: dict[Side, int] = {}
        """How many invalid messages of each side no error without an id has answered yet."""
        self.last_ns = 0
        """The stamp of the last message, over HTTP only."""
        self.is_legacy = False
        """Whether responses come on the single stream of the older transport, not in the exchange of their request."""
        self.closed_ns: dict[Side, int] = {}
        """When each side closed its stream."""
        self.process: dict[str, Any] | None = None
        """The record of how the server's process ended."""
        self.memory: dict[str, Any] = {}
        """State that rules keep, by their ids; it is cleared when records are lost."""
        self.lasting: dict[str, Any] = {}
        """State that rules keep about streams and processes, which is kept when records are lost."""
        self.lost_seq = -1
        """Number of the last message before the last loss: responses to messages up to this one may be lost."""

    @property
    def revision(self) -> str | None:
        """The revision in use: the one last agreed on or, before that, the one last requested."""
        return self.negotiated_revision or self.requested_revision

    @property
    def revision_in_force(self) -> str | None:
        """The revision in force for messages other than requests and responses; None if a handshake may be lost."""
        return self.handshake or (None if self.lost_seq >= 0 else self.revision)

    def note_loss(self) -> None:
        """Note lost records: earlier messages no longer prove anything about missing ones.

        A completed handshake remains in force: another handshake on the same pipe would be a mistake, and is rare.
        """
        self.observed_start = False
        self.lost_seq = max(self.last_seq.values(), default=0)
        self.is_modern = False  # a lost request may have been of the older era
        self.eras.clear()
        self.declared.pop("modern", None)  # a later declaration may be lost
        if self.state in ("new", "init-sent"):
            self.state, self.initialize, self.handshake = "new", None, None
        self.memory = {}
        self.listed_ui = None

    @property
    def is_http(self) -> bool:
        """Whether the session runs over HTTP."""
        return self.transport == "http"

    def has_received(self, side: Side, seq: int) -> bool:
        """Whether a side has provably received message `seq` of the other side so far, on one ordered stream (P2)."""
        return not self.is_http and seq <= self.received[side]


def era_in_force(session: Session, revision: str | None) -> Era | None:
    """Returns the era of messages under a revision, which may be unknown, or None if the era is unknown."""
    rank = rank_of(revision)
    if rank is not None:
        return era_of(rank)
    return None if session.is_modern is None else "modern" if session.is_modern else "handshake"
