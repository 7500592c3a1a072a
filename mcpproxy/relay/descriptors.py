"""How many clients can connect: each takes two descriptors, one for its own connection and one for the upstream."""

import resource
from typing import Final

USUAL: Final = 1024
"""Default number of simultaneous connections."""
SPARE: Final = 32
"""Descriptors for ourselves, and for surplus clients, which get a 503."""


class TooFewDescriptors(Exception):
    """The system does not let this process open enough files for the connections."""

    def __init__(self, needed: int, allowed: int) -> None:
        super().__init__(f"{needed} open files are needed and {allowed} allowed")
        self.needed = needed
        self.allowed = allowed

    @property
    def connections(self) -> int:
        """How many connections the limit on open files allows."""
        return _connections(self.allowed)


def connections(requested: int | None) -> int:
    """Returns how many connections to serve at a time; raises the soft limit on open files as far as they need.

    Args:
        requested: exactly this many; None for the default, or for as many as the system allows if that is fewer.

    Raises:
        TooFewDescriptors: the system allows fewer than `requested`.
    """
    needed = 2 * (USUAL if requested is None else requested) + SPARE
    allowed = _raised(needed)
    if allowed >= needed:
        return USUAL if requested is None else requested
    if requested is None:
        return _connections(allowed)
    raise TooFewDescriptors(needed, allowed)


def all_connections() -> int:
    """Returns how many connections the system allows at most; raises the soft limit on open files to the hard one."""
    return _connections(_raised(_finite(resource.getrlimit(resource.RLIMIT_NOFILE)[1])))


def _connections(descriptors: int) -> int:
    return max(1, (descriptors - SPARE) // 2)


def _raised(needed: int) -> int:
    """The soft limit, raised to what is needed or as far as possible."""
    soft, hard = (_finite(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if soft < needed and soft < hard:
        try:
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (min(needed, hard), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            )
        except (OSError, ValueError):  # some systems enforce a lower limit than they report
            return soft
        return min(needed, hard)
    return soft


def _finite(limit: int) -> int:
    return 1 << 40 if limit == resource.RLIM_INFINITY else limit
