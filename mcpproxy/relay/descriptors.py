"""Computes how many clients can connect: each needs two descriptors, for its own connection and for the upstream."""

import resource
from typing import Final

DEFAULT_CONNECTIONS: Final = 1024
"""The default number of simultaneous connections."""
SPARE_DESCRIPTORS: Final = 32
"""The number of descriptors for mcpproxy itself, and for surplus clients, which receive a 503."""


class TooFewDescriptors(Exception):
    """The system does not let this process open enough files for the connections."""

    def __init__(self, needed: int, allowed: int) -> None:
        super().__init__(f"{needed} open files are needed and {allowed} allowed")
        self.needed = needed
        self.allowed = allowed

    @property
    def max_connections(self) -> int:
        """The number of connections that the limit on open files allows."""
        return _connections_within(self.allowed)


def reserve_connections(requested_count: int | None) -> int:
    """Returns how many connections to serve at a time; raises the soft limit on open files as far as needed.

    Args:
        requested_count: the exact number; None for the default, or for as many as the system allows if that is fewer.

    Raises:
        TooFewDescriptors: the system allows fewer than `requested_count`.
    """
    needed = 2 * (DEFAULT_CONNECTIONS if requested_count is None else requested_count) + SPARE_DESCRIPTORS
    allowed = _raise_soft_limit(needed)
    if allowed >= needed:
        return DEFAULT_CONNECTIONS if requested_count is None else requested_count
    if requested_count is None:
        return _connections_within(allowed)
    raise TooFewDescriptors(needed, allowed)


def reserve_all_connections() -> int:
    """Returns the maximum number of connections; raises the soft limit on open files to the hard limit."""
    return _connections_within(_raise_soft_limit(_finite_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[1])))


def _connections_within(descriptors: int) -> int:
    return max(1, (descriptors - SPARE_DESCRIPTORS) // 2)


def _raise_soft_limit(needed: int) -> int:
    """Raise the soft limit to the needed number, or as far as possible; returns the new limit."""
    soft, hard = (_finite_limit(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if soft < needed and soft < hard:
        try:
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (min(needed, hard), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            )
        except (OSError, ValueError):  # some systems enforce a lower limit than they report
            return soft
        return min(needed, hard)
    return soft


def _finite_limit(limit: int) -> int:
    return 1 << 40 if limit == resource.RLIM_INFINITY else limit
