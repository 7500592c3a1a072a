"""The capabilities of MCP, one row each: the side that declares it, the revisions that define it, and its flags."""

from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.protocol import features
from analysis.protocol.revisions import ALL, MODERN_ERA, Span

Declarer: TypeAlias = Literal["client", "server"]


class Capability(NamedTuple):
    """One capability of one side."""

    declarer: Declarer
    name: str
    revisions: Span = ALL
    """The revisions that define it."""
    flags: tuple[str, ...] = ()
    """Its members that are booleans."""


_TABLE: Final = (
    Capability("client", "experimental"),
    Capability("client", "roots", flags=("listChanged",)),
    Capability("client", "sampling"),
    Capability("client", "elicitation", features.ELICITATION),
    Capability("client", "tasks", features.CORE_TASKS),
    Capability("client", "extensions", MODERN_ERA),
    Capability("server", "experimental"),
    Capability("server", "logging"),
    Capability("server", "prompts", flags=("listChanged",)),
    Capability("server", "resources", flags=("listChanged", "subscribe")),
    Capability("server", "tools", flags=("listChanged",)),
    Capability("server", "completions", features.COMPLETION_CAPABILITY),
    Capability("server", "tasks", features.CORE_TASKS),
    Capability("server", "extensions", MODERN_ERA),
)


def _capabilities_of(declarer: Declarer) -> dict[str, Capability]:
    return {row.name: row for row in _TABLE if row.declarer == declarer}


CAPABILITIES: Final[dict[Declarer, dict[str, Capability]]] = {
    "client": _capabilities_of("client"),
    "server": _capabilities_of("server"),
}
"""Every capability that a revision defines, by the side that declares it and by name."""
