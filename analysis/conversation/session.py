"""Session: one conversation between a client and a server, as far as known.

Its key is a number assigned here; the session id of MCP exists in some revisions only. If the protocol has no sessions,
it is all traffic of one connection (stdio) or one peer (HTTP, inferred). The requests of its sides are in the tables of
the fold (`Fold.tables`), which over HTTP has one for all sessions.
"""

from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.message import Request, Side
from analysis.protocol.declared_capabilities import Declared
from analysis.protocol.revisions import Era, era_of, rank_of

State: TypeAlias = Literal["new", "init-sent", "init-answered", "ready"]
"""The progress of the handshake: nothing, `initialize` sent, answered with a result, `initialized` sent."""
Delimited: TypeAlias = Literal["session", "connection", "peer"]
"""What distinguishes it from others: a handshake or session id, a process run, or a guess."""

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
        *(
            "negotiated_revision",
            "agreed_seq",
            "requested_revision",
            "client",
            "client_capabilities",
            "closed_ns",
            "declared",
        ),
        *("delimited", "epoch", "eras", "handshake", "has_initialized", "last_seq", "initialize", "introduced"),
        *("gaps", "in_flight", "is_guess", "learned", "likeness"),
        *("is_legacy", "is_modern", "last_initialize", "last_ns", "last_request", "lasting", "lost_seq", "memory"),
        *("number", "observed_start", "opened_ns", "process", "received", "server", "server_capabilities"),
        *("server_is_modern", "state", "transport", "unjudged", "unread"),
    )

    def __init__(
        self,
        number: int,
        transport: str | None,
        opened_ns: int,
    ) -> None:
        self.number = number
        """From 1, in the order in which they began."""
        self.transport = transport
        """`stdio` or `http`."""
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
        self.last_seq: dict[Side, int] = {}
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
        self.memory: dict[str, Any] = {}
        """State that rules keep, by their ids; lost records end it."""
        self.lasting: dict[str, Any] = {}
        """State that rules keep about streams and processes, which lost records do not end."""
        self.lost_seq = -1
        """Number of the last message before the last loss: what messages up to it wait for may be lost."""

    @property
    def revision(self) -> str | None:
        """The revision in use: the one last agreed on; before that, the one last requested."""
        return self.negotiated_revision or self.requested_revision

    @property
    def revision_in_force(self) -> str | None:
        """The revision for messages other than requests and responses; unknown if a handshake may be lost."""
        return self.handshake or (None if self.lost_seq >= 0 else self.revision)

    def note_loss(self) -> None:
        """Note lost records: earlier messages no longer prove anything about missing ones.

        A completed handshake stays: another one on the same pipe would be a mistake, and is rare.
        """
        self.observed_start = False
        self.lost_seq = max(self.last_seq.values(), default=0)
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


def era_in_force(session: Session, revision: str | None) -> Era | None:
    """The era of messages under a revision, or under an unknown one."""
    rank = rank_of(revision)
    if rank is not None:
        return era_of(rank)
    return None if session.is_modern is None else "modern" if session.is_modern else "handshake"
