"""Capabilities: what a side has declared, and what by that it surely has, or surely lacks.

Both may be false of the same capability: `"tools": null` says neither. Rules accuse on the one that they need.
"""

from typing import Any, NamedTuple

from analysis.protocol.methods import METHODS


class Declared(NamedTuple):
    """What a server declared, in the answer to an `initialize` or in a `DiscoverResult`."""

    capabilities: dict[str, Any]
    seq: int
    """Number of the answer."""
    t_ns: int
    """Its stamp."""
    conn: int
    """The connection that carried it; 0 on stdio."""
    is_awaited: bool
    """Whether the client waited for it, so that all it did later was done in knowledge of it."""
    gaps: frozenset[str]
    """Methods that need a capability which is not declared."""


def declared(capabilities: dict[str, Any], seq: int, t_ns: int, conn: int, *, is_awaited: bool) -> Declared:
    """What a server declared, and what that means for each method."""
    gaps = frozenset(name for name, method in METHODS.items() if method.gate and lacks(capabilities, method.gate))
    return Declared(capabilities, seq, t_ns, conn, is_awaited, gaps)


def lacks(capabilities: dict[str, Any], path: str) -> bool:
    """Whether it is sure that a capability is not declared, such as `tools` or `resources.subscribe`.

    What is written as no capability should be, such as `"tools": true`, is meant all the same.
    """
    here: Any = capabilities
    for name in path.split("."):
        if not isinstance(here, dict):
            return False
        here = here.get(name, False)
        if here is False:
            return True
    return False


def has(capabilities: dict[str, Any], path: str) -> bool:
    """Whether it is sure that a capability is declared."""
    here: Any = capabilities
    for name in path.split("."):
        here = here.get(name) if isinstance(here, dict) else None
    return here is not None and here is not False
