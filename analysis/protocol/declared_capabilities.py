"""Capabilities: what a side has declared, and which capabilities it therefore certainly has or lacks.

`has` and `lacks` may both return False for a capability: `"tools": null` says neither. Each rule uses the test that it
needs.
"""

from typing import Any, NamedTuple

from analysis.protocol.methods import METHODS


class DeclaredCapabilities(NamedTuple):
    """The capabilities that a server declared, in the response to an `initialize` or in a `DiscoverResult`."""

    capabilities: dict[str, Any]
    seq: int
    """The number of the response."""
    t_ns: int
    """The stamp of the response."""
    conn: int
    """The connection that carried it; 0 on stdio."""
    is_awaited: bool
    """Whether the client waited for the response, and so knew the capabilities in everything it did later."""
    uncovered_methods: frozenset[str]
    """Methods that need a capability that is not declared."""


def declaration_of(
    capabilities: dict[str, Any], seq: int, t_ns: int, conn: int, *, is_awaited: bool
) -> DeclaredCapabilities:
    """The capabilities that a server declared, and the consequences for each method."""
    gaps = frozenset(
        name
        for name, method in METHODS.items()
        if method.required_capability and lacks(capabilities, method.required_capability)
    )
    return DeclaredCapabilities(capabilities, seq, t_ns, conn, is_awaited, gaps)


def lacks(capabilities: dict[str, Any], path: str) -> bool:
    """Whether a capability such as `tools` or `resources.subscribe` is certainly not declared.

    An invalid form of declaration, such as `"tools": true`, still counts as declared.
    """
    value: Any = capabilities
    for name in path.split("."):
        if not isinstance(value, dict):
            return False
        value = value.get(name, False)
        if value is False:
            return True
    return False


def has(capabilities: dict[str, Any], path: str) -> bool:
    """Whether a capability is certainly declared."""
    value: Any = capabilities
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value is not None and value is not False
