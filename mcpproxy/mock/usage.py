"""What clients used of a mock: the recorded calls that were answered, and the misses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from analysis.playback.items import Item
from analysis.playback.script import Script
from mcpproxy.sanitise import sanitise

if TYPE_CHECKING:
    from analysis.playback.nearest import NearestRequest  # only a miss needs it

MAX_MISSES: Final = 20
"""How many misses are kept; further ones are counted only."""


class Miss(NamedTuple):
    """A request that matches no recorded one."""

    method: str
    """Untrusted text."""
    name: str
    """The tool, prompt or URI that it names. Untrusted text."""
    nearest: NearestRequest | None
    failure: str = ""
    """Why the real server, which was asked, gave no answer. Untrusted text."""


class UnusedRequests(NamedTuple):
    """Recorded requests for the same thing that no client sent."""

    method: str
    """Untrusted text."""
    name: str
    """Untrusted text."""
    seqs: tuple[int, ...]
    """The numbers of the first frames, at most ten."""
    request_count: int


class Usage:
    """What was used of a script, over all conversations of a mock. Not safe for several threads."""

    def __init__(self, on_notice: Callable[[str], None] | None = None) -> None:
        """Begin with nothing used.

        Args:
            on_notice: called with what the user should know at once, as a sanitised line.
        """
        self._on_notice = on_notice
        self._has_noted_revision = False
        self.calls: set[int] = set()
        """The numbers of the recorded calls that were answered to a client at least once."""
        self.answered_count = 0
        """How many requests matched a recorded one."""
        self.miss_count = 0
        self.misses: list[Miss] = []
        """The first misses."""
        self.probes: set[str] = set()
        """The methods by which clients asked for the era that was not recorded: they fall back to the other one."""
        self.invalid_count = 0
        """How many units of bytes from clients were no message."""
        self.unsendable_count = 0
        """How many recorded units of bytes were not sent to clients, because they cannot be a line."""

    def add_use(self, call: int) -> None:
        """Note that a request gets the answer of a recorded call."""
        self.answered_count += 1
        self.calls.add(call)

    def add_miss(self, miss: Miss) -> None:
        """Note a request that matches no recorded one."""
        self.miss_count += 1
        if len(self.misses) < MAX_MISSES:
            self.misses.append(miss)

    def note_revision(self, requested: str, recorded: str) -> None:
        """Report once that a client asks for another revision than the recorded client. Untrusted text."""
        if not self._has_noted_revision:
            self._has_noted_revision = True
            if self._on_notice is None:
                return
            self._on_notice(
                f"the client asks for revision {sanitise(requested, 32)}; it gets the recorded answer to a client that "
                f"asked for {sanitise(recorded, 32)}"
            )

    def unused_requests(self, script: Script) -> list[UnusedRequests]:
        """Returns the recorded requests that no client sent, grouped by method and name, in the recorded order."""
        groups: dict[tuple[str, str], list[int]] = {}
        for item, call, method, name in client_requests(script.items):
            if call not in self.calls and method != "ping":
                groups.setdefault((method, name), []).append(item.seq)
        return [UnusedRequests(method, name, tuple(seqs[:10]), len(seqs)) for (method, name), seqs in groups.items()]


def client_requests(items: Sequence[Item]) -> Iterator[tuple[Item, int, str, str]]:
    """Yields each request of the client: its item, call, method and name. Repeated items are left out."""
    for item in items:
        if item.sender != "client" or item.is_repeat:
            continue
        if item.kind == "request":
            yield item, item.call, item.method, item.name
        for member in item.members:
            if member.kind == "request":
                yield item, member.call, member.method, member.name
