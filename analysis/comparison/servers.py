"""Which servers a side has, and which servers of both sides are compared with each other.

A side may be a folder with captures of several servers. Each capture is of one server, known by the name that it gives
itself. Servers with the same name are compared, and so are the only two that are left: the server was renamed.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeVar

from analysis.comparison.requests import bounded
from analysis.reading import Reading

Observed = TypeVar("Observed")

MAX_SERVERS: Final = 1_000
"""The most servers of one side that are told apart; captures of further ones are not compared."""


class ServerPair(NamedTuple):
    """The keys of a server on both sides."""

    old: str
    new: str


class ServerPairs(NamedTuple):
    """The servers of both sides."""

    pairs: list[ServerPair]
    only_old: list[str]
    """Servers that nothing on the new side can be compared with."""
    only_new: list[str]

    def suffix(self, pair: ServerPair) -> str:
        """Returns what names the server at the end of a subject: empty if it is the only one. Untrusted text."""
        return "" if len(self.pairs) <= 1 else f" of {pair.new or pair.old or 'a server without a name'}"


def server_key(reading: Reading) -> str:
    """Returns the name that the server of a capture gives itself, truncated; empty if it is unknown."""
    server = reading.capture.server
    return "" if server is None else bounded(server.name)


def merge_unnamed(servers: dict[str, Observed], merge: Callable[[Observed, Observed], Observed]) -> None:
    """Merge the captures that do not name their server with those of the only server that the side names.

    Args:
        servers: what was observed of each server, by key.
        merge: returns the union of what was observed of the named server and of the other one.
    """
    if len(servers) == 2 and "" in servers:
        unnamed = servers.pop("")
        for key, named in servers.items():
            servers[key] = merge(named, unnamed)


def pair_servers(old: Collection[str], new: Collection[str]) -> ServerPairs:
    """Returns which servers are compared with each other.

    Args:
        old: the keys of the servers on the old side.
        new: those on the new side.
    """
    pairs = [ServerPair(key, key) for key in sorted(old) if key in new]
    only_old = sorted(key for key in old if key not in new)
    only_new = sorted(key for key in new if key not in old)
    if len(only_old) == 1 and len(only_new) == 1:
        pairs.append(ServerPair(only_old.pop(), only_new.pop()))
    return ServerPairs(pairs, only_old, only_new)
