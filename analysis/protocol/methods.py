"""The methods of MCP, one row each: the sender, the revisions, and the required capability.

In the table, A to E are the revisions, oldest first; `●` is a message of that revision, `◐` not a message but an entry
of `inputRequests`. What extensions add is in `extensions.py`.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.protocol.revisions import FIRST_MODERN_RANK, REVISIONS

Sender: TypeAlias = Literal["client", "server", "both"]


class Method(NamedTuple):
    """One method."""

    name: str
    sender: Sender
    """Who may send it in the handshake era."""
    required_capability: str
    """The capability that it needs: of the receiver for requests, of the sender for notifications; empty for none."""
    marks: str
    """One mark for each revision, `·` where it is not defined."""

    @property
    def is_request(self) -> bool:
        """Whether it expects a response."""
        return not self.name.startswith("notifications/")

    def mark(self, rank: int) -> str:
        """Its mark for a revision."""
        return self.marks[rank]

    def is_defined(self, rank: int | None) -> bool:
        """Whether a revision defines it as a message; if the revision is unknown, always True."""
        return rank is None or self.marks[rank] == "●"

    def senders(self, rank: int | None) -> frozenset[str]:
        """Who may send it; in the modern era only the client sends requests, and only the server reports progress."""
        if self.sender != "both":
            return frozenset({self.sender})
        if rank is None or rank < FIRST_MODERN_RANK:
            return frozenset({"client", "server"})
        return _MODERN_SENDERS.get(self.name, frozenset({"client"}))


_MODERN_SENDERS: Final = {
    "notifications/progress": frozenset({"server"}),
    "notifications/cancelled": frozenset({"client", "server"}),
}

#       name                                          from      gate                      ABCDE
_TABLE: Final = (
    Method("initialize", "client", "", "●●●●·"),
    Method("notifications/initialized", "client", "", "●●●●·"),
    Method("server/discover", "client", "", "····●"),
    Method("ping", "both", "", "●●●●·"),
    Method("tools/list", "client", "tools", "●●●●●"),
    Method("tools/call", "client", "tools", "●●●●●"),
    Method("notifications/tools/list_changed", "server", "tools.listChanged", "●●●●●"),
    Method("resources/list", "client", "resources", "●●●●●"),
    Method("resources/templates/list", "client", "resources", "●●●●●"),
    Method("resources/read", "client", "resources", "●●●●●"),
    Method("resources/subscribe", "client", "resources.subscribe", "●●●●·"),
    Method("resources/unsubscribe", "client", "resources.subscribe", "●●●●·"),
    Method("notifications/resources/updated", "server", "resources.subscribe", "●●●●●"),
    Method("notifications/resources/list_changed", "server", "resources.listChanged", "●●●●●"),
    Method("prompts/list", "client", "prompts", "●●●●●"),
    Method("prompts/get", "client", "prompts", "●●●●●"),
    Method("notifications/prompts/list_changed", "server", "prompts.listChanged", "●●●●●"),
    Method("completion/complete", "client", "completions", "●●●●●"),
    Method("logging/setLevel", "client", "logging", "●●●●·"),
    Method("notifications/message", "server", "logging", "●●●●●"),
    Method("roots/list", "server", "roots", "●●●●◐"),
    Method("notifications/roots/list_changed", "client", "roots.listChanged", "●●●●·"),
    Method("sampling/createMessage", "server", "sampling", "●●●●◐"),
    Method("elicitation/create", "server", "elicitation", "··●●◐"),
    Method("notifications/elicitation/complete", "server", "elicitation.url", "···●·"),
    Method("notifications/progress", "both", "", "●●●●●"),
    Method("notifications/cancelled", "both", "", "●●●●●"),
    Method("tasks/get", "both", "tasks", "···●·"),
    Method("tasks/result", "both", "tasks", "···●·"),
    Method("tasks/list", "both", "tasks.list", "···●·"),
    Method("tasks/cancel", "both", "tasks.cancel", "···●·"),
    Method("notifications/tasks/status", "both", "", "···●·"),
    Method("subscriptions/listen", "client", "", "····●"),
    Method("notifications/subscriptions/acknowledged", "server", "", "····●"),
)

if any(len(method.marks) != len(REVISIONS) for method in _TABLE):
    raise ValueError("a row of the methods does not have a mark for each revision")

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

MODERN_METHODS: Final = frozenset({"server/discover", "subscriptions/listen"})
"""Client requests that exist only in the modern era, regardless of their params."""

UNPREFIXED_NOTIFICATIONS: Final = {
    name.removeprefix("notifications/"): name for name in METHODS if name.startswith("notifications/")
} | {"logging/message": "notifications/message"}
"""Names of notifications without their prefix, as some peers send them → the correct names."""
