"""The methods of MCP, one row each: the sender, the required capability, and the revisions.

A row without revisions is a message of all of them, including those to come. `inputs` are the revisions in which the
method is not a message but an entry of `inputRequests`. What extensions add is in `extensions.py`.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.protocol import features
from analysis.protocol.revisions import ALL, FIRST_MODERN_RANK, HANDSHAKE_ERA, MODERN_ERA, Span

Sender: TypeAlias = Literal["client", "server", "both"]


class Method(NamedTuple):
    """One method."""

    name: str
    sender: Sender
    """Who may send it in the handshake era."""
    required_capability: str
    """The capability that it needs: of the receiver for requests, of the sender for notifications; empty for none."""
    revisions: Span | None = ALL
    """The revisions whose core defines it as a message; None for none."""
    inputs: Span | None = None
    """The revisions in which it is an entry of `inputRequests`."""

    @property
    def is_request(self) -> bool:
        """Whether it expects a response."""
        return not self.name.startswith("notifications/")

    def is_defined(self, rank: int | None) -> bool:
        """Whether a revision defines it as a message; if the revision is unknown, always True."""
        return rank is None or _includes(self.revisions, rank)

    def is_absent(self, rank: int) -> bool:
        """Whether a revision does not have it, neither as a message nor as an input request."""
        return not self.is_defined(rank) and not _includes(self.inputs, rank)

    def senders(self, rank: int | None) -> frozenset[str]:
        """Who may send it; in the modern era only the client sends requests, and only the server reports progress."""
        if self.sender != "both":
            return frozenset({self.sender})
        if rank is None or rank < FIRST_MODERN_RANK:
            return frozenset({"client", "server"})
        return _MODERN_SENDERS.get(self.name, frozenset({"client"}))


def _includes(span: Span | None, rank: int) -> bool:
    return span is not None and span.includes(rank)


_MODERN_SENDERS: Final = {
    "notifications/progress": frozenset({"server"}),
    "notifications/cancelled": frozenset({"client", "server"}),
}

_TABLE: Final = (
    Method("initialize", "client", "", HANDSHAKE_ERA),
    Method("notifications/initialized", "client", "", HANDSHAKE_ERA),
    Method("server/discover", "client", "", MODERN_ERA),
    Method("ping", "both", "", HANDSHAKE_ERA),
    Method("tools/list", "client", "tools"),
    Method("tools/call", "client", "tools"),
    Method("notifications/tools/list_changed", "server", "tools.listChanged"),
    Method("resources/list", "client", "resources"),
    Method("resources/templates/list", "client", "resources"),
    Method("resources/read", "client", "resources"),
    Method("resources/subscribe", "client", "resources.subscribe", HANDSHAKE_ERA),
    Method("resources/unsubscribe", "client", "resources.subscribe", HANDSHAKE_ERA),
    Method("notifications/resources/updated", "server", "resources.subscribe"),
    Method("notifications/resources/list_changed", "server", "resources.listChanged"),
    Method("prompts/list", "client", "prompts"),
    Method("prompts/get", "client", "prompts"),
    Method("notifications/prompts/list_changed", "server", "prompts.listChanged"),
    Method("completion/complete", "client", "completions"),
    Method("logging/setLevel", "client", "logging", HANDSHAKE_ERA),
    Method("notifications/message", "server", "logging"),
    Method("roots/list", "server", "roots", HANDSHAKE_ERA, MODERN_ERA),
    Method("notifications/roots/list_changed", "client", "roots.listChanged", HANDSHAKE_ERA),
    Method("sampling/createMessage", "server", "sampling", HANDSHAKE_ERA, MODERN_ERA),
    Method("elicitation/create", "server", "elicitation", features.ELICITATION.within(HANDSHAKE_ERA), MODERN_ERA),
    Method("notifications/elicitation/complete", "server", "elicitation.url", features.ELICITATION_IDS),
    Method("notifications/progress", "both", ""),
    Method("notifications/cancelled", "both", ""),
    Method("tasks/get", "both", "tasks", features.CORE_TASKS),
    Method("tasks/result", "both", "tasks", features.CORE_TASKS),
    Method("tasks/list", "both", "tasks.list", features.CORE_TASKS),
    Method("tasks/cancel", "both", "tasks.cancel", features.CORE_TASKS),
    Method("notifications/tasks/status", "both", "", features.CORE_TASKS),
    Method("subscriptions/listen", "client", "", MODERN_ERA),
    Method("notifications/subscriptions/acknowledged", "server", "", MODERN_ERA),
)

METHODS: Final = {method.name: method for method in _TABLE}
"""Every method that a revision defines, by name."""

REQUEST_METHODS: Final = frozenset(name for name, method in METHODS.items() if method.is_request)
"""The methods that expect a response."""

ENDLESS_CORE_METHODS: Final = frozenset({"subscriptions/listen"})
"""The methods of requests that normally get no response, and end with a cancellation."""

METHOD_GROUPS: Final = frozenset(name.partition("/")[0] for name in METHODS if "/" in name)
"""The parts before the slash in these names."""

OPENING_METHODS: Final = frozenset({"initialize", "server/discover"})
"""Client requests that open a session: over stdio, their latency includes the start of the server."""

MODERN_METHODS: Final = frozenset(
    method.name
    for method in _TABLE
    if method.is_request and method.revisions and method.revisions.first >= FIRST_MODERN_RANK
)
"""Client requests that exist only in the modern era, regardless of their params."""

UNPREFIXED_NOTIFICATIONS: Final = {
    name.removeprefix("notifications/"): name for name in METHODS if name.startswith("notifications/")
} | {"logging/message": "notifications/message"}
"""Names of notifications without their prefix, as some peers send them → the correct names."""
